"""Notices: how waits, agents and runs end, and that runs wait.

A notice follows from stored objects alone. So each process that makes it again gives it
the same id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from continuations.core import jsontext
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.rows.waits import Wait, withheld
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.changes.tool_messages import CallEnd
    from continuations.core.rows.decisions import Decision, DecisionKind
    from continuations.core.rows.run import RunStatus

_ID_CHARS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionNotice:
    """A wait that asked a person has ended.

    Attributes:
        id: Id of the notice, the same in each process and each repeat.
        type: `wait.decided`, or `wait.expired` if the deadline has passed.
        at: When the decision was recorded.
        wait: The wait, with secret values masked.
        kind: Kind of the decision, such as `"approve"`; `"cancel"` if the run was
            cancelled, has failed or was rewound. `None` if no decision was needed.
        by: Name of the decider, or `None`.
        reason: Reason, if the verdict gave one.
        edited: Whether the approver changed arguments.
        voters: All persons who gave this verdict, if it took several.
        door: Door through which the decision came, such as `"http"`, or `None`.
        authentication: How the door established `by`, or `None` if it did not.
        rule: Name of the rule that decided instead of a person, or `None`.
    """

    id: str
    type: Literal["wait.decided", "wait.expired"]
    at: datetime
    wait: Wait
    kind: DecisionKind | None = None
    by: str | None = None
    reason: str | None = None
    edited: bool = False
    voters: tuple[str, ...] = ()
    door: str | None = None
    authentication: str | None = None
    rule: str | None = None

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self.wait.run_id

    @classmethod
    def of(cls, wait: Wait, decision: Decision | None, at: datetime) -> DecisionNotice:
        """Return the notice of a wait that ended.

        Args:
            wait: The wait.
            decision: Its decision; `None` if it ended without one.
            at: The time of a wait without a decision.

        Returns:
            The notice.
        """
        is_expired = decision is not None and decision.kind == "expire"
        kind: Literal["wait.decided", "wait.expired"] = (
            "wait.expired" if is_expired else "wait.decided"
        )
        notice_id, shown = _id(kind, wait.id), withheld(wait)
        if decision is None:
            return cls(id=notice_id, type=kind, at=at, wait=shown)
        return cls(
            id=notice_id,
            type=kind,
            at=decision.at,
            wait=shown,
            kind=decision.kind,
            by=decision.by,
            reason=decision.reason,
            edited=decision.arguments is not None,
            voters=decision.voters,
            door=decision.door,
            authentication=decision.authentication,
            rule=decision.rule,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildNotice:
    """An agent that another agent or a workflow called has ended.

    Attributes:
        id: Id of the notice, the same in each process and each repeat.
        type: `child.ended`.
        at: When the version was written.
        run_id: Id of the run.
        agent: Name of the agent.
        path: Names from the root agent down to the agent.
        call: Id of its call, or `None` if no version has the call.
        end: How its call ended, such as `"returned"` or `"denied"`. `None` if no
            version has it, for example because its run has ended.
        version: Number of the version.
    """

    id: str
    type: Literal["child.ended"] = "child.ended"
    at: datetime
    run_id: str
    agent: str
    path: tuple[str, ...]
    call: str | None = None
    end: CallEnd | None = None
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNotice:
    """A run has ended, or it waits.

    Attributes:
        id: Id of the notice, the same in each process and each repeat.
        type: `run.ended` or `run.suspended`.
        at: When the version was written.
        run_id: Id of the run.
        agent: Name of the root agent.
        status: `finished`, `failed`, `cancelled` or `suspended`.
        version: Number of the version.
        failure_code: Kind of the failure, such as `"budget"`, or `None`.
        waits: The open waits of a suspended run, with secret values masked.
    """

    id: str
    type: Literal["run.ended", "run.suspended"]
    at: datetime
    run_id: str
    agent: str
    status: RunStatus
    version: int
    failure_code: str | None = None
    waits: tuple[Wait, ...] = ()


Notice: TypeAlias = DecisionNotice | ChildNotice | RunNotice


def open_notice_id(wait: Wait) -> str:
    """Return the id of the notice that a wait is open: new, escalated or a reminder."""
    return _id(f"wait.{wait.notice}", wait.id)


def ended_waits(before: RunState | None, after: RunState) -> list[Wait]:
    """Return the waits that asked a person and that a version ended."""
    waits = before.waits.values() if before else ()
    return [w for w in waits if w.id not in after.waits and w.rules.asks_person]


def notices_between(
    before: RunState | None, after: RunState, *, version: int, at: datetime
) -> list[ChildNotice | RunNotice]:
    """Return the notices of one version, without those of waits.

    Args:
        before: The state of the version before, `None` for the first one.
        after: The state of the version.
        version: Number of the version.
        at: When the version was written.
    """
    # Not to import a notifier.
    from continuations.core.changes.plan import plan  # noqa: PLC0415
    from continuations.core.reading.run_stream import FrameEnded  # noqa: PLC0415
    from continuations.core.reading.run_stream_diff import events_between  # noqa: PLC0415

    run = after.run
    events = events_between(before, after, version=version, at=at)
    children = [
        ChildNotice(
            id=_id("child.ended", run.id, run.run_nonce, event.cursor),
            at=at,
            run_id=run.id,
            agent=event.agent,
            path=event.path,
            call=event.call,
            end=event.end,
            version=version,
        )
        for event in events
        if isinstance(event, FrameEnded) and event.frame != ROOT_FRAME_ID
    ]
    has_ended = run.has_ended
    if not has_ended and (run.status != "suspended" or plan(after)):
        return [*children]
    kind: Literal["run.ended", "run.suspended"] = (
        "run.ended" if has_ended else "run.suspended"
    )
    waits = () if has_ended else sorted(after.waits.values(), key=Wait.sort_key)
    notice = RunNotice(
        id=_id(kind, run.id, run.run_nonce, str(version)),
        type=kind,
        at=at,
        run_id=run.id,
        agent=run.agent,
        status=run.status,
        version=version,
        failure_code=run.failure.code if run.failure else None,
        waits=tuple(map(withheld, waits)),
    )
    return [*children, notice]


def _id(*parts: str) -> str:
    return jsontext.digest(*parts)[:_ID_CHARS]
