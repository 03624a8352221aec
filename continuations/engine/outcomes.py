"""The outcomes of start and resume: finished, replied, suspended or failed.

All of them have `run_id`, `status`, `waits` and `output`, and `result()` returns the
output or raises. The classes tell them apart for `match` and for type checkers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeAlias

from continuations.authoring.errors import OutputInvalid
from continuations.core.changes.operator_changes import operator_reasons
from continuations.core.declared_types import Output
from continuations.core.rows.run import Failure
from continuations.core.visible_text import escape_beginning
from continuations.errors import AgentChanged, NotFinished, RunFailed
from continuations.value_class import dataclass
from continuations.wire.fields import readable_time

_MAX_SHOWN_WAITS = 5
_MAX_NOTE_CHARS = 300

if TYPE_CHECKING:
    from continuations.authoring.manifest import ManifestChange
    from continuations.authoring.tool.tool_protocol import AgentProtocol
    from continuations.core.rows.waits import Wait
    from continuations.core.usage import Usage
    from continuations.wire.continuation import Continuation


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Generic[Output]):
    """The run has ended with an output.

    Attributes:
        run_id: Id of the run.
        output: The last text of the root agent, or a value of its `output_type`.
        usage: Model usage of all agents of the run.
        continuation: The final state.
        code_changes: Differences between this process's code and the code that worked
            on the run before.
    """

    run_id: str
    output: Output
    usage: Usage
    continuation: Continuation
    code_changes: tuple[ManifestChange, ...] = ()

    @property
    def status(self) -> str:
        """The status of the run: `finished`, or `resting` for a thread."""
        return self.continuation.status

    @property
    def waits(self) -> tuple[Wait, ...]:
        """No waits: the run has an output."""
        return ()

    def result(self) -> Output:
        """Return the output.

        Returns:
            The output.
        """
        return self.output

    def __repr__(self) -> str:
        """Show the run and the beginning of its output, in one line."""
        return f"<{type(self).__name__} {self.run_id}: {self.output!r:.80}>"


def _awaited(wait: Wait) -> str:
    """Return what a wait waits for, in one line and without arguments of calls."""
    words = f"{wait.rules.awaited} ({wait.tool})"
    # A wait without an object is ended by the clock or by an operator: when, and why.
    if not wait.rules.has_object:
        if wait.deadline is not None:
            words += f" until {readable_time(wait.deadline)}"
        why = ": ".join(filter(None, (wait.policy, wait.note)))
        if why:
            words += f": {escape_beginning(why, _MAX_NOTE_CHARS)}"
    return words.rstrip(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended:
    """The run waits, was paused, or was only stored; no process works on it.

    Attributes:
        run_id: Id of the run.
        waits: The open waits, of all kinds.
        continuation: The state.
        code_changes: Differences between this process's code and the code that worked
            on the run before.
        paused: True if the run could continue at once: it was paused by `should_pause`,
            or only stored (`work=False`). The next sweep resumes it.
        reasons: Why an operator holds the run until `unpause`: the reason of a pause,
            and the names of the conditions (`suspend_when`) that were met.
        has_store: False if the caller keeps the continuation: the run has no store.
    """

    run_id: str
    waits: tuple[Wait, ...]
    continuation: Continuation
    code_changes: tuple[ManifestChange, ...] = ()
    paused: bool = False
    reasons: tuple[str, ...] = ()
    has_store: bool = True

    @property
    def status(self) -> str:
        """The status of the run: `suspended`, or `resting` for a thread."""
        return self.continuation.status

    @property
    def output(self) -> None:
        """No output yet."""
        return

    def result(self) -> NoReturn:
        """Raise, because there is no output yet.

        Returns:
            Nothing; it always raises.

        Raises:
            NotFinished: Always; its text says what the run waits for, and what to do.
        """
        why = self._state if self.waits else "was stored, and no worker runs"
        advice = self._advice if self.has_store else self._advice_without_store
        msg = f"run {self.run_id} has no output yet: it {why}. {advice}."
        raise NotFinished(msg, run_id=self.run_id, outcome=self)

    @property
    def _advice(self) -> str:
        run = repr(self.run_id)
        rules = [wait.rules for wait in self.waits]
        if not rules:
            return f"Call resume({run})"
        if any(each.ended_by_unpause for each in rules):
            return f"Call unpause({run}), then resume({run})"
        if any(each.asks_person for each in rules):
            return f"Decide or answer it, then call resume({run})"
        if any(each.may_wake for each in rules):
            return (
                "A later sweep() asks the model again. To ask it now, call "
                f"wake({run}), then resume({run})"
            )
        return f"Wait for its end, then call resume({run})"

    @property
    def _advice_without_store(self) -> str:
        rules = [wait.rules for wait in self.waits]
        call = "call resume(outcome.continuation, agent"
        if any(each.ended_by_unpause for each in rules):
            return f"To end the pause, {call}, unpause=True)"
        if any(each.has_object for each in rules):
            return f"To end a wait, {call}, answers={{wait.id: verdict}})"
        return f"Wait for its end, then {call})"

    @property
    def _state(self) -> str:
        shown = [_awaited(wait) for wait in self.waits[:_MAX_SHOWN_WAITS]]
        if len(self.waits) > _MAX_SHOWN_WAITS:
            shown.append(f"{len(self.waits) - _MAX_SHOWN_WAITS:,} more")
        return f"waits for {', '.join(shown)}" if shown else "can go on"

    def __repr__(self) -> str:
        """Show the run and what it waits for, in one line and without arguments."""
        return f"<Suspended {self.run_id}: {self._state}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied(Finished[Output]):
    """A thread has replied to a message, and rests until the next one.

    Code that takes any outcome may treat it as `Finished`: it has an output.

    Attributes:
        run_id: Id of the thread's run.
        output: The reply: a text, or a value of the agent's `output_type`.
        usage: Model usage of all agents for this reply.
        continuation: The state with the reply.
        code_changes: Differences between this process's code and the code that worked
            on the thread before.
    """

    # The decorator would make one that shows every field.
    __repr__ = Finished.__repr__


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The run has failed or was cancelled; it cannot be resumed.

    In a thread whose status is `resting`, only the reply to one message failed. The
    thread answers the next message.

    Attributes:
        run_id: Id of the run.
        error: Code and message of the failure.
        continuation: The final state.
        code_changes: Differences between this process's code and the code that worked
            on the run before.
    """

    run_id: str
    error: Failure
    continuation: Continuation
    code_changes: tuple[ManifestChange, ...] = ()

    @property
    def status(self) -> str:
        """The status of the run: `failed`, `cancelled`, or `resting` for a thread."""
        return self.continuation.status

    @property
    def waits(self) -> tuple[Wait, ...]:
        """No waits: the run, or the turn of the thread, has ended."""
        return ()

    @property
    def output(self) -> None:
        """No output."""
        return

    def result(self) -> NoReturn:
        """Raise, because there is no output.

        Returns:
            Nothing; it always raises.

        Raises:
            RunFailed: Always; its text is that of the failure.
        """
        advice = "Start a new run"
        if self.status == "resting":
            advice = "Send the message again under a new id"
        why = self.error.message.rstrip(".") or self.error.code
        msg = f"run {self.run_id} has no output: {self.error.code}: {why}. {advice}."
        raise RunFailed(msg, run_id=self.run_id, outcome=self)

    def __repr__(self) -> str:
        """Show the run and why it failed, in one line."""
        return f"<Failed {self.run_id}: {self.error.code}: {self.error.message!r:.80}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """The message waits, because the thread waits for something else.

    For example, a call of an earlier message waits for an approval. After that
    decision, a worker answers the earlier message, then this one.

    Attributes:
        run_id: Id of the thread's run.
        number: Number of the message.
        paused: True if the thread could continue at once: it was paused by
            `should_pause`. The next sweep resumes it.
    """

    run_id: str
    number: int
    paused: bool = False

    @property
    def status(self) -> Literal["queued"]:
        """The status of the message."""
        return "queued"

    @property
    def waits(self) -> tuple[Wait, ...]:
        """No waits: those of the thread belong to earlier messages."""
        return ()

    @property
    def output(self) -> None:
        """No output yet."""
        return

    def result(self) -> NoReturn:
        """Raise, because there is no reply yet.

        Returns:
            Nothing; it always raises.

        Raises:
            NotFinished: Always.
        """
        msg = (
            f"message {self.number} of run {self.run_id} has no reply yet: the thread "
            "waits for something else. Call reply() of the ticket later, or send the "
            "message again with the same id."
        )
        raise NotFinished(msg, run_id=self.run_id, outcome=self)

    def __repr__(self) -> str:
        """Show the run and the number of the message, in one line."""
        return f"<Queued {self.run_id}: message {self.number} waits for its turn>"


Outcome: TypeAlias = Finished[Output] | Suspended | Failed
Reply: TypeAlias = Replied[Output] | Failed
SendResult: TypeAlias = Replied[Output] | Suspended | Queued | Failed


def _parse_output(run_id: str, agent: AgentProtocol | None, text: str) -> Any:
    if agent is None:
        return text
    try:
        return agent.parse_output(text)
    except OutputInvalid as error:
        msg = (
            f"run {run_id} has an output, but that output does not fit the output_type "
            f"of agent {agent.name!r} any more. Read the text with look(run_id).output."
        )
        raise AgentChanged(msg, run_id=run_id, change="output") from error


def reply_of(
    continuation: Continuation,
    agent: AgentProtocol | None,
    code_changes: tuple[ManifestChange, ...] = (),
) -> Reply:
    """Return the reply of a thread to the last message that it answered.

    Without the agent, the output is its text.
    """
    run = continuation.run_state.run
    if run.failure is not None:
        return Failed(
            run_id=run.id,
            error=run.failure,
            continuation=continuation,
            code_changes=code_changes,
        )
    return Replied(
        run_id=run.id,
        output=_parse_output(run.id, agent, run.output or ""),
        usage=run.limited_usage,
        continuation=continuation,
        code_changes=code_changes,
    )


def outcome_of(
    continuation: Continuation,
    agent: AgentProtocol | None,
    code_changes: tuple[ManifestChange, ...] = (),
    *,
    paused: bool = False,
    has_store: bool = True,
) -> Outcome:
    """Return the outcome of a state that no worker holds.

    Without the agent, the output of a finished run is its text.
    """
    run_id = continuation.run_id
    run = continuation.run_state.run
    if run.status == "resting" and run.answered:
        return reply_of(continuation, agent, code_changes)
    if run.status == "finished":
        text = run.output
        # The last message of a thread that was closed may have failed.
        closed = run.thread_key is not None and text is None
        return Finished(
            run_id=run_id,
            output=None if closed else _parse_output(run_id, agent, text or ""),
            usage=continuation.usage,
            continuation=continuation,
            code_changes=code_changes,
        )
    if continuation.status in ("failed", "cancelled"):
        unknown_failure = Failure(code=continuation.status, message="")
        error = continuation.failure or unknown_failure
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
        reasons=operator_reasons(continuation.waits),
        has_store=has_store,
    )
