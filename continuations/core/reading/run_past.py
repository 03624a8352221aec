"""The past of a run: its versions, their events, and the differences between two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from continuations.core import jsontext
from continuations.core.rows.calls import STATE_NAMES, CallRow
from continuations.core.rows.state import by_depth, frame_path, shown_arguments
from continuations.core.rows.waits import Wait, withheld
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from continuations.core.messages import Message
    from continuations.core.reading.run_stream import StreamEvent
    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.frames import FrameRow
    from continuations.core.rows.run import RunRow, RunStatus
    from continuations.core.rows.state import RunState
    from continuations.core.usage import Usage


Change: TypeAlias = Literal["added", "changed", "removed"]
CHANGES: frozenset[str] = frozenset({"added", "changed", "removed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVersion:
    """One stored version of a run.

    Attributes:
        number: Number of the version, from 1.
        at: When it was written, in UTC.
        status: Status of the run.
        worker: Id of the worker that wrote it. `None` if no worker had a claim, for
            example if a repair wrote it.
        events: The changes since the version before.
        waits: The open waits of the version, the oldest first, with secret values
            masked.
    """

    number: int
    at: datetime
    status: RunStatus
    worker: str | None
    events: tuple[StreamEvent, ...]
    waits: tuple[Wait, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The changes, as one line of text for each event."""
        from continuations.core.reading.run_stream import event_words  # noqa: PLC0415 - only for people

        return tuple(
            f"{'/'.join(event.path) or 'run'}: {event_words(event)}"
            for event in self.events
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunCall:
    """A call that was started after a version; its effects are not undone.

    Attributes:
        call: Id of the call.
        path: Names from the root agent down to the tool.
        tool: Name of the tool.
        version: Number of the version that recorded its start.
        arguments_json: Its arguments as JSON text, with secret values masked.
    """

    call: str
    path: tuple[str, ...]
    tool: str
    version: int
    arguments_json: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments with secret values masked, as a new dict."""
        return dict(jsontext.parse(self.arguments_json or "{}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenMessage:
    """A message that a run has read, and that it does not read again.

    Attributes:
        number: Number of the message in the inbox.
        text: Text of the message.
        by: The sender, or `None`.
    """

    number: int
    text: str
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPlan:
    """The consequences of a rewind, before it is made.

    Attributes:
        run_id: Id of the run.
        version: Number of the earlier version.
        newest: Number of the version that would be rewound.
        digest: Names everything that the plan depends on: both versions, and what was
            decided since the newest one. Pass it as `shown=`.
        waits: The waits that would be closed, the oldest first, with their votes and
            with secret values masked. Those of the earlier version come back under new
            ids.
        decided: Ids of those waits that have a decision that the run has not taken in.
            After a rewind, the decision has no effect.
        calls: The calls that were started since; they are not undone.
        messages: The messages that were read since; they are not read again.
        refusal: Why `rewind` refuses, or `None`.
    """

    run_id: str
    version: int
    newest: int
    digest: str
    waits: tuple[Wait, ...]
    calls: tuple[BegunCall, ...]
    messages: tuple[TakenMessage, ...]
    decided: tuple[str, ...] = ()
    refusal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound:
    """A run goes on from an earlier version. Its effects since then are not undone.

    Attributes:
        run_id: Id of the run.
        rewound_to: Number of the earlier version.
        version: Number of the version with which the run goes on.
        calls: The calls that were started since the earlier version.
        messages: The messages that were read since then. They are not read again.
    """

    run_id: str
    rewound_to: int
    version: int
    calls: tuple[BegunCall, ...]
    messages: tuple[TakenMessage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameDifference:
    """An agent that only one of the versions has.

    Attributes:
        change: `added`: only the second version has it. `removed`: only the first.
        frame: Id of the frame.
        path: Names from the root agent down to the agent.
        agent: Name of the agent.
    """

    change: Change
    frame: str
    path: tuple[str, ...]
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDifference:
    """A message that only one of the versions has.

    Attributes:
        change: `added`: only the second version has it. `removed`: only the first.
        frame: Id of the frame.
        path: Names from the root agent down to the agent.
        position: Place of the message in the transcript of that version, from 0.
        message_json: The message in the chat completions format, as JSON text.
    """

    change: Change
    frame: str
    path: tuple[str, ...]
    position: int
    message_json: str

    @property
    def message(self) -> dict[str, Any]:
        """The message, as a new dict."""
        message: dict[str, Any] = jsontext.parse(self.message_json)
        return message


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDifference:
    """An open call that differs between the versions.

    Calls whose results are in the transcript are messages, and no calls any more.

    Attributes:
        change: `added`, `changed` or `removed`.
        call: Id of the call.
        frame: Id of its frame.
        path: Names from the root agent down to the tool.
        tool: Name of the tool, as the model wrote it.
        before: State of the call in the first version, or `None`.
        after: State of the call in the second version, or `None`.
        arguments_before_json: Validated arguments in the first version as JSON text,
            with secret values masked, or `None`.
        arguments_after_json: The same of the second version.
    """

    change: Change
    call: str
    frame: str
    path: tuple[str, ...]
    tool: str
    before: str | None
    after: str | None
    arguments_before_json: str | None = None
    arguments_after_json: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitDifference:
    """A wait that only one of the versions has.

    Attributes:
        change: `added`: only the second version has it. `removed`: only the first.
        wait: The wait, with secret values masked.
        decision: The recorded decision of a removed wait. `None` for an open wait, and
            for a wait that ends without a stored decision: of a timer, a model or an
            operator.
    """

    change: Change
    wait: Wait
    decision: Decision | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDifference:
    """The state of an agent that differs between the versions.

    Attributes:
        frame: Id of the frame.
        path: Names from the root agent down to the agent.
        before_json: The state in the first version as the text of a JSON object.
        after_json: The state in the second version.
    """

    frame: str
    path: tuple[str, ...]
    before_json: str
    after_json: str

    @property
    def before(self) -> dict[str, Any]:
        """The state in the first version, as a new dict."""
        return dict(jsontext.parse(self.before_json))

    @property
    def after(self) -> dict[str, Any]:
        """The state in the second version, as a new dict."""
        return dict(jsontext.parse(self.after_json))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifference:
    """The differences between two versions of a run.

    Attributes:
        run_id: Id of the run.
        before: Number of the first version.
        after: Number of the second version. It may be the smaller number.
        status_before: Status of the run in the first version.
        status_after: Status of the run in the second version.
        usage_before: Model usage in the first version.
        usage_after: Model usage in the second version.
        frames: Agents that only one version has.
        messages: Messages that only one version has, frame by frame.
        calls: Open calls that differ.
        waits: Waits that only one version has, with their decisions.
        states: States of agents that differ.
    """

    run_id: str
    before: int
    after: int
    status_before: RunStatus
    status_after: RunStatus
    usage_before: Usage
    usage_after: Usage
    frames: tuple[FrameDifference, ...]
    messages: tuple[MessageDifference, ...]
    calls: tuple[CallDifference, ...]
    waits: tuple[WaitDifference, ...]
    states: tuple[StateDifference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionEvents:
    """One version of a run.

    Attributes:
        number: Number of the version.
        at: When the version was written.
        run: The row of the run, with the claim of its worker.
        events: The events of this version, in their order.
    """

    number: int
    at: datetime
    run: RunRow
    events: tuple[StreamEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionWindow:
    """Consecutive versions of a run, at least one.

    Attributes:
        before: The state before the first of them, `None` if it is the run's first.
        versions: The versions, the oldest first.
        state: The state of the last of them.
        newest_number: Number of the newest version of the run.
    """

    before: RunState | None
    versions: tuple[VersionEvents, ...]
    state: RunState
    newest_number: int

    @property
    def is_newest(self) -> bool:
        """Whether the last version is the newest one of the run."""
        return self.versions[-1].number == self.newest_number

    @property
    def first_number(self) -> int:
        """Number of the first version."""
        return self.versions[0].number

    @property
    def last_number(self) -> int:
        """Number of the last version."""
        return self.versions[-1].number


# The difference between two states ------------------------------------------------

_NO_STATE = "{}"


def difference(
    before: RunState, after: RunState, *, numbers: tuple[int, int]
) -> RunDifference:
    """Return the differences between two states of one run.

    The decisions of the waits are missing: the states do not have them.

    Args:
        before: The state of the first version.
        after: The state of the second version.
        numbers: The numbers of the two versions.

    Returns:
        The differences.
    """
    return RunDifference(
        run_id=after.run.id,
        before=numbers[0],
        after=numbers[1],
        status_before=before.run.status,
        status_after=after.run.status,
        usage_before=before.run.usage,
        usage_after=after.run.usage,
        frames=tuple(_frames(before, after)),
        messages=tuple(_messages(before, after)),
        calls=tuple(_calls(before, after)),
        waits=tuple(_waits(before, after)),
        states=tuple(_states(before, after)),
    )


def _all_frames(before: RunState, after: RunState) -> list[FrameRow]:
    return by_depth({**before.frames, **after.frames}.values())


def _frames(before: RunState, after: RunState) -> Iterator[FrameDifference]:
    for row in _all_frames(before, after):
        if row.id in before.frames and row.id in after.frames:
            continue
        added = row.id in after.frames
        path = frame_path(after if added else before, row.id)
        yield FrameDifference(
            change="added" if added else "removed",
            frame=row.id,
            path=path,
            agent=row.agent,
        )


def _messages(before: RunState, after: RunState) -> Iterator[MessageDifference]:
    for row in _all_frames(before, after):
        old = [each.text for each in _log(before, row.id)]
        new = [each.text for each in _log(after, row.id)]
        same = 0
        while same < min(len(old), len(new)) and old[same] == new[same]:
            same += 1
        sides: tuple[tuple[Change, RunState, list[str]], ...] = (
            ("removed", before, old),
            ("added", after, new),
        )
        for change, state, texts in sides:
            for position in range(same, len(texts)):
                yield MessageDifference(
                    change=change,
                    frame=row.id,
                    path=frame_path(state, row.id),
                    position=position,
                    message_json=texts[position],
                )


def _log(state: RunState, frame_id: str) -> tuple[Message, ...]:
    log = state.logs.get(frame_id)
    return () if log is None else log.messages


def _calls(before: RunState, after: RunState) -> Iterator[CallDifference]:
    rows = {**before.calls, **after.calls}
    for row in sorted(rows.values(), key=lambda each: int(each.id[1:])):
        old, new = before.calls.get(row.id), after.calls.get(row.id)
        if old is not None and new is not None and _looks_equal(old, new):
            continue
        change: Change = "changed"
        if old is None or new is None:
            change = "added" if old is None else "removed"
        state = before if new is None else after
        yield CallDifference(
            change=change,
            call=row.id,
            frame=row.frame_id,
            path=(*frame_path(state, row.frame_id), row.tool),
            tool=row.tool,
            before=_state_name(old),
            after=_state_name(new),
            arguments_before_json=_arguments(old),
            arguments_after_json=_arguments(new),
        )


def _looks_equal(old: CallRow, new: CallRow) -> bool:
    return old.state == new.state and old.arguments == new.arguments


def _state_name(row: CallRow | None) -> str | None:
    return None if row is None else STATE_NAMES[type(row.state)]


def _arguments(row: CallRow | None) -> str | None:
    return None if row is None else shown_arguments(row)


def _waits(before: RunState, after: RunState) -> Iterator[WaitDifference]:
    sides: tuple[tuple[Change, RunState, RunState], ...] = (
        ("removed", before, after),
        ("added", after, before),
    )
    for change, state, other in sides:
        for wait in sorted(state.waits.values(), key=Wait.sort_key):
            if wait.id not in other.waits:
                yield WaitDifference(change=change, wait=withheld(wait))


def _states(before: RunState, after: RunState) -> Iterator[StateDifference]:
    for row in _all_frames(before, after):
        old, new = before.frames.get(row.id), after.frames.get(row.id)
        old_state = (old and old.state_json) or _NO_STATE
        new_state = (new and new.state_json) or _NO_STATE
        if old_state != new_state:
            state = before if new is None else after
            yield StateDifference(
                frame=row.id,
                path=frame_path(state, row.id),
                before_json=old_state,
                after_json=new_state,
            )
