"""Forged requests of operators, waiters, markers and model waits start nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

import pytest

from continuations import Agent, ContinuationsError, Runner, Suspended, tool
from continuations.core.operator_request import OperatorRequest
from continuations.core.rows.decisions import Decision, DecisionKind
from continuations.core.rows.wait_rules import WaitKind
from continuations.errors import Corrupt, FormatError
from continuations.ledger import event_keys, layout
from continuations.models.scripted import LaterReply, ScriptedModel, ToolCall
from continuations.wire.arrivals import OPERATOR_REQUEST
from continuations.wire.envelope import decode_object
from continuations.wire.records import DECISION, WAIT
from tests.clocks import ManualClock
from tests.hostile.editable_store import EditableStore
from tests.hostile.market import Market
from tests.hostile.mutations import seal_with_digest

Change: TypeAlias = "Callable[[dict[str, Any], dict[str, Any]], object]"
NOW = datetime(2030, 1, 1, tzinfo=UTC)
ULID = "01q3dcbe9yjqhrycjhgj6axyw7"
VICTIM = layout.version_key("other", 3)
REQUEST_KEY = layout.numbered_key(layout.OPERATOR_REQUEST, "r1", 1)


# Requests of operators --------------------------------------------------------------


def forged_request(run_id: str = "r1", **changes: Any) -> bytes:
    """Return the bytes of a pause, with changes."""
    plain = OperatorRequest(id=ULID, number=1, at=NOW, action="pause")
    return OPERATOR_REQUEST.encode(replace(plain, **changes), run_id)


OPERATIONS: dict[str, Callable[[Runner], object]] = {
    "resume": lambda runner: runner.resume("r1"),
    "pause": lambda runner: runner.pause("r1"),
    "unpause": lambda runner: runner.unpause("r1"),
    "cancel a call": lambda runner: runner.cancel("r1", call="boss/pay"),
    "audit": lambda runner: list(runner.audit("r1")),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "body",
    [
        forged_request("other"),
        forged_request(number=7),
        forged_request(number=0),
        forged_request(id="../../x"),
        forged_request(id=""),
        forged_request(id=ULID.upper()),
        forged_request(id=ULID * 4000),
        forged_request(action=cast("Any", "approve")),
        forged_request()[:-1],
        forged_request() + b"x",
        b"",
    ],
)
def test_forged_request_of_an_operator_is_refused_by_its_key(
    body: bytes, operation: str
) -> None:
    """Nothing is paused, cancelled or paid, and the object stays as it is."""
    market = Market("r1", "other")
    market.put(REQUEST_KEY, body)
    before = market.store.bodies

    with pytest.raises(FormatError, match=REQUEST_KEY):
        OPERATIONS[operation](market.runner())

    assert [] == market.ran
    assert before == market.store.bodies


@pytest.mark.parametrize("call_id", ["c999", "", "../x", "f1", "c" * 100_000])
def test_request_to_cancel_a_call_that_does_not_exist_changes_nothing(
    call_id: str,
) -> None:
    market = Market("r1")
    market.put(REQUEST_KEY, forged_request(action="cancel", call_id=call_id))

    outcome = market.runner().resume("r1")

    assert isinstance(outcome, Suspended)
    assert {"approval", "event"} == {wait.kind for wait in outcome.waits}
    assert [] == market.ran


def test_two_requests_with_one_id_pause_the_run_once() -> None:
    """A wait id is never used twice, so the second pause is refused by its key."""
    market = Market("r1")
    market.put(REQUEST_KEY, forged_request())
    market.runner().resume("r1")
    market.runner().unpause("r1")
    key = layout.numbered_key(layout.OPERATOR_REQUEST, "r1", 3)
    market.put(key, forged_request(number=3))

    outcome = market.runner().resume("r1")

    assert isinstance(outcome, Suspended)
    kinds = [wait.kind for wait in outcome.waits]
    assert 1 == kinds.count("operator")
    assert "approval" in {w.kind for w in market.runner().unpause("r1").waits}
    assert [] == market.ran


# Markers that records name ----------------------------------------------------------

FOREIGN_MARKERS = [
    VICTIM,
    "runs/other/in/stop",
    "waits/approval-x@other",
    "index/live/other",
    layout.Marker(0, "g", "9", "00000009", "other").key,
    "../../outside",
    "probe/passed",
    "",
]


@pytest.mark.parametrize("marker", FOREIGN_MARKERS)
def test_marker_that_a_record_names_is_deleted_only_if_it_is_the_runs_own(
    marker: str,
) -> None:
    """Else a forged record would delete the versions of another run."""
    market = Market("r1", "other")
    if marker.startswith(("markers/", "runs/other/in/")):
        market.put(marker)
    market.put(REQUEST_KEY, forged_request(marker=marker))
    before = {k: v for k, v in market.store.bodies.items() if "r1" not in k}

    market.runner().resume("r1")
    market.runner().unpause("r1")

    assert before == {k: v for k, v in market.store.bodies.items() if "r1" not in k}


@pytest.mark.parametrize("marker", FOREIGN_MARKERS)
def test_marker_that_a_version_names_is_deleted_only_if_it_is_the_runs_own(
    marker: str,
) -> None:
    market = Market("r1", "other")
    if marker.startswith(("markers/", "runs/other/in/")):
        market.put(marker)
    key = layout.version_key("r1", 3)
    change_object(market.store, key, lambda header, _: header.update(markers=[marker]))
    before = {k: v for k, v in market.store.bodies.items() if "r1" not in k}

    market.runner().pause("r1")
    market.runner().erase("r1")

    assert before == {k: v for k, v in market.store.bodies.items() if "r1" not in k}


# Waits for events -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["approval", "question", "external", "unknown"])
def test_publisher_ends_no_wait_of_another_kind(kind: WaitKind) -> None:
    """A forged waiter would make it answer an approval in place of a person."""
    market = Market("r1")
    wait = market.wait("approval")
    forged = replace(
        wait,
        kind=kind,
        id=wait.id.replace("approval", kind),
        event="price",
        event_key="tea",
    )
    topic = event_keys.topic_of("price", "tea")
    market.put(f"{event_keys.waiters_prefix(topic)}{forged.id}", WAIT.encode(forged))

    market.runner().publish("price", 3, key="tea")
    outcome = market.runner().resume("r1")

    assert isinstance(outcome, Suspended)
    assert [wait.id] == [each.id for each in outcome.waits]
    assert [] == market.ran
    [decision] = market.keys("runs/r1/in/")
    assert "d-event-" in decision


@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": "other"},
        {"id": f"event-{ULID}@r1"},
        {"event": "cost"},
        {"event_key": None},
        {"events_taken": ("x",)},
        {"deadline": datetime(1970, 1, 1, tzinfo=UTC)},
        {"created_at": datetime(9999, 12, 30, tzinfo=UTC)},
    ],
)
def test_forged_waiter_ends_no_wait(changes: dict[str, Any]) -> None:
    """The wait stays open, and the publisher goes on."""
    market = Market("r1", "other")
    wait = market.wait("event")
    market.store.replace_body(
        event_keys.waiter_key(wait), WAIT.encode(replace(wait, **changes))
    )

    published = market.runner().publish("price", 3, key="tea")

    assert ("other",) == published.run_ids
    assert [] == market.keys("runs/r1/in/")
    assert [] == market.ran


def test_waiter_with_another_digest_runs_nothing() -> None:
    """The decision that follows from it is refused when the run reads it."""
    market = Market("r1")
    wait = market.wait("event")
    forged = WAIT.encode(replace(wait, digest="0" * 64))
    market.store.replace_body(event_keys.waiter_key(wait), forged)
    market.runner().publish("price", 3, key="tea")

    with pytest.raises(Corrupt, match=wait.id):
        market.runner().resume("r1")
    assert [] == market.ran


@pytest.mark.parametrize("run_id", ["ghost", "r1"])
def test_waiter_of_a_run_that_is_gone_brings_no_run_back(run_id: str) -> None:
    """A sweep deletes what the publisher wrote for an erased run."""
    market = Market("r1")
    wait = market.wait("event")
    wait = replace(wait, run_id=run_id, id=wait.id.replace("@r1", f"@{run_id}"))
    market.runner().erase("r1")
    market.put(event_keys.waiter_key(wait), WAIT.encode(wait))

    market.runner().publish("price", 3, key="tea")
    assert {} == market.runner().sweep().errors

    assert [] == market.keys("runs/r1/in/", "waits/", "index/")
    assert [] == list(market.runner().runs())
    with pytest.raises(ContinuationsError):
        market.runner().resume(run_id)
    assert [] == market.ran


# Waits for models -------------------------------------------------------------------


def change_object(store: EditableStore, key: str, change: Change) -> None:
    """Change an object as a forger would, with the right digest."""
    opened = decode_object(store.bodies[key], key)
    header, body = dict(opened.header), cast("dict[str, Any]", opened.body)
    header.pop("size", None)
    change(header, body)
    store.replace_body(key, seal_with_digest(header, body))


class SlowAgent:
    """A run whose model computes its reply in the background."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.store, self.clock = EditableStore(), ManualClock()
        assert isinstance(self.runner().start("go", run_id="r1"), Suspended)
        self.key = layout.version_key("r1", 2)

    def runner(self) -> Runner:
        """Return a runner as another process has it."""

        @tool(idempotent=True)
        def act(what: str) -> str:
            """Act."""
            self.ran.append(what)
            return "acted"

        later = LaterReply([ToolCall("act", {"what": "1"})], polls=9)
        agent = Agent("boss", tools=[act], model=ScriptedModel([later, "end"]))
        return Runner(agent, store=self.store, clock=self.clock, model_retry_time=0)


MODEL_OPERATIONS: dict[str, Callable[[Runner], object]] = {
    "resume": lambda runner: runner.resume("r1"),
    "sweep": lambda runner: _raise_first(runner.sweep().errors),
    "wake": lambda runner: runner.wake("r1"),
    "cancel": lambda runner: runner.cancel("r1"),
    "pause": lambda runner: runner.pause("r1"),
}


def _raise_first(errors: dict[str, ContinuationsError]) -> None:
    for error in errors.values():
        raise error


def _set(part: str, **fields: Any) -> Change:
    return lambda _, body: body[part][0].update(fields)


def _drop(part: str, name: str) -> Change:
    return lambda _, body: body[part][0].pop(name)


def _add_wait(_: dict[str, Any], body: dict[str, Any]) -> None:
    body["waits"].append({**body["waits"][0], "id": f"model-{ULID}@r1"})


REFUSED: dict[str, Change] = {
    "count below zero": _set("frames", failed_requests=-1),
    "count is text": _set("frames", failed_requests="1"),
    "polls below zero": _set("frames", polls=-1),
    "polls is a float": _set("frames", polls=1.5),
    "empty pending reply": _set("frames", pending_reply=""),
    "pending reply is a number": _set("frames", pending_reply=7),
    "kind of a call": _set("waits", kind="approval"),
    "unknown kind": _set("waits", kind="x"),
    "no frame": _drop("waits", "frame"),
    "other frame": _set("waits", frame="f9"),
    "a call too": _set("waits", call="c1"),
    "late deadline": _set("waits", deadline=2**63),
    "other run": _set("waits", run="other"),
    "id is no ULID": _set("waits", id="model-x@r1"),
    "id is a path": _set("waits", id="../x"),
    "id of another run": _set("waits", id=f"model-{ULID}@other"),
    "id with a path": _set("waits", id=f"model-{ULID}@../x"),
    "id of another kind": _set("waits", id=f"approval-{ULID}@r1"),
    "two waits": _add_wait,
}


@pytest.mark.parametrize("operation", MODEL_OPERATIONS)
@pytest.mark.parametrize("name", REFUSED)
def test_forged_wait_for_a_model_is_refused_by_its_key(
    name: str, operation: str
) -> None:
    """No model is polled, no tool runs, and no object is changed."""
    slow = SlowAgent()
    change_object(slow.store, slow.key, REFUSED[name])
    slow.clock.seconds += 7200
    before = {k: v for k, v in slow.store.bodies.items() if k.startswith("runs/")}

    with pytest.raises(FormatError, match=slow.key):
        MODEL_OPERATIONS[operation](slow.runner())

    after = {k: v for k, v in slow.store.bodies.items() if k.startswith("runs/")}
    assert ([], before) == (slow.ran, after)


USABLE: dict[str, Change] = {
    "largest count": _set("frames", failed_requests=2**63 - 1),
    "most polls": _set("frames", polls=2**63 - 1),
    "other reply": _set("frames", pending_reply="../x" * 100_000),
    "first deadline": _set("waits", deadline=0),
    "last deadline": _set("waits", deadline=253_402_300_799_999),
    "no deadline": _drop("waits", "deadline"),
    "long note": _set("waits", note="n" * 1_000_000),
    "kind operator": _set("waits", kind="operator", id=f"operator-{ULID}@r1"),
}


@pytest.mark.parametrize("operation", MODEL_OPERATIONS)
@pytest.mark.parametrize("name", USABLE)
def test_odd_wait_for_a_model_runs_no_tool(name: str, operation: str) -> None:
    """Numbers and times at their limits raise typed errors or are used."""
    slow = SlowAgent()
    change_object(slow.store, slow.key, USABLE[name])
    slow.clock.seconds += 7200
    try:
        MODEL_OPERATIONS[operation](slow.runner())
    except ContinuationsError as error:
        assert "r1" in str(error)  # noqa: PT017 - most of them raise nothing
    assert [] == slow.ran


# Decisions --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["answer", "approve", "deny", "expire", "fail"])
def test_decision_of_a_wait_for_a_model_or_an_operator_is_not_taken(
    kind: DecisionKind,
) -> None:
    """Only the clock, `wake` and `unpause` end such waits."""
    slow = SlowAgent()
    paused = slow.runner().pause("r1")
    for wait in paused.waits:
        forged = Decision(id=ULID, wait_id=wait.id, kind=kind, at=NOW, digest="0" * 64)
        body = DECISION.encode(forged, "r1")
        asyncio.run(slow.store.create(layout.decision_key(wait.id), body))
    try:
        outcome: object = slow.runner().resume("r1")
    except Corrupt as error:
        assert "No call was run" in str(error)  # noqa: PT017 - or it is passed over
    else:
        assert isinstance(outcome, Suspended)
    assert [] == slow.ran
