"""Deciding: the first valid decision is recorded; others get an error with it."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from subprocess import run
from typing import Any, cast

import pytest

from continuations.core.rows.decisions import Answer, Approve, Decision, Deny, Verdict
from continuations.core.rows.waits import Wait
from continuations.errors import (
    AlreadyDecided,
    Cancelled,
    ContinuationsError,
    Corrupt,
    DecisionRefused,
    Inconclusive,
    StoreDenied,
    StoreUnavailable,
    WaitExpired,
    WaitNotFound,
)
from continuations.ledger import layout
from continuations.ledger.arrivals.arrivals import read_arrivals
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.decisions.decisions import (
    build_decision,
    close_wait,
    decide,
    find_open_wait,
)
from continuations.ledger.index import waits
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations.present.wait_words import DECISION_WORDS
from continuations.wire.fields import readable_time
from continuations_storage import FileStore, MemoryStore, errors
from continuations_storage.faults import FaultyStore, lost_reply, on, refused
from tests.ledger.fake_clock import MOMENT, make_ulid, seconds_after_start
from tests.ledger.interleaving import InterleavingStore
from tests.ledger.runs import (
    RUN,
    all_keys,
    make_objects,
    make_state,
    make_wait,
    make_wait_id,
    run_async,
    store_suspended_run,
)
from tests.outcomes import present

APPROVE = Approve(by="kim", reason="fine")
DENY = Deny(by="kim", reason="too much")


async def decide_wait(
    objects: Objects,
    verdict: object,
    *,
    wait: str | None = None,
    ulid_number: int = 1,
    now: datetime = MOMENT,
) -> Decision:
    """Decide wait 1, or another one."""
    given = cast("Verdict", verdict)
    decision = await decide(
        objects,
        wait or make_wait_id(),
        given,
        now=now,
        decision_id=make_ulid(ulid_number, now),
    )
    assert isinstance(decision, Decision)
    return decision


async def assert_undecided(objects: Objects, wait: str | None = None) -> None:
    """Check that a wait is open and nothing was recorded."""
    wait = wait or make_wait_id()
    assert await read_decision(objects, wait) is None
    assert layout.wait_key(wait) in await all_keys(objects, layout.WAITS_PREFIX)
    assert [] == await all_keys(objects, layout.MARKERS_PREFIX)


# Once -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [(APPROVE, "approve"), (Approve(), "approve"), (DENY, "deny"), (Deny(), "deny")],
)
async def test_decision_is_recorded_with_all_its_fields(
    verdict: Approve | Deny, kind: str, objects: Objects
) -> None:
    """The record has the person, the time, the reason and the digest."""
    wait = make_wait()
    await store_suspended_run(objects, wait)

    made = await decide_wait(objects, verdict, now=seconds_after_start(3))

    assert made == await read_decision(objects, wait.id)
    assert (wait.id, kind, seconds_after_start(3)) == (
        made.wait_id,
        made.kind,
        made.at,
    )
    assert (verdict.by, verdict.reason) == (made.by, made.reason)
    assert (wait.digest, None, None) == (made.digest, made.arguments, made.value)
    assert [] == await all_keys(objects, layout.WAITS_PREFIX)
    assert [made.marker] == await all_keys(objects, layout.MARKERS_PREFIX)


async def test_decide_appends_no_version(objects: Objects) -> None:
    """Recording a decision and resuming a run are separate steps."""
    loaded = await store_suspended_run(objects, make_wait())
    await decide_wait(objects, APPROVE)

    newest = await Versions(objects, RUN).load_newest()
    assert (1, loaded.state) == (newest.number, newest.state)


@pytest.mark.parametrize(
    "verdict",
    [
        APPROVE,
        DENY,
        Approve(),
        Deny(),
        Approve(arguments={}),
        Approve(arguments={"cents": 1}),
    ],
)
@pytest.mark.parametrize("seconds", [0, 5, 10**6])
async def test_repeated_decision_is_a_success(verdict: Verdict, seconds: int) -> None:
    """A repeat succeeds at once, later, and after the deadline."""
    objects = make_objects()
    await store_suspended_run(objects, make_wait(deadline=seconds_after_start(60)))
    first = await decide_wait(objects, verdict)
    before = await all_keys(objects)

    again = await decide_wait(
        objects, verdict, ulid_number=2, now=seconds_after_start(seconds)
    )

    assert first == again
    assert before == await all_keys(objects)


async def test_repeated_decision_with_the_same_id_is_a_success() -> None:
    objects = make_objects()
    await store_suspended_run(objects, make_wait())
    first = await decide_wait(objects, APPROVE)
    # Given the wait's object is still there: its delete was lost
    await waits.create(objects, [make_wait()])

    assert first == await decide_wait(objects, APPROVE)
    assert [first.marker] == await all_keys(objects, layout.MARKERS_PREFIX)


DIFFERENT_DECISIONS = [
    (APPROVE, DENY),
    (DENY, APPROVE),
    (APPROVE, Approve(by="jo", reason="fine")),
    (APPROVE, Approve(by="kim")),
    (APPROVE, Approve(by="kim", reason="fine", arguments={})),
    (Approve(arguments={}), Approve()),
    (Approve(arguments={"cents": 1}), Approve(arguments={"cents": 2})),
    (DENY, Deny(by="kim", reason="no")),
]


@pytest.mark.parametrize(("first", "second"), DIFFERENT_DECISIONS)
@pytest.mark.parametrize("left", [False, True])
async def test_second_decision_gets_already_decided_with_the_first(
    first: Verdict, second: Verdict, objects: Objects, *, left: bool
) -> None:
    """This holds also if a crash left the object of the decided wait."""
    await store_suspended_run(objects, make_wait())
    recorded = await decide_wait(objects, first)
    if left:
        await waits.create(objects, [make_wait()])

    with pytest.raises(AlreadyDecided) as caught:
        await decide_wait(objects, second, ulid_number=2, now=seconds_after_start(9))

    assert recorded == caught.value.decision
    assert (RUN, make_wait_id()) == (caught.value.run_id, caught.value.wait_id)
    text = str(caught.value)
    assert f"{DECISION_WORDS[recorded.kind].lower()} " in text
    assert f"at {readable_time(recorded.at)}. " in text
    assert "error.decision, and resume the run." in text
    assert recorded == await read_decision(objects, make_wait_id())
    assert [recorded.marker] == await all_keys(objects, layout.MARKERS_PREFIX)
    assert [] == await all_keys(objects, layout.WAITS_PREFIX)


async def test_key_order_does_not_make_another_edit(objects: Objects) -> None:
    await store_suspended_run(objects, make_wait())
    first = await decide_wait(objects, Approve(arguments={"cents": 1, "to": "x"}))

    again = await decide_wait(
        objects, Approve(arguments={"to": "x", "cents": 1}), ulid_number=2
    )
    assert first == again


# Races ------------------------------------------------------------------------


@pytest.mark.parametrize("shown", [True, False])
async def test_exactly_one_of_opposite_decisions_is_recorded(*, shown: bool) -> None:
    """Twenty people decide at once; also before the wait is listed."""
    objects = make_objects()
    await store_suspended_run(objects, make_wait(), announce_waits=shown)
    verdicts = [
        (Approve if number % 2 else Deny)(by=f"person {number}") for number in range(20)
    ]

    results = await asyncio.gather(
        *(
            decide_wait(objects, verdict, ulid_number=n)
            for n, verdict in enumerate(verdicts)
        ),
        return_exceptions=True,
    )

    recorded = await read_decision(objects, make_wait_id())
    won = [each for each in results if isinstance(each, Decision)]
    lost = [each for each in results if isinstance(each, AlreadyDecided)]
    assert [recorded] == won
    assert [recorded] * 19 == [each.decision for each in lost]
    assert recorded is not None
    assert [recorded.marker] == await all_keys(objects, layout.MARKERS_PREFIX)
    assert [] == await all_keys(objects, layout.WAITS_PREFIX)


async def test_concurrent_equal_decisions_are_one_decision(objects: Objects) -> None:
    """A double click, or a webhook that is delivered five times, succeeds."""
    await store_suspended_run(objects, make_wait())

    results = await asyncio.gather(
        *(decide_wait(objects, APPROVE, ulid_number=n) for n in range(5))
    )

    recorded = present(await read_decision(objects, make_wait_id()))
    assert [recorded] * 5 == results
    assert [recorded.marker] == await all_keys(objects, layout.MARKERS_PREFIX)


@dataclass(frozen=True, kw_only=True)
class Rival:
    """Another process that ends the wait; `kind` is the kind of its decision."""

    kind: str
    end_wait: Callable[[Objects, Wait], Awaitable[object]]
    error: type[ContinuationsError]


RIVALS = [
    Rival(
        kind="deny",
        end_wait=lambda objects, _: decide_wait(objects, DENY, ulid_number=50),
        error=AlreadyDecided,
    ),
    Rival(
        kind="expire",
        end_wait=lambda objects, wait: close_wait(
            objects, wait, "expire", now=MOMENT, decision_id=make_ulid(50)
        ),
        error=WaitExpired,
    ),
    Rival(
        kind="cancel",
        end_wait=lambda objects, wait: close_wait(
            objects,
            wait,
            "cancel",
            now=MOMENT,
            decision_id=make_ulid(50),
            reason="enough",
        ),
        error=Cancelled,
    ),
]


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.kind)
def test_decide_interleaved_with_a_rival_has_one_result_for_all(
    rival: Rival, *, shown: bool
) -> None:
    """The rival acts before each request of an approval in turn."""

    async def scenario(number: int) -> int:
        # Given an open wait
        inner = MemoryStore()
        wait = make_wait()
        await store_suspended_run(Objects(inner), wait, announce_waits=shown)
        others: list[object] = []

        async def visitor() -> None:
            try:
                others.append(await rival.end_wait(Objects(inner), wait))
            except ContinuationsError as error:
                others.append(error)

        # When it is approved, and a rival ends it right before a request
        store = InterleavingStore(inner, number, visitor)
        try:
            mine: object = await decide_wait(Objects(store), APPROVE)
        except ContinuationsError as error:
            mine = error
        if number == 0:
            await visitor()

        # Then one decision is recorded, and both deciders get it
        recorded = present(await read_decision(Objects(inner), wait.id))
        if recorded.kind == "approve":
            assert recorded == mine
            assert isinstance(others[0], AlreadyDecided) or others == [recorded]
        else:
            assert rival.kind == recorded.kind
            assert rival.error is type(mine)
            assert [recorded] == others
        assert [] == await all_keys(Objects(inner), layout.WAITS_PREFIX)
        made = [recorded.marker] if recorded.marker else []
        assert made == await all_keys(Objects(inner), layout.MARKERS_PREFIX)
        return store.request_count

    for number in range(run_async(scenario(0)) + 1):
        run_async(scenario(number))


# Only a decision decides --------------------------------------------------------


class ApproveSubclass(Approve):
    """A subclass of `Approve`."""


class StrSubclass(str):
    """A subclass of str."""

    __slots__ = ()


class Truthy:
    """An object that is true in a condition."""

    by = "kim"
    reason = None
    arguments = None

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


def invalid_approval(**fields: object) -> Approve:
    """Return an approval with fields of wrong types."""
    return Approve(**cast("dict[str, Any]", fields))


INVALID_DECISIONS: list[object] = [
    None,
    True,
    False,
    "true",
    "approve",
    "yes",
    "",
    0,
    1,
    {},
    {"approved": True},
    {"kind": "approve"},
    [],
    Approve,
    Deny,
    (Approve(),),
    ApproveSubclass(),
    Truthy(),
    object(),
    invalid_approval(by=5),
    invalid_approval(by=True),
    invalid_approval(by=["kim"]),
    invalid_approval(by=StrSubclass("kim")),
    invalid_approval(reason=5),
    invalid_approval(reason=b"fine"),
    invalid_approval(arguments=5),
    invalid_approval(arguments=0),
    invalid_approval(arguments=False),
    invalid_approval(arguments=""),
    invalid_approval(arguments="{}"),
    invalid_approval(arguments=[]),
    invalid_approval(arguments=[("cents", 1)]),
    invalid_approval(arguments=object()),
    Deny(by=cast("str", 5)),
    Deny(reason=cast("str", {})),
]


@pytest.mark.parametrize("verdict", INVALID_DECISIONS)
async def test_invalid_decision_is_refused_and_not_recorded(verdict: object) -> None:
    """Only a well-typed `Approve` runs a tool."""
    objects = make_objects()
    await store_suspended_run(objects, make_wait())

    with pytest.raises(DecisionRefused) as caught:
        await decide_wait(objects, verdict)

    assert (RUN, make_wait_id()) == (caught.value.run_id, caught.value.wait_id)
    await assert_undecided(objects)
    # And the wait can still be decided
    assert "approve" == (await decide_wait(objects, APPROVE)).kind


@pytest.mark.parametrize("verdict", INVALID_DECISIONS)
@pytest.mark.parametrize("kind", ["approve", "deny", "expire", "cancel"])
@pytest.mark.parametrize("left", [False, True])
async def test_invalid_decision_after_the_end_is_refused(
    verdict: object, kind: str, objects: Objects, *, left: bool
) -> None:
    """An invalid decision never counts as a repeat of the recorded one."""
    await store_suspended_run(objects, make_wait())
    if kind in ("approve", "deny"):
        await decide_wait(objects, Approve() if kind == "approve" else Deny())
    else:
        end = next(rival for rival in RIVALS if rival.kind == kind)
        await end.end_wait(objects, make_wait())
    if left:
        await waits.create(objects, [make_wait()])
    recorded = await read_decision(objects, make_wait_id())

    errors_told = (AlreadyDecided, DecisionRefused, WaitExpired, Cancelled)
    with pytest.raises(errors_told):
        await decide_wait(objects, verdict, ulid_number=2)

    assert recorded == await read_decision(objects, make_wait_id())


# Edits ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "stored"),
    [
        ({}, "{}"),
        ({"cents": 1}, '{"cents":1}'),
        ({"to": "kim", "cents": -1}, '{"cents":-1,"to":"kim"}'),
        ({"cents": 2**64}, '{"cents":18446744073709551616}'),
        ({"cents": 10**300}, '{"cents":1' + "0" * 300 + "}"),
        ({"to": "\u2028\u202e\0 é 🏦"}, '{"to":"\u2028\u202e\\u0000 é 🏦"}'),
        ({"to": "x" * 100_000}, '{"to":"' + "x" * 100_000 + '"}'),
    ],
)
async def test_edited_arguments_are_recorded_unchanged(
    arguments: dict[str, Any], stored: str, objects: Objects
) -> None:
    """Empty arguments are an edit too."""
    await store_suspended_run(objects, make_wait())

    await decide_wait(objects, Approve(arguments=arguments))

    made = present(await read_decision(objects, make_wait_id()))
    assert stored == made.arguments


def nested_mapping(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"to": value}
    return value


def cyclic_mapping() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["to"] = value
    return value


@pytest.mark.parametrize(
    "arguments",
    [
        {"cents": "500"},
        {"cents": 1.5},
        {"cents": None},
        {"cents": True},
        {"to": 5},
        {"cents": 1, "iban": "x"},
        {"cents": float("nan")},
        {"cents": float("inf")},
        {"cents": -float("inf")},
        {"cents": 10**5000},
        {"cents": 1 + 0j},
        {"to": b"kim"},
        {"to": {"kim"}},
        {"to": MOMENT},
        {5: "x"},
        {None: "x"},
        {True: "x"},
        {("a", "b"): "x"},
        {"to": ("kim",)},
        {"\ud800": 1},
        {"to": "\ud800"},
        {"to": object()},
        nested_mapping(150),
        nested_mapping(5000),
        cyclic_mapping(),
    ],
)
async def test_invalid_edit_leaves_the_wait_open(arguments: dict[str, Any]) -> None:
    """Edited arguments are validated against the stored schema."""
    objects = make_objects()
    await store_suspended_run(objects, make_wait())

    with pytest.raises(DecisionRefused):
        await decide_wait(objects, Approve(arguments=arguments))

    await assert_undecided(objects)
    assert (
        "approve" == (await decide_wait(objects, Approve(arguments={"cents": 1}))).kind
    )


async def test_error_of_an_invalid_edit_hides_its_values(objects: Objects) -> None:
    """Error messages are logged."""
    await store_suspended_run(objects, make_wait())
    with pytest.raises(DecisionRefused) as caught:
        await decide_wait(objects, Approve(arguments={"cents": "my secret"}))

    assert "cents" in str(caught.value)
    assert "my secret" not in str(caught.value)


async def test_edits_are_checked_against_the_schema_of_the_wait() -> None:
    """The schema is the one that was stored at the suspension."""
    objects = make_objects()
    strict = replace(
        make_wait(),
        schema_json='{"type":"object","required":["euros"],"properties":'
        '{"euros":{"type":"integer","maximum":10}}}',
    )
    await store_suspended_run(objects, strict)
    for arguments in ({}, {"cents": 1}, {"euros": 11}, {"euros": "1"}):
        with pytest.raises(DecisionRefused):
            await decide_wait(objects, Approve(arguments=arguments))
    await assert_undecided(objects)

    made = await decide_wait(objects, Approve(arguments={"euros": 10}))
    assert '{"euros":10}' == made.arguments


def test_stored_schema_makes_no_process_fetch_a_url() -> None:
    """A schema that refers to another document refuses every edit."""

    async def scenario(port: int) -> None:
        objects = make_objects()
        schema = f'{{"$ref":"http://127.0.0.1:{port}/schema"}}'
        await store_suspended_run(objects, replace(make_wait(), schema_json=schema))

        with pytest.raises(DecisionRefused, match="arguments cannot be validated"):
            await decide_wait(objects, Approve(arguments={"cents": 1}))

        await assert_undecided(objects)

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)  # noqa: FBT003 - its only argument
        run_async(scenario(server.getsockname()[1]))

        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (5, "arguments must be a dict"),
        ([], "arguments must be a dict"),
        ("{}", "arguments must be a dict"),
        ({"to": b"kim"}, "arguments cannot be stored"),
        ({5: "x"}, "arguments cannot be stored"),
    ],
)
async def test_edit_must_be_json_mapping_even_if_the_schema_allows_all(
    arguments: object, why: str, objects: Objects
) -> None:
    """Arguments that cannot be stored are refused with the reason."""
    await store_suspended_run(objects, replace(make_wait(), schema_json="{}"))

    with pytest.raises(DecisionRefused, match=why):
        await decide_wait(objects, invalid_approval(arguments=arguments))

    await assert_undecided(objects)


async def test_recorded_edit_does_not_change_with_the_callers_dict() -> None:
    objects = make_objects()
    await store_suspended_run(objects, make_wait())
    arguments = {"cents": 1}
    made = await decide_wait(objects, Approve(arguments=arguments))
    arguments["cents"] = 10**9

    assert made == await read_decision(objects, make_wait_id())
    assert '{"cents":1}' == made.arguments


# Unknown outcomes -----------------------------------------------------------------

UNKNOWN = make_wait_id(1, "unknown")


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (False, "false"),
        (True, "true"),
        (0, "0"),
        (0.0, "0.0"),
        ("", '""'),
        ("false", '"false"'),
        (None, "null"),
        ("null", '"null"'),
        ([], "[]"),
        ({}, "{}"),
        ({"b": 1, "a": [None]}, '{"a":[null],"b":1}'),
        (10**30, "1" + "0" * 30),
        ("\ud800", '"\ud800"'),
    ],
)
async def test_any_json_value_answers_an_unknown_outcome(
    value: object, stored: str, objects: Objects
) -> None:
    """False, zero, null and the empty text are different values."""
    loaded = await store_suspended_run(objects, make_wait(1, "unknown"))

    await decide_wait(objects, Answer(value, by="kim"), wait=UNKNOWN)

    came = (await read_arrivals(objects, loaded.state)).decisions
    assert stored == came[UNKNOWN].value
    assert ("answer", "kim") == (came[UNKNOWN].kind, came[UNKNOWN].by)


def test_similar_answers_are_different_decisions() -> None:
    values: list[object] = [False, 0, "", None, "0", "false", "null", [], {}, 0.0]

    async def scenario(first: object, second: object) -> None:
        objects = make_objects()
        await store_suspended_run(objects, make_wait(1, "unknown"))
        recorded = await decide_wait(objects, Answer(first), wait=UNKNOWN)
        with pytest.raises(AlreadyDecided) as caught:
            await decide_wait(objects, Answer(second), wait=UNKNOWN, ulid_number=2)
        assert recorded == caught.value.decision
        assert recorded == await decide_wait(
            objects, Answer(first), wait=UNKNOWN, ulid_number=3
        )

    for first in values:
        for second in values:
            if (type(first), first) != (type(second), second):
                run_async(scenario(first, second))


@pytest.mark.parametrize("verdict", [APPROVE, DENY, Approve(), Deny()])
async def test_unknown_outcome_may_be_approved_or_denied(verdict: Verdict) -> None:
    """`Approve` runs the call again; `Deny` does not."""
    objects = make_objects()
    await store_suspended_run(objects, make_wait(1, "unknown"))
    made = await decide_wait(objects, verdict, wait=UNKNOWN)

    assert made == await read_decision(objects, UNKNOWN)


@pytest.mark.parametrize(
    "verdict",
    [
        Approve(arguments={"cents": 1}),
        Approve(arguments={}),
        Answer(float("nan")),
        Answer(object()),
        Answer((1, 2)),
        Answer({1: 2}),
        Answer(b"x"),
        Answer(nested_mapping(5000)),
        Answer(cyclic_mapping()),
        Answer(10**5000),
        Answer(1, by=cast("str", 5)),
        None,
        True,
        "",
    ],
)
async def test_invalid_decision_of_an_unknown_outcome_is_refused(
    verdict: object, objects: Objects
) -> None:
    await store_suspended_run(objects, make_wait(1, "unknown"))
    with pytest.raises(DecisionRefused):
        await decide_wait(objects, verdict, wait=UNKNOWN)

    await assert_undecided(objects, UNKNOWN)


# Deadlines ------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [APPROVE, DENY, Approve(arguments={"cents": 1})])
@pytest.mark.parametrize(("seconds", "late"), [(59.999, 0), (60, 0), (60.001, 1)])
async def test_decide_after_the_deadline_raises_wait_expired(
    verdict: Verdict, seconds: float, objects: Objects, *, late: int
) -> None:
    """A late approval is an error, and nothing is recorded."""
    await store_suspended_run(objects, make_wait(deadline=seconds_after_start(60)))
    if not late:
        await decide_wait(objects, verdict, now=seconds_after_start(seconds))
        return
    with pytest.raises(WaitExpired) as caught:
        await decide_wait(objects, verdict, now=seconds_after_start(seconds))
    assert (RUN, make_wait_id()) == (caught.value.run_id, caught.value.wait_id)
    await assert_undecided(objects)


async def test_wait_without_deadline_never_expires(objects: Objects) -> None:
    """A wait may stay open without a limit."""
    await store_suspended_run(objects, make_wait())
    made = await decide_wait(
        objects, APPROVE, now=seconds_after_start(20 * 365 * 86400)
    )

    assert "approve" == made.kind


async def test_late_repeat_gets_the_recorded_decision_after_a_crash() -> None:
    """The recorded approval counts, also after the deadline."""
    # Given a decider that crashed after the decision, before the delete
    objects = make_objects()
    wait = make_wait(deadline=seconds_after_start(60))
    await store_suspended_run(objects, wait)
    recorded = await decide_wait(objects, APPROVE)
    await waits.create(objects, [wait])

    # When the client repeats the decision after the deadline
    again = await decide_wait(
        objects, APPROVE, ulid_number=2, now=seconds_after_start(3600)
    )

    # Then it gets the recorded decision, and the wait is not listed any more
    assert recorded == again
    assert [] == await objects.keys("waits/")
    with pytest.raises(AlreadyDecided):
        await decide_wait(objects, DENY, ulid_number=3, now=seconds_after_start(3600))


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.kind)
@pytest.mark.parametrize("verdict", [APPROVE, Approve(arguments={"cents": 1})])
async def test_decide_on_an_ended_wait_raises_the_matching_error(
    rival: Rival, verdict: Verdict, objects: Objects
) -> None:
    wait = make_wait()
    await store_suspended_run(objects, wait)
    await rival.end_wait(objects, wait)

    with pytest.raises(rival.error):
        await decide_wait(objects, verdict)
    assert await find_open_wait(objects, wait.id) is None


async def test_expiry_and_cancel_keep_an_earlier_decision(objects: Objects) -> None:
    """The process that closes the wait gets the earlier decision."""
    wait = make_wait(deadline=seconds_after_start(60))
    await store_suspended_run(objects, wait)
    recorded = await decide_wait(objects, APPROVE)

    for kind in ("expire", "cancel"):
        end = next(rival for rival in RIVALS if rival.kind == kind)
        assert recorded == await end.end_wait(objects, wait)


async def test_close_leaves_no_marker_and_no_wait_object(objects: Objects) -> None:
    await store_suspended_run(objects, make_wait())
    made = await close_wait(
        objects,
        make_wait(),
        "cancel",
        now=seconds_after_start(1),
        decision_id=make_ulid(3),
        reason="enough",
    )

    assert ("cancel", "enough", None) == (made.kind, made.reason, made.marker)
    assert [] == await all_keys(objects, layout.WAITS_PREFIX) + await all_keys(
        objects, layout.MARKERS_PREFIX
    )


# Waits that are not there -----------------------------------------------------------


async def test_wait_without_object_is_decided_by_its_version(objects: Objects) -> None:
    """A crash came between the version and the object of its wait."""
    await store_suspended_run(objects, make_wait(), announce_waits=False)

    made = await decide_wait(objects, Approve(arguments={"cents": 1}))

    assert made == await read_decision(objects, make_wait_id())
    assert [] == await all_keys(objects, layout.WAITS_PREFIX)


async def test_find_recreates_a_missing_wait_object(objects: Objects) -> None:
    await store_suspended_run(objects, make_wait(), announce_waits=False)

    assert make_wait() == await find_open_wait(objects, make_wait_id())
    assert [layout.wait_key(make_wait_id())] == await all_keys(
        objects, layout.WAITS_PREFIX
    )


def test_find_does_not_recreate_a_decided_wait() -> None:
    """The decision comes right before any request of the search."""

    async def scenario(number: int) -> int:
        inner = MemoryStore()
        await store_suspended_run(Objects(inner), make_wait(), announce_waits=False)
        store = InterleavingStore(
            inner, number, lambda: decide_wait(Objects(inner), APPROVE)
        )

        await find_open_wait(Objects(store), make_wait_id())
        if number:
            assert [] == await all_keys(Objects(inner), layout.WAITS_PREFIX)
        return store.request_count

    for number in range(run_async(scenario(0)) + 1):
        run_async(scenario(number))


@pytest.mark.parametrize("verdict", [APPROVE, DENY, None, "true"])
async def test_unknown_wait_id_raises_wait_not_found(verdict: object) -> None:
    """A decision is never applied by position, and never ignored."""
    objects = make_objects()
    await store_suspended_run(objects, make_wait(1))
    before = await all_keys(objects)
    for name in (
        make_wait_id(2),
        make_wait_id(1, "unknown"),
        make_wait_id(1, run_id="kim-1"),
        "approval",
        "",
        f"{make_wait_id(1)}\n",
        make_wait_id(1).upper(),
        "../../x",
    ):
        with pytest.raises(WaitNotFound):
            await decide_wait(objects, verdict, wait=name or "x")

    assert before == await all_keys(objects)


async def test_unknown_wait_and_repeated_decision_cost_no_create() -> None:
    """An invented id, or a webhook that repeats, cannot fill the store with markers."""
    store = FaultyStore(MemoryStore())
    objects = make_objects(store)
    await store_suspended_run(objects, make_wait(1))
    await decide_wait(objects, APPROVE)

    store.operations.clear()
    await decide_wait(objects, APPROVE)
    for name in (make_wait_id(2), make_wait_id(1, run_id="kim-1")):
        with pytest.raises(WaitNotFound):
            await decide_wait(objects, APPROVE, wait=name)

    assert {"read", "keys"} == {each.verb for each in store.operations}


async def test_decide_on_a_damaged_run_raises_corrupt(objects: Objects) -> None:
    """A damaged run is not "no such wait"."""
    await objects.create(layout.version_key(RUN, 1), b"")
    with pytest.raises(Corrupt):
        await decide_wait(objects, APPROVE)


async def test_wait_that_a_newer_version_lacks_is_not_found(objects: Objects) -> None:
    loaded = await store_suspended_run(objects, make_wait(1), announce_waits=False)
    await Versions(objects, RUN).append(loaded, make_state(make_wait(2)), at=MOMENT)

    with pytest.raises(WaitNotFound):
        await decide_wait(objects, APPROVE)
    assert "approve" == (await decide_wait(objects, APPROVE, wait=make_wait_id(2))).kind


async def test_each_of_several_waits_is_decided_by_its_own_id(objects: Objects) -> None:
    """Decisions may come in any order and from several processes."""
    group = [make_wait(number) for number in range(1, 6)]
    loaded = await store_suspended_run(objects, *group)
    for number in (3, 1, 5):
        verdict = Approve(by=str(number)) if number != 1 else Deny(by="1")
        await decide_wait(
            objects, verdict, wait=make_wait_id(number), ulid_number=number
        )

    came = (await read_arrivals(objects, loaded.state)).decisions
    assert {make_wait_id(n): (k, str(n)) for n, k in ((1, "deny"), (3, "approve"))} | {
        make_wait_id(5): ("approve", "5")
    } == {key: (each.kind, each.by) for key, each in came.items()}
    assert {
        layout.wait_key(make_wait_id(2)),
        layout.wait_key(make_wait_id(4)),
    } == set(await all_keys(objects, layout.WAITS_PREFIX))


# Requests and their order -------------------------------------------------------


async def test_decide_costs_a_read_two_creates_and_a_delete() -> None:
    """There is no listing, and the marker is created before the decision."""
    store = FaultyStore(MemoryStore())
    objects = Objects(store)
    await store_suspended_run(objects, make_wait())
    store.operations.clear()

    made = await decide_wait(objects, Approve(arguments={"cents": 1}))

    assert [
        ("read", layout.wait_key(make_wait_id())),
        ("create", made.marker),
        ("create", layout.decision_key(make_wait_id())),
        ("delete", layout.wait_key(make_wait_id())),
    ] == [(each.verb, each.key) for each in store.operations]


async def test_repeated_decision_writes_nothing() -> None:
    store = FaultyStore(MemoryStore())
    objects = Objects(store)
    await store_suspended_run(objects, make_wait())
    await decide_wait(objects, APPROVE)
    store.operations.clear()
    await decide_wait(objects, APPROVE, ulid_number=2)

    verbs = Counter(each.verb for each in store.operations)
    assert verbs.keys() == {"read"}
    assert verbs["read"] <= 3


async def test_marker_of_a_decision_is_due_at_once(objects: Objects) -> None:
    await store_suspended_run(objects, make_wait())
    made = await decide_wait(objects, APPROVE, now=seconds_after_start(5))
    marker = present(layout.parse_marker(made.marker or ""))

    assert ("d", make_ulid(1), RUN) == (marker.reason, marker.target, marker.run_id)
    assert layout.DUE_NOW == marker.due_ms


async def test_refused_decision_creates_no_marker() -> None:
    """A late one creates a marker, to learn the store's time, and deletes it."""
    store = FaultyStore(MemoryStore())
    objects = Objects(store)
    await store_suspended_run(objects, make_wait(deadline=seconds_after_start(60)))
    store.operations.clear()
    with pytest.raises(DecisionRefused):
        await decide_wait(objects, None, now=MOMENT)
    assert {"read"} == {each.verb for each in store.operations}

    with pytest.raises(WaitExpired):
        await decide_wait(objects, APPROVE, now=seconds_after_start(61))
    assert [] == await all_keys(objects, layout.MARKERS_PREFIX)


# A store that fails ----------------------------------------------------------------


async def test_failed_delete_of_the_wait_object_keeps_the_decision() -> None:
    """The decision is recorded, although the wait is still listed."""
    inner = MemoryStore()
    await store_suspended_run(Objects(inner), make_wait())
    store = FaultyStore(inner, on("delete", refused(), prefix=layout.WAITS_PREFIX))

    made = await decide_wait(Objects(store), APPROVE)

    assert made == await read_decision(Objects(inner), make_wait_id())
    assert made == await decide_wait(Objects(inner), APPROVE, ulid_number=2)
    assert [] == await all_keys(Objects(inner), layout.WAITS_PREFIX)


@pytest.mark.parametrize("prefix", [layout.MARKERS_PREFIX, layout.arrivals_prefix(RUN)])
@pytest.mark.parametrize(
    ("error", "named"),
    [(errors.Unavailable, StoreUnavailable), (errors.Denied, StoreDenied)],
)
async def test_store_error_records_nothing(
    prefix: str, error: type[errors.StorageError], named: type[Exception]
) -> None:
    """The decision can be repeated."""
    inner = MemoryStore()
    await store_suspended_run(Objects(inner), make_wait())
    store = FaultyStore(inner, on("create", refused(error), prefix=prefix))
    with pytest.raises(named):
        await decide_wait(Objects(store), APPROVE)

    assert await read_decision(Objects(inner), make_wait_id()) is None
    assert "deny" == (await decide_wait(Objects(inner), DENY, ulid_number=2)).kind


async def test_decide_with_lost_reply_is_inconclusive_and_repeatable() -> None:
    """The repeated decision recognises itself."""
    inner = MemoryStore()
    await store_suspended_run(Objects(inner), make_wait())
    prefix = layout.arrivals_prefix(RUN)
    store = FaultyStore(inner, on("create", lost_reply(), prefix=prefix))
    with pytest.raises(Inconclusive):
        await decide_wait(Objects(store), APPROVE)

    again = await decide_wait(Objects(inner), APPROVE, ulid_number=2)
    assert make_ulid(1) == again.id
    assert [again.marker] == await all_keys(Objects(inner), layout.MARKERS_PREFIX)


async def test_denied_read_of_a_wait_raises_store_denied(inner: MemoryStore) -> None:
    """A denied read is not a missing wait."""
    await store_suspended_run(Objects(inner), make_wait())
    store = FaultyStore(inner, on("read", refused(errors.Denied)))
    with pytest.raises(StoreDenied):
        await decide_wait(Objects(store), APPROVE)


async def test_damaged_decision_is_not_overwritten(objects: Objects) -> None:
    """The error names the damaged object."""
    await store_suspended_run(objects, make_wait())
    await objects.create(layout.decision_key(make_wait_id()), b"damaged")
    for verdict in (APPROVE, DENY, None):
        with pytest.raises(ContinuationsError):
            await decide_wait(objects, verdict)

    assert b"damaged" == await objects.read(layout.decision_key(make_wait_id()))


async def test_cancel_ignores_a_damaged_decision(objects: Objects) -> None:
    await store_suspended_run(objects, make_wait())
    await objects.create(layout.decision_key(make_wait_id()), b"")
    damaged = layout.decision_key(make_wait_id())
    made = await close_wait(
        objects, make_wait(), "cancel", now=MOMENT, decision_id=make_ulid(1)
    )

    assert "cancel" == made.kind
    assert b"" == await objects.read(damaged)


async def test_decide_during_an_erase_raises(inner: MemoryStore) -> None:
    """The first decision is deleted before it is read."""
    await store_suspended_run(Objects(inner), make_wait())
    await decide_wait(Objects(inner), DENY, ulid_number=9)
    await waits.create(Objects(inner), [make_wait()])
    requests: list[str] = []

    async def erase() -> None:
        requests.append("erased")
        for key in await inner.keys(""):
            await inner.delete(key)

    # The requests are: read the wait, marker, decision, read the first decision
    with pytest.raises(ContinuationsError):
        await decide_wait(Objects(InterleavingStore(inner, 4, erase)), APPROVE)
    assert ["erased"] == requests


# The pure part ----------------------------------------------------------------------


def test_decision_is_built_without_a_store() -> None:
    wait = make_wait(deadline=seconds_after_start(60))
    made = build_decision(wait, APPROVE, now=MOMENT, decision_id=make_ulid(1))

    assert (make_ulid(1), wait.id, wait.digest) == (made.id, made.wait_id, made.digest)
    assert made.marker is None


# In a cold process --------------------------------------------------------------------

COLD_PROCESS_SCRIPT = """
import asyncio, sys
from datetime import UTC, datetime
from continuations.core.rows.decisions import Approve, Deny
from continuations.ledger.decisions.decisions import decide
from continuations.ledger.objects import Objects, open_store

arguments = {arguments!r}
now = datetime(2026, 11, 21, 9, 31, tzinfo=UTC)
place = Objects(open_store({store!r}))
made = asyncio.run(
    decide(place, {wait!r}, Approve(by="kim", arguments=arguments), now=now,
           decision_id={ulid!r})
)
dear = ["openai", "boto3", "pydantic", "pydantic_core", "httpx", "httpx2",
        "jsonschema_rs", "continuations.authoring", "continuations.models",
        "continuations.engine.worker.worker", "continuations.engine.worker.run_loop",
        "continuations.ledger.versions"]
print(made.kind, *[name for name in dear if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("arguments", "loaded"), [(None, []), ({"cents": 1}, ["jsonschema_rs"])]
)
def test_decide_in_a_new_process_imports_no_heavy_modules(
    tmp_path: Path, arguments: dict[str, Any] | None, loaded: list[str]
) -> None:
    """Deciding needs no model client; only an edit needs a schema validator."""
    # Given a run in files with an open wait
    objects = Objects(FileStore(tmp_path))
    wait = make_wait()
    run_async(store_suspended_run(objects, wait))

    # When another process decides it
    code = COLD_PROCESS_SCRIPT.format(
        arguments=arguments, store=f"file:{tmp_path}", wait=wait.id, ulid=make_ulid(1)
    )
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    # Then it is decided, and that process imported only what it needs
    assert ["approve", *loaded] == done.stdout.split()
    made = present(run_async(read_decision(objects, wait.id)))
    assert ("approve", "kim") == (made.kind, made.by)


RUNNER_SCRIPT = """
import sys
from continuations import Approve, Runner

runner = Runner([], store={store!r})
made = runner.decide({wait!r}, Approve(by="kim"))
dear = ["openai", "boto3", "pydantic", "jsonschema_rs", "continuations.authoring",
        "continuations.models", "continuations.engine.worker.worker",
        "continuations.engine.worker.worker_factory"]
print(made.kind, *[name for name in dear if name in sys.modules])
"""


def test_runner_decide_imports_no_heavy_modules(tmp_path: Path) -> None:
    """Deciding with a `Runner` imports no more than deciding without one."""
    wait = make_wait()
    run_async(store_suspended_run(Objects(FileStore(tmp_path)), wait))

    code = RUNNER_SCRIPT.format(store=f"file:{tmp_path}", wait=wait.id)
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ["approve"] == done.stdout.split()
