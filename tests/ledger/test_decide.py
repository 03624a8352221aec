"""Deciding: the first well-typed decision stands, everybody else is told which."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import dataclass, replace
from subprocess import PIPE, Popen, run
from typing import TYPE_CHECKING, Any, cast

import pytest

from continuations.core.decisions import Answer, Approve, Decision, Deny, Verdict
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
from continuations.ledger import layout, waits
from continuations.ledger.arrivals import arrivals, read_decision
from continuations.ledger.decide import close, decide, find, record
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations_storage import FileStore, MemoryStore, errors
from continuations_storage.faults import FaultyStore, lost_reply, on, refused
from tests.ledger.machine import MOMENT, later, ulid_of
from tests.ledger.runs import (
    RUN,
    a_table,
    a_wait,
    does,
    keys,
    objects,
    suspended_at,
    wait_id,
)
from tests.ledger.visits import VisitedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime
    from pathlib import Path

    from continuations.core.waits import Wait

YES = Approve(by="kim", reason="fine")
NO = Deny(by="kim", reason="too much")


async def told(
    place: Objects,
    verdict: object,
    *,
    wait: str | None = None,
    number: int = 1,
    now: datetime = MOMENT,
) -> Decision:
    """Decide wait 1, unless another is named."""
    given = cast("Verdict", verdict)
    return await decide(
        place, wait or wait_id(), given, now=now, ulid=ulid_of(number, now)
    )


async def nothing_recorded(place: Objects, wait: str | None = None) -> None:
    """Check that a wait is open as if nobody had said anything."""
    wait = wait or wait_id()
    assert await read_decision(place, wait) is None
    assert layout.wait(wait) in await keys(place, layout.WAITS)
    assert [] == await keys(place, layout.MARKERS)


# Once -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [(YES, "approve"), (Approve(), "approve"), (NO, "deny"), (Deny(), "deny")],
)
def test_a_decision_is_recorded_with_all_that_was_said(
    verdict: Approve | Deny, kind: str
) -> None:
    """R-C9: by whom, when, why, and for which call exactly."""

    async def story() -> None:
        place = objects()
        wait = a_wait()
        await suspended_at(place, wait)

        made = await told(place, verdict, now=later(3))

        assert made == await read_decision(place, wait.id)
        assert (wait.id, kind, later(3)) == (made.wait_id, made.kind, made.at)
        assert (verdict.by, verdict.reason) == (made.by, made.reason)
        assert (wait.digest, None, None) == (made.digest, made.arguments, made.value)
        assert [] == await keys(place, layout.WAITS)
        assert [made.marker] == await keys(place, layout.MARKERS)

    does(story())


def test_deciding_moves_nothing_on() -> None:
    """R-A3: recording and resuming are separate durable steps."""

    async def story() -> None:
        place = objects()
        loaded = await suspended_at(place, a_wait())
        await told(place, YES)

        newest = await Versions(place, RUN).newest()
        assert (1, loaded.table) == (newest.number, newest.table)

    does(story())


@pytest.mark.parametrize(
    "verdict",
    [
        YES,
        NO,
        Approve(),
        Deny(),
        Approve(arguments={}),
        Approve(arguments={"cents": 1}),
    ],
)
@pytest.mark.parametrize("seconds", [0, 5, 10**6])
def test_the_same_decision_again_is_a_success(verdict: Verdict, seconds: int) -> None:
    """R-A2, R-G3: redelivered at once, later, and after the deadline."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait(deadline=later(60)))
        first = await told(place, verdict)
        before = await keys(place)

        again = await told(place, verdict, number=2, now=later(seconds))

        assert first == again
        assert before == await keys(place)

    does(story())


def test_the_same_decision_with_the_same_id_is_a_success() -> None:
    """R-A2: a redelivery that carries its own id and time."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())
        first = await told(place, YES)
        # Given the wait's object is still there: its delete was lost
        await waits.announce(place, [a_wait()])

        assert first == await told(place, YES)
        assert [first.marker] == await keys(place, layout.MARKERS)

    does(story())


OTHERS = [
    (YES, NO),
    (NO, YES),
    (YES, Approve(by="jo", reason="fine")),
    (YES, Approve(by="kim")),
    (YES, Approve(by="kim", reason="fine", arguments={})),
    (Approve(arguments={}), Approve()),
    (Approve(arguments={"cents": 1}), Approve(arguments={"cents": 2})),
    (NO, Deny(by="kim", reason="no")),
]


@pytest.mark.parametrize(("first", "second"), OTHERS)
@pytest.mark.parametrize("left", [False, True])
def test_another_decision_is_told_which_one_stands(
    first: Verdict, second: Verdict, *, left: bool
) -> None:
    """R-A1; also where a crash left the object of the decided wait."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())
        stands = await told(place, first)
        if left:
            await waits.announce(place, [a_wait()])

        with pytest.raises(AlreadyDecided) as caught:
            await told(place, second, number=2, now=later(9))

        assert stands == caught.value.decision
        assert (RUN, wait_id()) == (caught.value.run_id, caught.value.wait_id)
        assert stands.kind in str(caught.value)
        assert stands == await read_decision(place, wait_id())
        assert [stands.marker] == await keys(place, layout.MARKERS)
        assert [] == await keys(place, layout.WAITS)

    does(story())


def test_key_order_does_not_make_another_edit() -> None:
    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())
        first = await told(place, Approve(arguments={"cents": 1, "to": "x"}))

        again = await told(place, Approve(arguments={"to": "x", "cents": 1}), number=2)
        assert first == again

    does(story())


# Races ------------------------------------------------------------------------


@pytest.mark.parametrize("shown", [True, False])
def test_of_opposite_decisions_at_once_exactly_one_stands(*, shown: bool) -> None:
    """R-A1: twenty people, ten of them against; also before the wait is shown."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait(), shown=shown)
        verdicts = [
            (Approve if number % 2 else Deny)(by=f"person {number}")
            for number in range(20)
        ]

        results = await asyncio.gather(
            *(told(place, verdict, number=n) for n, verdict in enumerate(verdicts)),
            return_exceptions=True,
        )

        stands = await read_decision(place, wait_id())
        won = [each for each in results if isinstance(each, Decision)]
        lost = [each for each in results if isinstance(each, AlreadyDecided)]
        assert [stands] == won
        assert [stands] * 19 == [each.decision for each in lost]
        assert stands is not None
        assert [stands.marker] == await keys(place, layout.MARKERS)
        assert [] == await keys(place, layout.WAITS)

    does(story())


def test_the_same_decision_at_once_is_one_decision() -> None:
    """R-A1, R-G3: a double click, a webhook that is delivered five times."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())

        results = await asyncio.gather(*(told(place, YES, number=n) for n in range(5)))

        stands = await read_decision(place, wait_id())
        assert stands is not None
        assert [stands] * 5 == results
        assert [stands.marker] == await keys(place, layout.MARKERS)

    does(story())


@dataclass(frozen=True, kw_only=True)
class Rival:
    """Somebody else who ends the wait; `kind` is that of the decision."""

    kind: str
    ends: Callable[[Objects, Wait], Awaitable[object]]
    error: type[ContinuationsError]


RIVALS = [
    Rival(
        kind="deny",
        ends=lambda place, _: told(place, NO, number=50),
        error=AlreadyDecided,
    ),
    Rival(
        kind="expire",
        ends=lambda place, wait: close(
            place, wait, "expire", now=MOMENT, ulid=ulid_of(50)
        ),
        error=WaitExpired,
    ),
    Rival(
        kind="cancel",
        ends=lambda place, wait: close(
            place, wait, "cancel", now=MOMENT, ulid=ulid_of(50), reason="enough"
        ),
        error=Cancelled,
    ),
]


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.kind)
def test_whenever_a_rival_comes_in_between_one_terminal_state_is_told_to_all(
    rival: Rival, *, shown: bool
) -> None:
    """R-A1, R-F4, R-F6: before each request of an approval, in turn."""

    async def story(number: int) -> int:
        # Given an open wait
        inner = MemoryStore()
        wait = a_wait()
        await suspended_at(Objects(inner), wait, shown=shown)
        others: list[object] = []

        async def visitor() -> None:
            try:
                others.append(await rival.ends(Objects(inner), wait))
            except ContinuationsError as error:
                others.append(error)

        # When it is approved, and somebody ends it right before a request
        store = VisitedStore(inner, number, visitor)
        try:
            mine: object = await told(Objects(store), YES)
        except ContinuationsError as error:
            mine = error
        if number == 0:
            await visitor()

        # Then one of both stands, and both know it
        stands = await read_decision(Objects(inner), wait.id)
        assert stands is not None
        if stands.kind == "approve":
            assert stands == mine
            assert isinstance(others[0], AlreadyDecided) or others == [stands]
        else:
            assert rival.kind == stands.kind
            assert rival.error is type(mine)
            assert [stands] == others
        assert [] == await keys(Objects(inner), layout.WAITS)
        made = [stands.marker] if stands.marker else []
        assert made == await keys(Objects(inner), layout.MARKERS)
        return store.requests

    for number in range(does(story(0)) + 1):
        does(story(number))


# Only a decision decides --------------------------------------------------------


class Yes(Approve):
    """Somebody's own kind of Yes."""


class Text(str):
    """A text that is more than a text."""

    __slots__ = ()


class Truthy:
    """Anything that is merely true."""

    by = "kim"
    reason = None
    arguments = None

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


def ill(**fields: object) -> Approve:
    """Return an approval whose fields no type checker would let pass."""
    return Approve(**cast("dict[str, Any]", fields))


NO_DECISIONS: list[object] = [
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
    Yes(),
    Truthy(),
    object(),
    ill(by=5),
    ill(by=True),
    ill(by=["kim"]),
    ill(by=Text("kim")),
    ill(reason=5),
    ill(reason=b"fine"),
    ill(arguments=5),
    ill(arguments=0),
    ill(arguments=False),
    ill(arguments=""),
    ill(arguments="{}"),
    ill(arguments=[]),
    ill(arguments=[("cents", 1)]),
    ill(arguments=object()),
    Deny(by=cast("str", 5)),
    Deny(reason=cast("str", {})),
    Answer(value="42"),
    Answer(value=None),
    Answer(value=True),
]


@pytest.mark.parametrize("verdict", NO_DECISIONS)
def test_what_is_no_decision_is_refused_and_nothing_is_recorded(
    verdict: object,
) -> None:
    """R-C5: only an explicit, well-typed approve runs the tool."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())

        with pytest.raises(DecisionRefused) as caught:
            await told(place, verdict)

        assert (RUN, wait_id()) == (caught.value.run_id, caught.value.wait_id)
        await nothing_recorded(place)
        # And the wait can still be decided
        assert "approve" == (await told(place, YES)).kind

    does(story())


@pytest.mark.parametrize("verdict", NO_DECISIONS)
@pytest.mark.parametrize("kind", ["approve", "deny", "expire", "cancel"])
@pytest.mark.parametrize("left", [False, True])
def test_what_is_no_decision_is_not_one_after_the_wait_is_over_either(
    verdict: object, kind: str, *, left: bool
) -> None:
    """R-C5: it is told what stands; it never counts as the same Yes."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())
        if kind in ("approve", "deny"):
            await told(place, Approve() if kind == "approve" else Deny())
        else:
            end = next(rival for rival in RIVALS if rival.kind == kind)
            await end.ends(place, a_wait())
        if left:
            await waits.announce(place, [a_wait()])
        stands = await read_decision(place, wait_id())

        errors_told = (AlreadyDecided, DecisionRefused, WaitExpired, Cancelled)
        with pytest.raises(errors_told):
            await told(place, verdict, number=2)

        assert stands == await read_decision(place, wait_id())

    does(story())


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
        ({"to": "\ud800"}, '{"to":"\ud800"}'),
        ({"to": "x" * 100_000}, '{"to":"' + "x" * 100_000 + '"}'),
    ],
)
def test_edited_arguments_are_kept_as_they_were_given(
    arguments: dict[str, Any], stored: str
) -> None:
    """R-C10, R-I2: explicit `{}` is a real edit."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())

        await told(place, Approve(arguments=arguments))

        made = await read_decision(place, wait_id())
        assert made is not None
        assert stored == made.arguments

    does(story())


def deep(levels: int) -> dict[str, Any]:
    """Return a mapping nested so deep."""
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"to": value}
    return value


def circle() -> dict[str, Any]:
    """Return a mapping that holds itself."""
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
        {"to": object()},
        deep(150),
        deep(5000),
        circle(),
    ],
)
def test_edits_that_the_schema_or_json_refuses_leave_the_wait_open(
    arguments: dict[str, Any],
) -> None:
    """R-C10: re-validated against the stored schema, not recorded, decide again."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())

        with pytest.raises(DecisionRefused):
            await told(place, Approve(arguments=arguments))

        await nothing_recorded(place)
        assert "approve" == (await told(place, Approve(arguments={"cents": 1}))).kind

    does(story())


def test_a_refused_edit_does_not_tell_its_values() -> None:
    """An error's text may end in a log."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())
        with pytest.raises(DecisionRefused) as caught:
            await told(place, Approve(arguments={"cents": "my secret"}))

        assert "cents" in str(caught.value)
        assert "my secret" not in str(caught.value)

    does(story())


def test_edits_are_checked_against_the_schema_of_the_wait() -> None:
    """R-H2: the schema that was stored at the suspension, not one of today."""

    async def story() -> None:
        place = objects()
        strict = replace(
            a_wait(),
            schema_json='{"type":"object","required":["euros"],"properties":'
            '{"euros":{"type":"integer","maximum":10}}}',
        )
        await suspended_at(place, strict)
        for arguments in ({}, {"cents": 1}, {"euros": 11}, {"euros": "1"}):
            with pytest.raises(DecisionRefused):
                await told(place, Approve(arguments=arguments))
        await nothing_recorded(place)

        made = await told(place, Approve(arguments={"euros": 10}))
        assert '{"euros":10}' == made.arguments

    does(story())


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (5, "edited arguments are a dict"),
        ([], "edited arguments are a dict"),
        ("{}", "edited arguments are a dict"),
        ({"to": b"kim"}, "the arguments cannot be stored"),
        ({5: "x"}, "the arguments cannot be stored"),
    ],
)
def test_a_schema_that_allows_everything_lets_only_arguments_through(
    arguments: object, why: str
) -> None:
    """R-C5, R-C10: what a call cannot be given is refused by us, and says why."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, replace(a_wait(), schema_json="{}"))

        with pytest.raises(DecisionRefused, match=why):
            await told(place, ill(arguments=arguments))

        await nothing_recorded(place)

    does(story())


def test_who_decides_may_change_what_they_gave_afterwards() -> None:
    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())
        arguments = {"cents": 1}
        made = await told(place, Approve(arguments=arguments))
        arguments["cents"] = 10**9

        assert made == await read_decision(place, wait_id())
        assert '{"cents":1}' == made.arguments

    does(story())


# Unknown outcomes -----------------------------------------------------------------

UNKNOWN = wait_id(1, "unknown")


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
def test_any_json_value_answers_an_unknown_outcome(value: object, stored: str) -> None:
    """R-C5, A6: false, zero, nothing and the empty text are answers, told apart."""

    async def story() -> None:
        place = objects()
        loaded = await suspended_at(place, a_wait(1, "unknown"))

        await told(place, Answer(value, by="kim"), wait=UNKNOWN)

        came = (await arrivals(place, loaded.table)).decisions
        assert stored == came[UNKNOWN].value
        assert ("answer", "kim") == (came[UNKNOWN].kind, came[UNKNOWN].by)

    does(story())


def test_answers_that_look_alike_are_other_decisions() -> None:
    values: list[object] = [False, 0, "", None, "0", "false", "null", [], {}, 0.0]

    async def story(first: object, second: object) -> None:
        place = objects()
        await suspended_at(place, a_wait(1, "unknown"))
        stands = await told(place, Answer(first), wait=UNKNOWN)
        with pytest.raises(AlreadyDecided) as caught:
            await told(place, Answer(second), wait=UNKNOWN, number=2)
        assert stands == caught.value.decision
        assert stands == await told(place, Answer(first), wait=UNKNOWN, number=3)

    for first in values:
        for second in values:
            if (type(first), first) != (type(second), second):
                does(story(first, second))


@pytest.mark.parametrize("verdict", [YES, NO, Approve(), Deny()])
def test_an_unknown_outcome_may_be_run_again_or_left(verdict: Verdict) -> None:
    """R-A6: it did not happen, run it; it did not happen, leave it."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait(1, "unknown"))
        made = await told(place, verdict, wait=UNKNOWN)

        assert made == await read_decision(place, UNKNOWN)

    does(story())


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
        Answer(deep(5000)),
        Answer(circle()),
        Answer(10**5000),
        Answer(1, by=cast("str", 5)),
        None,
        True,
        "",
    ],
)
def test_what_cannot_settle_an_unknown_outcome_is_refused(verdict: object) -> None:
    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait(1, "unknown"))
        with pytest.raises(DecisionRefused):
            await told(place, verdict, wait=UNKNOWN)

        await nothing_recorded(place, UNKNOWN)

    does(story())


# Deadlines ------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [YES, NO, Approve(arguments={"cents": 1})])
@pytest.mark.parametrize(("seconds", "late"), [(59.999, 0), (60, 0), (60.001, 1)])
def test_a_deadline_bounds_the_decision(
    verdict: Verdict, seconds: float, *, late: int
) -> None:
    """R-F4: a late approve is told so, and records nothing."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait(deadline=later(60)))
        if not late:
            await told(place, verdict, now=later(seconds))
            return
        with pytest.raises(WaitExpired) as caught:
            await told(place, verdict, now=later(seconds))
        assert (RUN, wait_id()) == (caught.value.run_id, caught.value.wait_id)
        await nothing_recorded(place)

    does(story())


def test_without_a_deadline_a_wait_waits() -> None:
    """R-F5."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())
        made = await told(place, YES, now=later(20 * 365 * 86400))

        assert "approve" == made.kind

    does(story())


def test_a_late_redelivery_is_told_what_stands_though_a_crash_left_the_wait() -> None:
    """R-A2, R-F4: its approve stands and will run; nobody is told that it expired."""

    async def story() -> None:
        # Given a decider that died after the decision, before the wait's delete
        place = objects()
        wait = a_wait(deadline=later(60))
        await suspended_at(place, wait)
        stands = await told(place, YES)
        await waits.announce(place, [wait])

        # When the client asks again, after the deadline
        again = await told(place, YES, number=2, now=later(3600))

        # Then it is the decision that stands
        assert stands == again
        with pytest.raises(AlreadyDecided):
            await told(place, NO, number=3, now=later(3600))

    does(story())


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.kind)
@pytest.mark.parametrize("verdict", [YES, Approve(arguments={"cents": 1})])
def test_a_wait_that_was_ended_tells_how(rival: Rival, verdict: Verdict) -> None:
    """R-F4, R-F6: expiry and cancel are terminal states of their own."""

    async def story() -> None:
        place = objects()
        wait = a_wait()
        await suspended_at(place, wait)
        await rival.ends(place, wait)

        with pytest.raises(rival.error):
            await told(place, verdict)
        assert await find(place, wait.id) is None

    does(story())


def test_a_decision_that_came_first_outlives_the_deadline_and_the_cancel() -> None:
    """The one who closes is told that a person was first."""

    async def story() -> None:
        place = objects()
        wait = a_wait(deadline=later(60))
        await suspended_at(place, wait)
        stands = await told(place, YES)

        for kind in ("expire", "cancel"):
            end = next(rival for rival in RIVALS if rival.kind == kind)
            assert stands == await end.ends(place, wait)

    does(story())


def test_closing_leaves_no_marker_and_no_wait() -> None:
    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())
        made = await close(
            place, a_wait(), "cancel", now=later(1), ulid=ulid_of(3), reason="enough"
        )

        assert ("cancel", "enough", None) == (made.kind, made.reason, made.marker)
        assert [] == await keys(place, layout.WAITS) + await keys(place, layout.MARKERS)

    does(story())


# Waits that are not there -----------------------------------------------------------


def test_a_wait_whose_object_was_not_made_is_decided_by_its_version() -> None:
    """R-F1: the crash came between the version and the objects that it names."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait(), shown=False)

        made = await told(place, Approve(arguments={"cents": 1}))

        assert made == await read_decision(place, wait_id())
        assert [] == await keys(place, layout.WAITS)

    does(story())


def test_finding_shows_what_a_crash_left_out() -> None:
    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait(), shown=False)

        assert a_wait() == await find(place, wait_id())
        assert [layout.wait(wait_id())] == await keys(place, layout.WAITS)

    does(story())


def test_who_looks_at_a_wait_does_not_show_it_again_once_it_is_decided() -> None:
    """R-F9: the decision comes right before any request of whoever looks."""

    async def story(number: int) -> int:
        inner = MemoryStore()
        await suspended_at(Objects(inner), a_wait(), shown=False)
        store = VisitedStore(inner, number, lambda: told(Objects(inner), YES))

        await find(Objects(store), wait_id())
        if number:
            assert [] == await keys(Objects(inner), layout.WAITS)
        return store.requests

    for number in range(does(story(0)) + 1):
        does(story(number))


@pytest.mark.parametrize("verdict", [YES, NO, None, "true"])
def test_a_wait_that_never_was_is_not_found(verdict: object) -> None:
    """R-B4, R-B7: never applied by position, never dropped silently."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait(1))
        before = await keys(place)
        for name in (
            wait_id(2),
            wait_id(1, "unknown"),
            wait_id(1, run_id="kim-1"),
            "approval",
            "",
            f"{wait_id(1)}\n",
            wait_id(1).upper(),
            "../../x",
        ):
            with pytest.raises(WaitNotFound):
                await told(place, verdict, wait=name or "x")

        assert before == await keys(place)

    does(story())


def test_a_wait_of_a_damaged_run_is_not_called_unknown() -> None:
    """R-E7: "no such wait" would be a guess."""

    async def story() -> None:
        place = objects()
        await place.create(layout.version(RUN, 1), b"")
        with pytest.raises(Corrupt):
            await told(place, YES)

    does(story())


def test_a_wait_that_a_newer_version_no_longer_has_is_gone() -> None:
    async def story() -> None:
        place = objects()
        loaded = await suspended_at(place, a_wait(1), shown=False)
        await Versions(place, RUN).append(loaded, a_table(a_wait(2)), at=MOMENT)

        with pytest.raises(WaitNotFound):
            await told(place, YES)
        assert "approve" == (await told(place, YES, wait=wait_id(2))).kind

    does(story())


def test_each_of_several_waits_is_decided_by_its_own_id() -> None:
    """R-B6: in any order, in separate processes."""

    async def story() -> None:
        place = objects()
        group = [a_wait(number) for number in range(1, 6)]
        loaded = await suspended_at(place, *group)
        for number in (3, 1, 5):
            verdict = Approve(by=str(number)) if number != 1 else Deny(by="1")
            await told(place, verdict, wait=wait_id(number), number=number)

        came = (await arrivals(place, loaded.table)).decisions
        assert {wait_id(n): (k, str(n)) for n, k in ((1, "deny"), (3, "approve"))} | {
            wait_id(5): ("approve", "5")
        } == {key: (each.kind, each.by) for key, each in came.items()}
        assert {layout.wait(wait_id(2)), layout.wait(wait_id(4))} == set(
            await keys(place, layout.WAITS)
        )

    does(story())


# What it costs, and in which order -------------------------------------------------


def test_a_decision_is_a_read_two_creates_and_a_delete() -> None:
    """R-G2: no listing; the marker is there before the decision."""

    async def story() -> None:
        store = FaultyStore(MemoryStore())
        place = Objects(store)
        await suspended_at(place, a_wait())
        store.operations.clear()

        made = await told(place, Approve(arguments={"cents": 1}))

        assert [
            ("read", layout.wait(wait_id())),
            ("create", made.marker),
            ("create", layout.decision(wait_id())),
            ("delete", layout.wait(wait_id())),
        ] == [(each.verb, each.key) for each in store.operations]

    does(story())


def test_a_redelivery_writes_nothing() -> None:
    async def story() -> None:
        store = FaultyStore(MemoryStore())
        place = Objects(store)
        await suspended_at(place, a_wait())
        await told(place, YES)
        store.operations.clear()
        await told(place, YES, number=2)

        verbs = Counter(each.verb for each in store.operations)
        assert verbs.keys() == {"read"}
        assert verbs["read"] <= 3

    does(story())


def test_the_marker_is_due_at_once_and_names_the_wait() -> None:
    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())
        made = await told(place, YES, now=later(5))
        marker = layout.parse_marker(made.marker or "")

        assert marker is not None
        assert ("d", ulid_of(1), RUN) == (marker.letter, marker.what, marker.run_id)
        assert int(later(5).timestamp() * 1000) == marker.due

    does(story())


def test_a_refused_decision_makes_no_marker() -> None:
    async def story() -> None:
        store = FaultyStore(MemoryStore())
        place = Objects(store)
        await suspended_at(place, a_wait(deadline=later(60)))
        store.operations.clear()
        for verdict, now in ((None, MOMENT), (YES, later(61))):
            with pytest.raises((DecisionRefused, WaitExpired)):
                await told(place, verdict, now=now)

        assert {"read"} == {each.verb for each in store.operations}

    does(story())


# A store that fails ----------------------------------------------------------------


def test_a_listing_that_lags_does_not_undo_a_decision() -> None:
    """The wait's object could not be removed: the decision is recorded all the same."""

    async def story() -> None:
        inner = MemoryStore()
        await suspended_at(Objects(inner), a_wait())
        store = FaultyStore(inner, on("delete", refused(), prefix=layout.WAITS))

        made = await told(Objects(store), YES)

        assert made == await read_decision(Objects(inner), wait_id())
        assert made == await told(Objects(inner), YES, number=2)
        assert [] == await keys(Objects(inner), layout.WAITS)

    does(story())


@pytest.mark.parametrize("prefix", [layout.MARKERS, layout.arrivals(RUN)])
@pytest.mark.parametrize(
    ("error", "named"),
    [(errors.Unavailable, StoreUnavailable), (errors.Denied, StoreDenied)],
)
def test_a_store_that_refuses_records_nothing(
    prefix: str, error: type[errors.StorageError], named: type[Exception]
) -> None:
    """R-E2: only success is success; decide again."""

    async def story() -> None:
        inner = MemoryStore()
        await suspended_at(Objects(inner), a_wait())
        store = FaultyStore(inner, on("create", refused(error), prefix=prefix))
        with pytest.raises(named):
            await told(Objects(store), YES)

        assert await read_decision(Objects(inner), wait_id()) is None
        assert "deny" == (await told(Objects(inner), NO, number=2)).kind

    does(story())


def test_a_lost_reply_is_inconclusive_and_repeating_tells() -> None:
    """R-E1: never a false conflict; the same decision again finds itself."""

    async def story() -> None:
        inner = MemoryStore()
        await suspended_at(Objects(inner), a_wait())
        prefix = layout.arrivals(RUN)
        store = FaultyStore(inner, on("create", lost_reply(), prefix=prefix))
        with pytest.raises(Inconclusive):
            await told(Objects(store), YES)

        again = await told(Objects(inner), YES, number=2)
        assert ulid_of(1) == again.id
        assert [again.marker] == await keys(Objects(inner), layout.MARKERS)

    does(story())


def test_a_wait_that_may_not_be_read_is_not_called_missing() -> None:
    """R-E5."""

    async def story() -> None:
        inner = MemoryStore()
        await suspended_at(Objects(inner), a_wait())
        store = FaultyStore(inner, on("read", refused(errors.Denied)))
        with pytest.raises(StoreDenied):
            await told(Objects(store), YES)

    does(story())


def test_a_damaged_decision_is_not_decided_over() -> None:
    """R-E7."""

    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())
        await place.create(layout.decision(wait_id()), b"damaged")
        for verdict in (YES, NO, None):
            with pytest.raises(ContinuationsError):
                await told(place, verdict)

        assert b"damaged" == await place.read(layout.decision(wait_id()))

    does(story())


def test_a_run_can_be_ended_over_a_damaged_decision() -> None:
    async def story() -> None:
        place = objects()
        await suspended_at(place, a_wait())
        await place.create(layout.decision(wait_id()), b"")
        damaged = layout.decision(wait_id())
        made = await close(place, a_wait(), "cancel", now=MOMENT, ulid=ulid_of(1))

        assert "cancel" == made.kind
        assert b"" == await place.read(damaged)

    does(story())


def test_an_erase_in_between_is_not_told_as_a_success() -> None:
    """The decision that was first is gone when it is read: nothing stands."""

    async def story() -> None:
        inner = MemoryStore()
        await suspended_at(Objects(inner), a_wait())
        await told(Objects(inner), NO, number=9)
        await waits.announce(Objects(inner), [a_wait()])
        requests: list[str] = []

        async def erase() -> None:
            requests.append("erased")
            for key in await inner.keys(""):
                await inner.delete(key)

        # The requests are: read the wait, marker, decision, read what was first
        with pytest.raises(ContinuationsError):
            await told(Objects(VisitedStore(inner, 4, erase)), YES)
        assert ["erased"] == requests

    does(story())


# The pure part ----------------------------------------------------------------------


def test_a_record_is_made_without_a_store() -> None:
    wait = a_wait(deadline=later(60))
    made = record(wait, YES, now=MOMENT, ulid=ulid_of(1))

    assert (ulid_of(1), wait.id, wait.digest) == (made.id, made.wait_id, made.digest)
    assert made.marker is None


# In a cold process --------------------------------------------------------------------

COLD = """
import asyncio, sys
from datetime import UTC, datetime
from continuations.core.decisions import Approve, Deny
from continuations.ledger.decide import decide
from continuations.ledger.objects import Objects, open_store

arguments = {arguments!r}
now = datetime(2026, 11, 21, 9, 31, tzinfo=UTC)
place = Objects(open_store({store!r}))
made = asyncio.run(
    decide(place, {wait!r}, Approve(by="kim", arguments=arguments), now=now,
           ulid={ulid!r})
)
dear = ["openai", "boto3", "pydantic", "pydantic_core", "httpx", "httpx2",
        "jsonschema_rs", "continuations.authoring", "continuations.models",
        "continuations.engine.worker", "continuations.engine.drive",
        "continuations.ledger.versions"]
print(made.kind, *[name for name in dear if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("arguments", "loaded"), [(None, []), ({"cents": 1}, ["jsonschema_rs"])]
)
def test_deciding_in_a_cold_process_loads_nothing_dear(
    tmp_path: Path, arguments: dict[str, Any] | None, loaded: list[str]
) -> None:
    """R-G2: no model, no agents, no library for either; a schema for edits only."""
    # Given a run in files that stands at a wait
    place = Objects(FileStore(tmp_path))
    wait = a_wait()
    does(suspended_at(place, wait))

    # When another process decides it
    code = COLD.format(
        arguments=arguments, store=f"file:{tmp_path}", wait=wait.id, ulid=ulid_of(1)
    )
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    # Then it is decided, and that process loaded only what it needed
    assert ["approve", *loaded] == done.stdout.split()
    made = does(read_decision(place, wait.id))
    assert made is not None
    assert ("approve", "kim") == (made.kind, made.by)


RACER = """
import sys
from continuations import AlreadyDecided, Approve, Deny, Runner

runner = Runner([], store={store!r})
print("ready", flush=True)
sys.stdin.readline()
say = Approve if {number} % 2 else Deny
try:
    made = runner.decide({wait!r}, say(by="person {number}"))
except AlreadyDecided as error:
    made = error.decision
    print("lost", end=" ")
print(made.id)
"""


def test_of_opposite_decisions_in_processes_exactly_one_stands(tmp_path: Path) -> None:
    """R-A1: on files, where nothing is shared but the folder."""
    # Given six processes that are about to decide
    wait = a_wait()
    place = Objects(FileStore(tmp_path))
    does(suspended_at(place, wait))
    store = f"file:{tmp_path}"
    racers = [
        Popen(
            [
                sys.executable,
                "-c",
                RACER.format(store=store, wait=wait.id, number=number),
            ],
            stdin=PIPE,
            stdout=PIPE,
            text=True,
        )
        for number in range(6)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert "ready\n" == racer.stdout.readline()

    # When they all decide at once
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [racer.communicate(timeout=20)[0].split() for racer in racers]

    # Then one decision stands, and each of them knows which
    stands = does(read_decision(place, wait.id))
    assert stands is not None
    assert sorted([[stands.id], *[["lost", stands.id]] * 5]) == sorted(said)
    assert [stands.marker] == does(keys(place, layout.MARKERS))
    assert [] == does(keys(place, layout.WAITS))


RUNNER = """
import sys
from continuations import Approve, Runner

runner = Runner([], store={store!r})
made = runner.decide({wait!r}, Approve(by="kim"))
dear = ["openai", "boto3", "pydantic", "jsonschema_rs", "continuations.authoring",
        "continuations.models", "continuations.engine.worker",
        "continuations.engine.workshop"]
print(made.kind, *[name for name in dear if name in sys.modules])
"""


def test_deciding_through_the_runner_loads_nothing_dear(tmp_path: Path) -> None:
    """R-G2."""
    wait = a_wait()
    does(suspended_at(Objects(FileStore(tmp_path)), wait))

    code = RUNNER.format(store=f"file:{tmp_path}", wait=wait.id)
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ["approve"] == done.stdout.split()
