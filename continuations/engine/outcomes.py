"""What a call to a run returns: it finished, it waits, or it failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.authoring.errors import OutputInvalid
from continuations.core.run import Failure
from continuations.errors import AgentChanged

if TYPE_CHECKING:
    from continuations.authoring.agent import Agent
    from continuations.authoring.manifest import ManifestChange
    from continuations.core.usage import Usage
    from continuations.core.waits import Wait
    from continuations.wire.continuation import Continuation


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The run came to its end.

    `output` is the last text of the root agent, or a value of the type that it
    declares. `changes` are differences between the code that began the run and the
    code that ended it.
    """

    run_id: str
    output: Any
    usage: Usage
    continuation: Continuation
    code_changes: tuple[ManifestChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended:
    """The run stands still, costs nothing, and moves on when a wait is decided.

    `paused` says that it stands still for want of time alone: it can be resumed at
    once, and a marker that is due now says so to the next sweep.
    """

    run_id: str
    waits: tuple[Wait, ...]
    continuation: Continuation
    code_changes: tuple[ManifestChange, ...] = ()
    paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The run ended without a result, for good; also when it was cancelled."""

    run_id: str
    error: Failure
    continuation: Continuation
    code_changes: tuple[ManifestChange, ...] = ()


Outcome: TypeAlias = Finished | Suspended | Failed


def _parse_output(run_id: str, agent: Agent | None, text: str) -> Any:
    if agent is None:
        return text
    try:
        return agent.parse_output(text)
    except OutputInvalid as error:
        msg = (
            f"Run {run_id} has finished, and agent {agent.name!r} declares another "
            "type for its output by now. The text is in look(run_id).output."
        )
        raise AgentChanged(msg, run_id=run_id) from error


def outcome_of(
    continuation: Continuation,
    agent: Agent | None,
    code_changes: tuple[ManifestChange, ...] = (),
    *,
    paused: bool = False,
) -> Outcome:
    """Return the outcome that a run's state stands for.

    Without the agent a finished run's output is its text.
    """
    run_id = continuation.run_id
    if continuation.status == "finished":
        text = continuation.output or ""
        return Finished(
            run_id=run_id,
            output=_parse_output(run_id, agent, text),
            usage=continuation.usage,
            continuation=continuation,
            code_changes=code_changes,
        )
    if continuation.status in ("failed", "cancelled"):
        unnamed = Failure(code=continuation.status, message="")
        error = continuation.failure or unnamed
        return Failed(
            run_id=run_id,
            error=error,
            continuation=continuation,
            code_changes=code_changes,
        )
    return Suspended(
        run_id=run_id,
        waits=continuation.waits,
        continuation=continuation,
        code_changes=code_changes,
        paused=paused,
    )
