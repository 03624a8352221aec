"""The rules of a rewind, a fork and `adopt` for everything that belongs to a run.

`FIELD_RULES` makes the row of the run: `rewound_row`, `forked_row` and `adopted_row`
compute each field from its rule. `moved_wait` makes each open wait from
`WAIT_FIELD_RULES`. Everything that arrives at a run counts by one of these fields:
`ARRIVAL_RULES` and `MARKER_RULES` name the field, and say in words what follows. The
page on forks shows the four tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from continuations.core.rows.run import RunRow
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.rows.waits import Wait

Act: TypeAlias = Literal["rewind", "fork", "adopt"]

# `newest`: of the newest version. `version`: of the version that the run goes on from.
# `copied`: of that version, in another run. `cleared`: none. `new`: made by the rewind,
# the fork or the adoption.
RewindAction: TypeAlias = Literal["newest", "version", "cleared", "new"]
CopyAction: TypeAlias = Literal["copied", "cleared", "new"]


class FieldRule(NamedTuple):
    """The rule for one field of a run's row, and its reason."""

    rewind: RewindAction
    fork: CopyAction
    adopt: CopyAction
    reason: str


FIELD_RULES: Mapping[str, FieldRule] = {
    "id": FieldRule("newest", "new", "new", "A fork is a run of its own."),
    "run_nonce": FieldRule(
        "newest", "new", "new", "A digest or an approval is valid in one run only."
    ),
    "agent": FieldRule("newest", "copied", "copied", "The root agent stays."),
    "created_at": FieldRule("newest", "new", "new", "The new run begins now."),
    "input_digest": FieldRule(
        "newest", "new", "new", "A repeat of the same call finds the same run by it."
    ),
    "status": FieldRule("newest", "new", "new", "No worker has the new run yet."),
    "next_id": FieldRule("newest", "copied", "copied", "An id is used once in a run."),
    "last_inbox_number": FieldRule(
        "newest", "cleared", "cleared", "No message is read again; a copy has no inbox."
    ),
    "claim": FieldRule("newest", "cleared", "cleared", "A claim covers one run."),
    "usage": FieldRule("newest", "copied", "copied", "Spent money stays spent."),
    "budget": FieldRule("newest", "copied", "copied", "The limit stays."),
    "history_lost": FieldRule(
        "newest", "copied", "copied", "A lost version may have had effects."
    ),
    "output": FieldRule("new", "cleared", "cleared", "The reply is not written yet."),
    "failure": FieldRule("new", "cleared", "cleared", "The run goes on."),
    "title": FieldRule("newest", "copied", "copied", "People find the run by it."),
    "labels": FieldRule("newest", "copied", "copied", "People find the run by them."),
    "requester": FieldRule(
        "newest", "new", "new", "The person who forks or adopts asks for the new run."
    ),
    "last_signal_number": FieldRule(
        "newest", "cleared", "cleared", "A signal is taken once, in its own run."
    ),
    "signals": FieldRule(
        "newest", "cleared", "cleared", "A kept signal may still be taken in its run."
    ),
    "events_taken": FieldRule(
        "newest", "copied", "copied", "A run takes a published event once."
    ),
    "last_operator_number": FieldRule(
        "newest", "cleared", "cleared", "A request is obeyed once."
    ),
    "grants": FieldRule(
        "new", "cleared", "cleared", "Grants that were given later end."
    ),
    "last_revocation_number": FieldRule(
        "newest", "cleared", "cleared", "A revocation is never undone."
    ),
    "revoked_grants": FieldRule(
        "newest", "cleared", "cleared", "A revocation is never undone."
    ),
    "max_depth": FieldRule("newest", "copied", "copied", "The limit stays."),
    "thread_key": FieldRule(
        "newest", "cleared", "cleared", "The messages of a thread are in its own run."
    ),
    "answered": FieldRule(
        "new", "cleared", "cleared", "A turn that is cut off is answered by a failure."
    ),
    "sender": FieldRule(
        "version", "cleared", "cleared", "The person who asked for the open turn."
    ),
    "earlier_usage": FieldRule(
        "newest", "cleared", "cleared", "The limit of a message counts its cost."
    ),
    "stopping": FieldRule(
        "cleared", "cleared", "cleared", "The turn goes on; stop it again."
    ),
    "reads_next": FieldRule(
        "cleared", "cleared", "cleared", "An unread message interrupts again."
    ),
    "settings_json": FieldRule("newest", "copied", "copied", "The settings stay."),
    "forked_from": FieldRule("newest", "new", "cleared", "The origin of a fork."),
    "rewind_to": FieldRule("cleared", "cleared", "cleared", "The rewind is done."),
    "doubtful_tools": FieldRule(
        "new",
        "new",
        "copied",
        "People are asked about calls that were approved or started.",
    ),
    "requesters": FieldRule(
        "new",
        "new",
        "new",
        "A person who may not approve in the original may not approve in the copy. "
        "Names count within one store.",
    ),
    "trace_context": FieldRule(
        "newest", "cleared", "copied", "The caller did not ask for the fork."
    ),
    "session_trace": FieldRule(
        "newest", "copied", "copied", "The next worker session is linked to it."
    ),
}


# `copied`: as in the version. `renewed`: it counts from now on, unless only the clock
# ends the wait. `new`: made by the rewind, the fork or the adoption.
WaitAction: TypeAlias = Literal["copied", "renewed", "new"]


class WaitFieldRule(NamedTuple):
    """The rule for one field of an open wait, and its reason."""

    rewind: WaitAction
    fork: WaitAction
    adopt: WaitAction
    reason: str


# A field without a line is copied: the wait asks the same.
WAIT_FIELD_RULES: Mapping[str, WaitFieldRule] = {
    "id": WaitFieldRule("new", "new", "new", "A wait id is never used twice."),
    "run_id": WaitFieldRule("copied", "new", "new", "A fork is a run of its own."),
    "digest": WaitFieldRule(
        "new", "new", "new", "It is made from the run, the call and the present tool."
    ),
    "created_at": WaitFieldRule(
        "renewed", "renewed", "copied", "People have their full time again."
    ),
    "deadline": WaitFieldRule(
        "renewed", "renewed", "copied", "People have their full time again."
    ),
    "note": WaitFieldRule(
        "new", "new", "copied", "It says that the call was started since the version."
    ),
    "display": WaitFieldRule(
        "copied", "new", "new", "It names the requester of the run."
    ),
    "quorum": WaitFieldRule(
        "copied", "new", "new", "A requester of the new run may not approve."
    ),
    "events_taken": WaitFieldRule(
        "new", "new", "new", "A wait does not take what its run took before."
    ),
}


class ArrivalRule(NamedTuple):
    """The rule for one kind of arrival, in words, and the field that it follows from.

    The field is one of `FIELD_RULES` (`run.…`) or of `WAIT_FIELD_RULES` (`wait.…`).
    """

    follows: str
    rewind: str
    fork: str
    adopt: str
    reason: str


_OWN = "stays with its run"
ARRIVAL_RULES: Mapping[str, ArrivalRule] = {
    "message": ArrivalRule(
        "run.last_inbox_number",
        "read ones are returned and not read again; unread ones are read next",
        _OWN,
        _OWN,
        "A message is read once.",
    ),
    "signal": ArrivalRule(
        "run.last_signal_number",
        "taken and dropped ones are gone; kept ones go to a wait that opens again",
        _OWN,
        _OWN,
        "A signal ends one wait.",
    ),
    "event taken": ArrivalRule(
        "run.events_taken",
        "not taken again",
        "one that was taken since the version may be taken here too",
        "one that was taken since may be taken here too",
        "A run takes an event once.",
    ),
    "decision": ArrivalRule(
        "wait.id",
        "has no effect; the wait opens again under a new id",
        "has no effect, but for those in `decisions=`",
        "has no effect",
        "A wait id is never used twice.",
    ),
    "extension": ArrivalRule(
        "wait.deadline",
        "ends with its wait; the new wait has its full time",
        "ends with its wait",
        "the deadline stays as the bytes have it",
        "A heartbeat extends one wait.",
    ),
    "escalation": ArrivalRule(
        "wait.id",
        "ends with its wait; the first approvers are asked again",
        "ends with its wait; the first approvers are asked again",
        "counts if the bytes have it",
        "It belongs to one wait.",
    ),
    "expiry": ArrivalRule(
        "wait.id",
        "has no effect; the wait opens again under a new id",
        "has no effect",
        "has no effect",
        "A wait id is never used twice.",
    ),
    "vote": ArrivalRule(
        "wait.id",
        "does not count; people vote again",
        "does not count",
        "does not count",
        "A vote is for the wait that the person saw.",
    ),
    "grant": ArrivalRule(
        "run.grants",
        "ends if it was given since",
        "not copied",
        "not copied",
        "See `grants`.",
    ),
    "revocation": ArrivalRule(
        "run.revoked_grants",
        "stays",
        "nothing to revoke",
        "nothing to revoke",
        "It is never undone.",
    ),
    "operator's request": ArrivalRule(
        "run.last_operator_number",
        "stays: a pause goes on, and one that ended does not come back",
        "not copied",
        "not copied",
        "Only `unpause` ends a pause.",
    ),
    "cancel request": ArrivalRule(
        "run.id",
        "ends the run, as before",
        _OWN,
        _OWN,
        "A request to cancel names one run.",
    ),
    "job answer": ArrivalRule(
        "wait.id",
        "an answer to a wait that is gone is refused",
        "the job of the other run answers there",
        "the job of the other run answers there",
        "A job knows the id of one wait.",
    ),
    "reminder": ArrivalRule(
        "wait.created_at",
        "counted anew from the new wait",
        "counted anew from the new wait",
        "goes on: it counts from the time when the wait was opened",
        "It belongs to the wait.",
    ),
}

# By the letter of the marker, as `layout.Marker` describes them. Markers of published
# events have letters of their own (`event_keys`).
MARKER_RULES: Mapping[str, ArrivalRule] = {
    "g": ArrivalRule(
        "run.rewind_to",
        "made before the claim of the rewind; another process finishes it",
        "none: no worker has a claim",
        "none: no worker has a claim",
        "A rewind is finished after a crash.",
    ),
    "r": ArrivalRule(
        "run.claim",
        "made before the new version if the run can go on",
        "made if the run can go on",
        "made if the run can go on",
        "A run that can go on has a marker.",
    ),
    "e": ArrivalRule(
        "wait.id", "new, for each new wait", "new", "new", "It names the id of a wait."
    ),
    "n": ArrivalRule(
        "wait.id", "new, for each new wait", "new", "new", "It names the id of a wait."
    ),
    "d": ArrivalRule(
        "wait.id",
        "those of closed waits go",
        "not copied",
        "not copied",
        "It names a wait.",
    ),
    "m": ArrivalRule(
        "run.last_inbox_number",
        "stay until read",
        _OWN,
        _OWN,
        "An unread message is read.",
    ),
    "s": ArrivalRule(
        "run.last_signal_number",
        "stay until taken in",
        _OWN,
        _OWN,
        "A new signal is taken in.",
    ),
    "c": ArrivalRule("run.id", "stays", _OWN, _OWN, "The run is cancelled."),
    "p": ArrivalRule(
        "run.events_taken",
        "stays",
        "has no run",
        "has no run",
        "An event is for all runs.",
    ),
    "o of an event": ArrivalRule(
        "run.events_taken",
        "stays",
        "has no run",
        "has no run",
        "An event is deleted after its time.",
    ),
    "o": ArrivalRule(
        "run.last_operator_number",
        "stay until obeyed",
        _OWN,
        _OWN,
        "The request is obeyed.",
    ),
}


def moved_wait(wait: Wait, act: Act, now: datetime, **new: Any) -> Wait:
    """Return a wait as a rewind, a fork or an adoption opens it again.

    Args:
        wait: The wait of the version.
        act: The act: a rewind, a fork or an adoption.
        now: The time from which a renewed wait counts.
        **new: Each field that one of the three makes anew.
    """
    actions = {name: getattr(rule, act) for name, rule in WAIT_FIELD_RULES.items()}
    values = {name: new[name] for name, act in actions.items() if act == "new"}
    renewed: dict[str, Any] = {"created_at": now, "deadline": None}
    if wait.deadline is not None:
        renewed["deadline"] = now + (wait.deadline - wait.created_at)
    for name, action in actions.items():
        if action == "renewed" and wait.rules.has_object:
            values[name] = renewed[name]
    return replace(wait, **values)


def rewound_row(newest: RunRow, target: RunRow, **new: Any) -> RunRow:
    """Return the row of a run that goes on from an earlier version of itself.

    Args:
        newest: The row of the newest version.
        target: The row of the earlier version.
        **new: Each field that the rewind makes anew.
    """
    sources = {"newest": newest, "version": target}
    return _row({name: rule.rewind for name, rule in FIELD_RULES.items()}, sources, new)


def forked_row(source: RunRow, **new: Any) -> RunRow:
    """Return the row of a fork; `new` has each field that a fork makes anew."""
    actions = {name: rule.fork for name, rule in FIELD_RULES.items()}
    return _row(actions, {"copied": source}, new)


def adopted_row(source: RunRow, **new: Any) -> RunRow:
    """Return the row of an adopted run; `new` has each field that is made anew."""
    actions = {name: rule.adopt for name, rule in FIELD_RULES.items()}
    return _row(actions, {"copied": source}, new)


def _row(
    actions: Mapping[str, str], sources: Mapping[str, RunRow], new: Mapping[str, Any]
) -> RunRow:
    made = {name for name, action in actions.items() if action == "new"}
    if made != set(new):
        msg = f"the rules and the new fields differ: {sorted(made ^ set(new))}."
        raise AssertionError(msg)
    values = {
        name: getattr(sources[action], name)
        for name, action in actions.items()
        if action in sources
    }
    return RunRow(**values, **new)
