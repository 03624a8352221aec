"""Tool calls: one row for each call, and the states that a call can have.

Each state is a class and not a flag. `Waiting` (no decision yet) and `Refused`
(decided: no) are different types, so no code can confuse them. Only `transitions.py`
says which state may follow which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from continuations.core.rows.quorum import Quorum


@dataclass(frozen=True, slots=True)
class Proposed:
    """The model asked for the call; its tool and arguments are not examined yet."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The call is suspended until its wait is decided."""

    wait_id: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The call may run: it needs no approval, or it is approved."""


@dataclass(frozen=True, slots=True)
class Started:
    """The start of the call is recorded; the tool may or may not have run."""


@dataclass(frozen=True, slots=True)
class Nested:
    """The call's tool is an agent; `frame_id` is the frame of this agent."""

    frame_id: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The call was started and its worker died: it may or may not have happened.

    `verify_tried` is true after the tool's `verify` function could not tell either.
    """

    wait_id: str
    verify_tried: bool = False


@dataclass(frozen=True, slots=True)
class Parked:
    """The tool ran and returned a wait. Only its decision leads out of this state.

    No approval runs the tool again. `wait_id` names the wait that the tool opened.
    """

    wait_id: str


@dataclass(frozen=True, slots=True)
class Handoff:
    """The agent that gets the frame of a call when the turn of the call ends.

    Attributes:
        agent: Name of the agent.
        instructions: Its instructions, which its model reads from then on.
        keeps_state: Whether the frame keeps its state: both agents have the same type.
        dropped: The indexes of the messages that the agent does not read.
    """

    agent: str
    instructions: str
    keeps_state: bool = False
    dropped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Returned:
    """The call ended with a result; the model reads `content`.

    `is_json`: the call is of a workflow, and `content` is the JSON of the value.
    `handoff`: the call gives its frame to another agent.
    """

    content: str
    is_json: bool = False
    handoff: Handoff | None = None


@dataclass(frozen=True, slots=True)
class Errored:
    """The call failed, before or while it ran; the model reads `content`.

    `code` names the kind of failure for programs.
    """

    code: str
    content: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The call does not run, or got no answer.

    `code` is `denied`, `expired`, `cancelled` or `not_executed` (see `CallEnd`).
    """

    code: str
    content: str


OpenState: TypeAlias = Proposed | Waiting | Ready | Started | Nested | Unknown | Parked
ClosedState: TypeAlias = Returned | Errored | Refused
CallState: TypeAlias = OpenState | ClosedState

CLOSED_STATES = (Returned, Errored, Refused)
# The states of a call with an open wait.
WAITING_STATES = (Waiting, Unknown, Parked)

STATE_TYPES: dict[str, type[CallState]] = {
    "proposed": Proposed,
    "waiting": Waiting,
    "ready": Ready,
    "started": Started,
    "nested": Nested,
    "unknown": Unknown,
    "parked": Parked,
    "returned": Returned,
    "errored": Errored,
    "refused": Refused,
}
STATE_NAMES: dict[type[CallState], str] = {
    cls: name for name, cls in STATE_TYPES.items()
}


def open_wait_id(state: CallState) -> str | None:
    """Return the id of the open wait that a call in this state has, or `None`."""
    return state.wait_id if isinstance(state, WAITING_STATES) else None


def waiting_state(state_type: type[CallState], wait_id: str) -> CallState:
    """Return the state of this type of a call that has this open wait."""
    if state_type is Unknown:
        return Unknown(wait_id)
    return Parked(wait_id) if state_type is Parked else Waiting(wait_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One tool call in the flat table of a run.

    A call has its arguments in up to three texts:

    1. The model writes `raw_arguments`. They may be invalid JSON or not match the
       tool's schema.
    2. The examination of the call validates them, fills in defaults, and stores the
       result in `arguments`. The tool runs with these.
    3. An approver may edit the arguments. The edit replaces `arguments`, and
       `original_arguments` keeps the text that was replaced.

    Attributes:
        id: Id of the call, unique in its run.
        frame_id: Frame of the agent that made the call.
        tool: Name of the tool, as the model wrote it.
        tool_call_id: Id of the call in the transcript. The model's provider chose it;
            nothing is looked up by this id.
        raw_arguments: Arguments exactly as the model wrote them.
        state: State of the call.
        arguments: Effective arguments as canonical JSON, or `None` before the call is
            examined and if its examination failed.
        original_arguments: Effective arguments before the first edit by an approver,
            as canonical JSON, or `None` if they were not edited.
        contract_digest: Digest of the tool's contract when the call was examined.
        approved_digest: Digest of the approved call, with edited arguments if any.
        approved_until: Time after which the approval no longer lets the call begin.
        repeatable: Whether the call may run again after a crash.
        verifiable: Whether the tool has a `verify` function.
        attempts: How often the call was started, at its present stage.
        stage: 0 for the tool's function, n for the n-th call of its `on_answer`
            function.
        answer: Value that the `on_answer` function gets, as JSON text.
        memo: The value that the tool keeps with its wait for its `on_answer` function,
            as JSON text, or `None`.
        secrets: Paths of the arguments that people must not read.
        quorum: The rule who may decide the approval of the call, or `None`. A wait
            about its unknown outcome has the same rule.
        cancelled: Why the agent of this call was cancelled, or `None`. Its frame ends
            after the calls that run in it.
        grant: Id of the grant that approved the call instead of a person, or `None`.
        form: Form that the approver filled in, as JSON text, or `None`.
        patch: The fields of its agent's state that the call changes once the turn ends,
            as the text of a JSON object. `None` if the tool does not write the state.
            Calls that do begin one after another.
        parts_json: The parts of the result as a JSON array, if the tool returned
            attachments.
        answer_used_in: Id of the run whose `on_answer` function got an answer of this
            call, in versions that a rewind or a fork left, or `None`. A person is asked
            before that function runs again.
        ended_at: When a decision ended a call of a workflow, or `None`.
        tasks: The names of the asyncio tasks in which the code of a workflow made the
            call, from the outermost one. Empty for its function itself.
    """

    id: str
    frame_id: str
    tool: str
    tool_call_id: str
    raw_arguments: str
    state: CallState
    arguments: str | None = None
    original_arguments: str | None = None
    contract_digest: str | None = None
    approved_digest: str | None = None
    approved_until: datetime | None = None
    repeatable: bool = False
    verifiable: bool = False
    attempts: int = 0
    stage: int = 0
    answer: str | None = None
    memo: str | None = None
    secrets: tuple[str, ...] = ()
    quorum: Quorum | None = None
    cancelled: str | None = None
    grant: str | None = None
    form: str | None = None
    patch: str | None = None
    parts_json: str | None = None
    answer_used_in: str | None = None
    ended_at: datetime | None = None
    tasks: tuple[str, ...] = ()

    @property
    def written_arguments(self) -> str | None:
        """`raw_arguments`, or `None` if they are equal to the effective arguments."""
        return None if self.raw_arguments == self.arguments else self.raw_arguments


def handoff_of(rows: Iterable[CallRow]) -> Handoff | None:
    """Return the handoff of the calls of a turn, or `None`."""
    states = (row.state for row in rows if isinstance(row.state, Returned))
    return next((state.handoff for state in states if state.handoff), None)
