"""Call a hook or a guardrail of an application, and check what it returns."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from continuations.authoring import callables
from continuations.engine.error_reports import describe_error
from continuations.errors import HookFailed

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("continuations")


class HookProblem(Exception):
    """A hook raised, or returned something invalid; the text says which."""


async def call_hook(
    function: Callable[..., Any],
    info: object,
    changes: tuple[type[Any], ...],
    *,
    who: str,
) -> Any:
    """Return the change that a function of an application returns, or `None`.

    `who` is the function with its run and agent, for the log. Raises `HookProblem`.
    """
    try:
        change: object = await callables.call(function, info)
    except BaseException as error:
        if callables.is_task_cancellation(error):
            raise
        _log.warning("%s raised: %s", who, describe_error(error))
        _log.debug("%s", who, exc_info=error)
        msg = f"raised {type(error).__name__}"
        raise HookProblem(msg) from error
    if change is None or isinstance(change, changes):
        return change
    wanted = " or ".join(["None", *(each.__name__ for each in changes)])
    msg = f"returned {type(change).__name__} instead of {wanted}"
    raise HookProblem(msg)


def turn_error(hook: str, agent: str, run_id: str, problem: object) -> HookFailed:
    """Return the error of a turn whose hook or guardrail failed."""
    msg = (
        f"run {run_id}: {hook} of agent {agent!r} {problem}. The turn is not recorded. "
        "Correct the function, then resume the run."
    )
    error = HookFailed(msg, run_id=run_id)
    error.hook = hook
    return error
