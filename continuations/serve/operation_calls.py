"""One call of the runner for an operation, and the JSON form of its result.

The HTTP API, the command line and the console make the same call. The first two show
the same form of the result, with the texts that the viewer may read.
"""

from __future__ import annotations

import logging
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from continuations.engine.ports import SystemClock
from continuations.ledger.arrivals.recorded_decisions import decided_wait_ids
from continuations.present import json_forms
from continuations.present.json_forms import Report
from continuations.serve.rights import name_of
from continuations.wire.report import to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from continuations.core.identity import Identity
    from continuations.core.messages import Detail
    from continuations.core.reading.run_past import RewindPlan, Rewound, RunDifference
    from continuations.core.rows.decisions import Door
    from continuations.core.rows.event_matching import UntakenSignal
    from continuations.engine.outcomes import Outcome, SendResult
    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.engine.sweep.sweeping import SweepResult
    from continuations.ledger.claims import Clock
    from continuations.serve.operations import Actor, Operation
    from continuations.wire.continuation import Continuation

_log = logging.getLogger("continuations")
PATH_NAME = re.compile(r"\{(\w+)\}")


class Sender(NamedTuple):
    """The sender of a request: the person or program, and the way."""

    identity: str | Identity
    door: Door

    @property
    def name(self) -> str:
        """The name of the person or program."""
        return name_of(self.identity)


class Arguments(NamedTuple):
    """The arguments of a method of the runner."""

    by_position: tuple[Any, ...]
    by_name: dict[str, Any]


def arguments_of(
    operation: Operation, given: Mapping[str, Any], sender: Sender
) -> Arguments:
    """Return the arguments of the call that an operation makes.

    Args:
        operation: A row with a `call`.
        given: The parameters of the path, and the fields of the body or query.
        sender: The sender, of whom the row says what the method takes.

    Returns:
        The arguments by position and by name.
    """
    names = positional_names(operation)
    facts: dict[Actor, tuple[str, object]] = {
        "by": ("by", sender.name),
        "identity": ("by", sender.identity),
        "door": ("door", sender.door),
    }
    own = {name: given[name] for name in given if name not in names}
    known = dict(facts[each] for each in operation.sender)
    return Arguments(tuple(given[name] for name in names), {**own, **known})


def positional_names(operation: Operation) -> tuple[str, ...]:
    """Return what the method takes by position: first the parameters of the path."""
    return (*PATH_NAME.findall(operation.path), *operation.positional)


def goes_on(result: Any) -> bool:
    """Return whether a worker has something to do: a number of waits may be zero."""
    return getattr(result, "status", "suspended") == "suspended" and bool(result)


# Forms --------------------------------------------------------------------------


class Viewer(Protocol):
    """The reader of a form: an HTTP request, a command, or an event of AWS Lambda."""

    @property
    def runner(self) -> AsyncRunner:
        """The runner whose store has the run."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock for deadlines."""
        ...

    @property
    def path_params(self) -> Mapping[str, str]:
        """The parameters of the path of the operation."""
        ...

    async def detail(self, run_id: str, /) -> Detail:
        """Return which texts of a run the reader may read."""
        ...


class TextsViewer(NamedTuple):
    """A reader who reaches the store or the function itself, and so reads the texts.

    Attributes:
        runner: The runner whose store has the run.
        clock: The clock for deadlines.
        path_params: The parameters of the path of the operation.
        shown: The texts that the reader may read; fewer for a client of a door.
    """

    runner: AsyncRunner
    clock: Clock = SystemClock()
    path_params: Mapping[str, str] = MappingProxyType({})
    shown: Detail = "texts"

    async def detail(self, _run_id: str, /) -> Detail:
        """Return which texts of a run the reader may read."""
        return self.shown


Render: TypeAlias = "Callable[[Viewer, str, Any], Coroutine[Any, Any, dict[str, Any]]]"
"""Returns the JSON form of a result; the text is the id of the run."""


# Each of these returns a form with the texts that the reader may read, and without the
# waits that are decided. They raise `StoreError` if the decisions cannot be read.


async def report_of(viewer: Viewer, run_id: str, run: Continuation | None) -> Report:
    """Return what the form of a run says beside its version.

    A version may contain waits that are decided since, so the report of a run with
    waits costs one listing of its decisions.
    """
    store = viewer.runner.store
    decided = () if run is None else await decided_wait_ids(store, run)
    return Report(viewer.clock.now(), decided, await viewer.detail(run_id))


async def run_response(viewer: Viewer, run: Continuation) -> dict[str, Any]:
    """Return a run as JSON values (`run`).

    Args:
        viewer: The reader, who may lack the right to its texts.
        run: The run.

    Returns:
        The form, with the waits that are not decided yet.

    Raises:
        StoreError: The decisions of the run cannot be read.
    """
    return json_forms.run_json(run, await report_of(viewer, run.run_id, run))


async def outcome_response(viewer: Viewer, outcome: Outcome) -> dict[str, Any]:
    """Return the outcome of a start or resume as JSON values (`outcome`).

    Args:
        viewer: The reader, who may lack the right to its texts.
        outcome: The outcome.

    Returns:
        The form, with the waits that are not decided yet.

    Raises:
        StoreError: The decisions of the run cannot be read.
    """
    report = await report_of(viewer, outcome.run_id, outcome.continuation)
    return json_forms.outcome_json(outcome, report)


async def reply_response(
    viewer: Viewer, result: SendResult[Any], number: int
) -> dict[str, Any]:
    """Return the result of a message as JSON values (`thread_reply`).

    Args:
        viewer: The reader, who may lack the right to its texts.
        result: The result of the message.
        number: The number of the message.

    Returns:
        The form.

    Raises:
        StoreError: The decisions of the run cannot be read.
    """
    run: Continuation | None = getattr(result, "continuation", None)
    report = await report_of(viewer, result.run_id, run)
    return json_forms.reply_json(result, report, run_id=result.run_id, number=number)


def sweep_response(result: SweepResult) -> dict[str, Any]:
    """Return the result of a sweep as JSON values (`sweep_result`); log its errors.

    The form has only the name of each problem. The text of an error may name keys,
    buckets and machines, so it goes to the log.

    Args:
        result: The result.

    Returns:
        The form.
    """
    for run_id, error in result.errors.items():
        _log.warning("run %s cannot go on: %s: %s", run_id, type(error).__name__, error)
    return json_forms.SWEEP_RESULT.of(result)


async def _run(viewer: Viewer, _: str, run: Continuation) -> Any:
    return await run_response(viewer, run)


def _of_run(name: str) -> Render:
    """Return the form of a result that has only the id of its run beside it."""

    async def render(_: Viewer, run_id: str, result: Any) -> dict[str, Any]:
        return {"run_id": run_id, name: to_json(result)}

    return render


async def plain_form(_: Viewer, __: str, result: Any) -> dict[str, Any]:
    """Show a result by the fields of its class, like each form without a row here."""
    form: dict[str, Any] = to_json(result)
    return form


async def _revoked(viewer: Viewer, run_id: str, _: None) -> Any:
    grant = viewer.path_params["grant"]
    return {"run_id": run_id, "grant": grant, "revoked": True}


async def _signals(
    viewer: Viewer, run_id: str, signals: Sequence[UntakenSignal]
) -> Any:
    """Show the signals; their data needs the right to read."""
    shown = to_json(signals)
    if await viewer.detail(run_id) == "states":
        for each in shown:
            del each["data"]
    return {"run_id": run_id, "signals": shown}


async def _rewind(viewer: Viewer, run_id: str, rewind: RewindPlan | Rewound) -> Any:
    return json_forms.rewind_json(rewind, await viewer.detail(run_id))


async def _difference(viewer: Viewer, run_id: str, difference: RunDifference) -> Any:
    return json_forms.difference_json(difference, await viewer.detail(run_id))


FORMS: Mapping[str, Render] = {
    "audit": _of_run("lines"),
    "dropped_signals": _of_run("dropped"),
    "grant_list": _of_run("grants"),
    "revoked_grant": _revoked,
    "rewind_plan": _rewind,
    "rewound": _rewind,
    "run": _run,
    "run_difference": _difference,
    "sent_message": _of_run("number"),
    "sent_signal": _of_run("number"),
    "signal_list": _signals,
    "woken_waits": _of_run("waits"),
}
"""By the name of the form: the function that shows the result of an operation.

The others are shown by `plain_form`.
"""
