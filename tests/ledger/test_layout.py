"""The keys of a store, and the markers among them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core.rows.run import ENDED_STATUSES, RunStatus
from continuations.core.rows.state import RunState
from continuations.errors import ContinuationsError, InvalidId, WaitNotFound
from continuations.ledger import layout, markers
from continuations.ledger.index.misdated_markers import redate_misdated
from continuations.ledger.layout import Marker
from continuations.ledger.objects import Objects
from continuations.ledger.store_clock import StoreClock
from continuations_storage import MemoryStore
from continuations_storage.contract import PAGE_SIZE, Page
from continuations_storage.faults import FaultyStore
from continuations_storage.keys import check_prefix, split_key
from tests.ledger.fake_clock import MOMENT, FakeClock, make_ulid, seconds_after_start
from tests.ledger.runs import (
    RUN,
    all_keys,
    make_objects,
    make_state,
    make_wait,
    make_wait_id,
)
from tests.outcomes import present
from tests.sampling import examples

LONGEST = "r" * 200
ULID = make_ulid(1)
SETTINGS = settings(max_examples=examples(150), deadline=None, derandomize=True)
RUN_IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", fullmatch=True)


@pytest.mark.parametrize(
    "run_id",
    ["a", "0", "Jane-1", "a.b_c-d", "a..b", "2026-11-21", "a-", "a.", LONGEST],
)
def test_valid_run_id_is_returned_unchanged(run_id: str) -> None:
    assert run_id == layout.check_run_id(run_id)


@pytest.mark.parametrize(
    "run_id",
    [
        "",
        ".",
        "..",
        "../jane",
        "jane/../kim",
        "jane/1",
        "jane\\1",
        ".hidden",
        "-rf",
        "_x",
        "jane\n",
        "jane\r",
        "ja\0ne",
        " jane",
        "jane ",
        "ja ne",
        "jané",
        "jan\u0435",  # a Cyrillic letter that looks like "e"
        "\uff11",  # a full-width digit
        "٣",
        "jane@1",
        "jane~",
        "jane=1",
        "r" * 201,
        "\ud800",
        b"jane",
        None,
        1,
        True,
        ["jane"],
    ],
)
def test_invalid_run_id_is_refused(run_id: object) -> None:
    with pytest.raises(InvalidId):
        layout.check_run_id(run_id)


def one_key_of_each_kind(run_id: str) -> list[str]:
    """Return the longest key of each kind."""
    approval = layout.build_wait_id("approval", ULID, run_id)
    most = layout.MAX_VERSIONS
    due = 9_999_999_999_999
    return [
        layout.version_key(run_id, 1),
        layout.version_key(run_id, most - 1),
        layout.decision_key(approval),
        layout.numbered_key(layout.MESSAGE, run_id, most),
        layout.cancel_request_key(run_id),
        layout.wait_key(approval),
        layout.wait_key(layout.build_wait_id("unknown", ULID, run_id)),
        Marker(due, "g", str(most), "n" * 8, run_id).key,
        Marker(due, "d", ULID, "n" * 8, run_id).key,
        Marker(due, "e", ULID, "n" * 8, run_id).key,
        Marker(due, "m", str(most), "n" * 8, run_id).key,
        Marker(due, "c", "0", "n" * 8, run_id).key,
    ]


@SETTINGS
@given(RUN_IDS | st.just(LONGEST))
def test_every_key_of_a_valid_run_is_valid_in_every_store(run_id: str) -> None:
    keys = one_key_of_each_kind(run_id)

    for key in keys:
        assert max(map(len, split_key(key))) <= 255
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("run_id", ["jane", LONGEST])
def test_every_listed_prefix_is_valid(run_id: str) -> None:
    for prefix in (
        layout.versions_prefix(run_id),
        layout.arrivals_prefix(run_id),
        layout.decision_key(layout.build_wait_id("approval", ULID, run_id)),
        layout.WAITS_PREFIX,
        layout.MARKERS_PREFIX,
    ):
        check_prefix(prefix)


@given(RUN_IDS, RUN_IDS)
@SETTINGS
def test_no_key_of_a_run_has_the_prefix_of_another_run(one: str, two: str) -> None:
    if one != two:
        assert not layout.version_key(two, 1).startswith(layout.versions_prefix(one))
        assert not layout.cancel_request_key(two).startswith(
            layout.arrivals_prefix(one)
        )


# Versions and arrivals -------------------------------------------------------


@given(st.integers(1, 9_999_999_998), st.integers(1, 9_999_999_998))
@SETTINGS
def test_newer_version_sorts_first(one: int, two: int) -> None:
    first, second = layout.version_key("jane", one), layout.version_key("jane", two)

    assert one == layout.version_number(first)
    assert (one > two) == (first < second)


@given(st.integers(1, 9_999_999_999), st.integers(1, 9_999_999_999))
@SETTINGS
def test_inbox_keys_sort_by_number(one: int, two: int) -> None:
    first, second = (
        layout.numbered_key(layout.MESSAGE, "jane", one),
        layout.numbered_key(layout.MESSAGE, "jane", two),
    )

    assert one == layout.number_in(layout.MESSAGE, first)
    assert (one < two) == (first < second)


@pytest.mark.parametrize(
    "name", ["cancel", "d-approval-" + ULID, "m-", "m-x", "m-1", "m-00000000001", "M-1"]
)
def test_other_keys_are_no_inbox_messages(name: str) -> None:
    assert layout.number_in(layout.MESSAGE, f"runs/jane/in/{name}") is None


# Waits -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["approval", "unknown"])
@pytest.mark.parametrize("run_id", ["jane-1", "a-b-c", LONGEST])
def test_wait_id_has_kind_time_and_run(kind: str, run_id: str) -> None:
    wait_id = layout.build_wait_id(kind, ULID, run_id)

    name = layout.parse_wait_id(wait_id)

    assert (kind, ULID, run_id) == (name.kind, name.ulid, name.run_id)
    assert int(MOMENT.timestamp() * 1000) == name.opened_ms


@pytest.mark.parametrize(
    "wait_id",
    [
        "",
        "@",
        "approval",
        f"approval-{ULID}",
        f"approval-{ULID}@",
        f"approval-{ULID}@../x",
        f"approval-{ULID}@jane\n",
        f"approval-{ULID}@jane@kim",
        f"approval-{ULID}@{LONGEST}r",
        f"Approval-{ULID}@jane",
        f"approval-{ULID.upper()}@jane",
        f"approval-{ULID}0@jane",
        f"approval-{ULID[:-1]}@jane",
        f"approval-{ULID[:-1]}u@jane",
        f"approval-8{ULID[1:]}@jane",
        f"approval--{ULID}@jane",
        f"approval-{ULID[:-2]}..@jane",
        f"approval-{ULID[:-1]}/@jane",
        f"approval-7{'z' * 25}@jane",  # the year 10889
        f"dream-{ULID}@jane",
        f"waits/approval-{ULID}@jane",
        f" approval-{ULID}@jane",
        f"approval-{'0' * 25}\u0660@jane",
        "x" * 10_000,
        None,
        1,
        b"approval",
    ],
)
def test_invalid_wait_id_raises_wait_not_found(wait_id: object) -> None:
    with pytest.raises(WaitNotFound):
        layout.parse_wait_id(wait_id)


@given(st.text(max_size=60))
@SETTINGS
def test_text_is_a_wait_id_or_raises_wait_not_found(text: str) -> None:
    try:
        name = layout.parse_wait_id(text)
    except ContinuationsError:
        return
    assert text == layout.build_wait_id(name.kind, name.ulid, name.run_id)


@pytest.mark.parametrize("kind", ["approval", "unknown"])
@pytest.mark.parametrize("run_id", ["jane", "a-b.c", LONGEST])
def test_decision_key_has_the_wait_id(kind: str, run_id: str) -> None:
    wait_id = layout.build_wait_id(kind, ULID, run_id)

    assert wait_id == layout.decided_wait_id(layout.decision_key(wait_id), run_id)


@pytest.mark.parametrize(
    "key",
    [
        layout.cancel_request_key("jane"),
        layout.numbered_key(layout.MESSAGE, "jane", 1),
        "runs/jane/in/.DS_Store",
    ],
)
def test_other_keys_are_not_decisions(key: str) -> None:
    assert layout.decided_wait_id(key, "jane") is None


def test_hostile_wait_id_raises_wait_not_found() -> None:
    for make in (layout.wait_key, layout.decision_key):
        with pytest.raises(WaitNotFound):
            make(f"approval-{ULID}@../../etc")


# Markers ---------------------------------------------------------------------


DUE_TIMES = st.integers(0, 9_999_999_999_998)
MARKER_LETTERS = st.sampled_from("demcgr")


@given(DUE_TIMES, DUE_TIMES, MARKER_LETTERS, MARKER_LETTERS, RUN_IDS)
@SETTINGS
def test_markers_sort_by_the_time_that_they_are_due(
    one: int, two: int, message: str, other: str, run_id: str
) -> None:
    first = Marker(one, message, "1", "n1", run_id)
    second = Marker(two, other, "1", "n2", "zzz")

    if one != two:
        assert (one < two) == (first.key < second.key)
    assert first == layout.parse_marker(first.key)
    assert (
        first.key
        <= layout.key_after_due_markers(one)
        < layout.key_after_due_markers(one + 1)
    )
    assert (first.key <= layout.key_after_due_markers(two)) == (one <= two)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x",
        "0000000000001",
        "0000000000001-g-1-n",
        "0000000000001-g-1-n@",
        "0000000000001-g-1-n@../x",
        "0000000000001-g-1@jane",
        "0000000000001-g-1-n-n@jane",
        "000000000000x-g-1-n@jane",
        "-000000000001-g-1-n@jane",
        "1-g-1-n@jane",
        "10000000000000-g-1-n@jane",
        "0000000000001-z-1-n@jane",
        "0000000000001-g-abc-n@jane",
        "0000000000001-m-abc-n@jane",
        "0000000000001-m--n@jane",
    ],
)
def test_key_of_another_shape_is_not_a_marker(name: str) -> None:
    assert layout.parse_marker(layout.MARKERS_PREFIX + name) is None


def test_deadline_in_the_far_future_is_not_due() -> None:
    # Given a deadline whose milliseconds have a digit more than today's
    far = MOMENT.replace(year=2300)
    marker = present(markers.deadline_marker(make_wait(deadline=far)))

    # Then its marker sorts after all that is due now
    assert marker.key > layout.key_after_due_markers(int(MOMENT.timestamp() * 1000))
    found = present(layout.parse_marker(marker.key))
    assert marker.key == found.key


@pytest.mark.parametrize("reason", "demcgr")
def test_is_release_marker_accepts_only_release_markers(reason: str) -> None:
    key = Marker(1, reason, "1", "n1", "jane").key

    assert (reason == "r") == layout.is_release_marker(key)
    assert not layout.is_release_marker(f"{layout.MARKERS_PREFIX}1-{reason}")


def test_postponed_marker_counts_fruitless_looks() -> None:
    """A marker with a later due time guards the same thing."""
    first = Marker(1, "g", "7", make_ulid(1)[-layout.NONCE_LENGTH :], "jane")

    # Given a marker that is postponed again and again, each time by another process
    seen = [first]
    for due in range(2, 60):
        read = present(layout.parse_marker(seen[-1].postponed(due).key))
        seen.append(read)

    # Then it counts up to a limit, and its target stays the same
    assert [0, 1, 2, 3] == [each.fruitless_looks for each in seen[:4]]
    assert 20 == max(each.fruitless_looks for each in seen)
    assert list(range(1, 60)) == [each.due_ms for each in seen]
    assert 1 == len({(each.reason, each.target, each.run_id) for each in seen})
    assert 1 == len({each.suffix[: layout.NONCE_LENGTH] for each in seen})


def test_marker_with_a_long_suffix_has_no_fruitless_looks() -> None:
    """Other characters after the random ones are not a number of looks."""
    assert (
        0
        == Marker(
            1, "d", "x", f"{'n' * layout.NONCE_LENGTH}abc", "jane"
        ).fruitless_looks
    )


# Markers ----------------------------------------------------------------------


NONCE = make_ulid(7)


async def due_markers(objects: Objects, now: datetime) -> list[Marker]:
    clock = StoreClock(FakeClock(now))
    return [*(await markers.read_due(objects, clock)).due]


# Making and listing ---------------------------------------------------------


@pytest.mark.parametrize(
    ("marker", "kind", "target"),
    [
        (markers.guard(RUN, 12, MOMENT, NONCE), "g", "12"),
        (markers.for_release(RUN, 4, NONCE), "r", "4"),
        (markers.for_decision(make_wait_id(3), NONCE), "d", make_ulid(3)),
        (markers.deadline_marker(make_wait(3, deadline=MOMENT)), "e", make_ulid(3)),
        (markers.for_arrival(RUN, "m", 4, NONCE), "m", "4"),
        (markers.for_cancel_request(RUN, NONCE), "c", "0"),
    ],
)
def test_marker_key_has_time_kind_target_and_run(
    marker: Marker, kind: str, target: str
) -> None:
    assert (kind, target, RUN) == (marker.reason, marker.target, marker.run_id)
    timed = kind in "ge"
    assert (int(MOMENT.timestamp() * 1000) if timed else 0) == marker.due_ms
    assert marker == layout.parse_marker(marker.key)


def test_two_markers_of_one_kind_and_time_differ() -> None:
    one = markers.for_decision(make_wait_id(), make_ulid(1))
    two = markers.for_decision(make_wait_id(), make_ulid(2))

    assert one.key != two.key


def test_deadline_has_one_marker_in_every_process() -> None:
    """A worker, a sweep and a repair create the same key."""
    wait = make_wait(3, deadline=MOMENT)

    one, two = markers.deadline_marker(wait), markers.deadline_marker(replace(wait))

    assert one is not None
    assert one == two
    assert markers.deadline_marker(make_wait(3)) is None


async def test_due_markers_come_in_the_order_of_their_time(objects: Objects) -> None:
    # Given markers that were made in any order
    for seconds in (30, -5, 0, 31, -3600, 29.999, 30.001):
        await markers.create(
            objects, markers.guard(RUN, 2, seconds_after_start(seconds), NONCE)
        )

    # When a sweep looks half a minute from now
    found = await due_markers(objects, seconds_after_start(30))

    # Then it sees the markers that are due, the oldest first
    begin = int(MOMENT.timestamp() * 1000)
    assert [-3_600_000, -5000, 0, 29_999, 30_000] == [
        marker.due_ms - begin for marker in found
    ]


async def test_marker_is_due_at_its_millisecond(objects: Objects) -> None:
    marker = markers.guard(RUN, 2, MOMENT, NONCE)
    await markers.create(objects, marker)

    assert [] == await due_markers(objects, seconds_after_start(-0.001))
    assert [marker] == await due_markers(objects, MOMENT)


async def test_every_due_marker_is_found_among_thousands(objects: Objects) -> None:
    """This holds also if a page is full, and while markers are deleted."""
    count = 2 * PAGE_SIZE + 7
    for number in range(count):
        marker = markers.guard(
            f"run-{number}", 1, seconds_after_start(number - count), NONCE
        )
        await markers.create(objects, marker)
    await markers.create(
        objects, markers.guard("later", 1, seconds_after_start(9), NONCE)
    )

    found = await markers.read_due(objects, StoreClock(FakeClock()))
    for marker in found.due:
        await objects.delete(marker.key)

    assert (count, 9) == (len(found.due), found.seconds_to_next)
    assert 1 == len(await all_keys(objects))


class StoreThatTellsTheEnd(MemoryStore):
    """A store whose pages say whether more keys follow, as those of S3 do."""

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        found = await super().keys(prefix, after, limit + 1)
        page = Page(found[:limit])
        page.is_last = len(found) <= limit
        return page


@pytest.mark.parametrize("seconds", [-1, 10 * 86_400], ids=["due", "far away"])
async def test_full_page_that_is_the_last_one_costs_one_listing(seconds: int) -> None:
    """Markers that are due, and deadlines after more than a day."""
    store = FaultyStore(StoreThatTellsTheEnd())
    objects, clock = make_objects(store), StoreClock(FakeClock())
    due = seconds_after_start(seconds)
    for number in range(PAGE_SIZE):
        marker = present(markers.deadline_marker(make_wait(number, deadline=due)))
        await markers.create(objects, marker)
    store.operations.clear()

    found = (await markers.read_due(objects, clock)).due
    assert len(found) == (PAGE_SIZE if seconds < 0 else 0)
    assert 0 == await redate_misdated(objects, clock, NONCE)

    assert ["keys", "keys"] == [each.verb for each in store.operations]


async def test_only_due_markers_are_listed(objects: Objects) -> None:
    """A million timers of next year cost a sweep one page."""
    await markers.create(objects, markers.guard(RUN, 1, MOMENT, NONCE))
    for number in range(PAGE_SIZE):
        marker = markers.guard(
            RUN, number + 2, seconds_after_start(1e6 + number), NONCE
        )
        await markers.create(objects, marker)

    assert 1 == len(await due_markers(objects, MOMENT))


@pytest.mark.parametrize(
    "name", ["x", ".DS_Store", "0000000000001-g-abc-n@jane", "1-g-1-n@jane"]
)
async def test_foreign_key_among_markers_is_ignored(name: str) -> None:
    objects = make_objects()
    await objects.create(f"markers/{name}", b"")
    marker = markers.guard(RUN, 1, MOMENT, NONCE)
    await markers.create(objects, marker)

    assert [marker] == await due_markers(objects, MOMENT)


async def test_make_returns_the_store_time() -> None:
    objects = make_objects(MemoryStore(lambda: seconds_after_start(3)))
    marker = markers.guard(RUN, 1, MOMENT, NONCE)

    assert seconds_after_start(3) == await markers.create(objects, marker)


async def test_create_is_idempotent(objects: Objects) -> None:
    """A repeat with the same id and time has the same key."""
    marker = markers.for_decision(make_wait_id(), NONCE)
    await markers.create(objects, marker)
    await markers.create(objects, marker)

    assert [marker.key] == await all_keys(objects)


async def test_postponed_marker_stays_if_the_corrected_one_is_the_same() -> None:
    """The clock of the machine is set while the marker is created."""
    clock = FakeClock()

    class StoreThatSetsTheClock(MemoryStore):
        async def create(self, key: str, body: bytes) -> datetime | None:
            clock.wall = seconds_after_start(-3600)
            return await super().create(key, body)

    objects = make_objects(StoreThatSetsTheClock(lambda: MOMENT))
    marker = markers.guard(RUN, 2, MOMENT, NONCE)

    later = await markers.postpone(objects, StoreClock(clock), marker)

    assert [later.key] == await all_keys(objects)


# Whether one stands ---------------------------------------------------------


def run_at_wait(status: RunStatus = "suspended", *, inbox: int = 0) -> RunState:
    """Return a run with open wait 1 that has read some messages."""
    state = make_state(make_wait(1), status=status)
    return replace(state, run=replace(state.run, last_inbox_number=inbox))


def marker_of(kind: str, target: str) -> Marker:
    return Marker(1, kind, target, "n", RUN)


@pytest.mark.parametrize(
    ("marker", "number", "run_state", "needed"),
    [
        # A guard is needed until its number exists, and while the run is claimed.
        (marker_of("g", "5"), 4, run_at_wait(), True),
        (marker_of("g", "5"), 5, run_at_wait(), False),
        (marker_of("g", "5"), 6, run_at_wait(), False),
        (marker_of("g", "5"), 4, run_at_wait("running"), True),
        (marker_of("g", "5"), 5, run_at_wait("running"), True),
        (marker_of("g", "5"), 9, run_at_wait("running"), True),
        # The markers of a wait are needed while the wait is open.
        (marker_of("d", make_ulid(1)), 2, run_at_wait(), True),
        (marker_of("d", make_ulid(2)), 2, run_at_wait(), False),
        (marker_of("e", make_ulid(1)), 2, run_at_wait(), True),
        (marker_of("e", make_ulid(2)), 2, run_at_wait(), False),
        (marker_of("d", make_ulid(1)), 2, run_at_wait("running"), True),
        # A claim that took the arrival in does not need the marker for the arrival. It
        # may need it as its guard, so nothing is deleted while a run is claimed.
        (marker_of("d", make_ulid(2)), 2, run_at_wait("running"), False),
        (marker_of("m", "2"), 2, run_at_wait("running", inbox=2), False),
        (marker_of("m", "3"), 2, run_at_wait("running", inbox=2), True),
        # The marker of a message is needed until the message is read.
        (marker_of("m", "1"), 2, run_at_wait(), True),
        (marker_of("m", "3"), 2, run_at_wait(inbox=2), True),
        (marker_of("m", "2"), 2, run_at_wait(inbox=2), False),
        (marker_of("m", "1"), 2, run_at_wait(inbox=2), False),
        # The marker of a cancel request is needed until the run has ended.
        (marker_of("c", "0"), 2, run_at_wait(), True),
        (marker_of("r", "2"), 1, run_at_wait(), True),
        (marker_of("r", "2"), 2, run_at_wait(), True),
        (marker_of("r", "2"), 3, run_at_wait(), False),
    ],
)
def test_is_needed_for_each_kind_of_marker(
    marker: Marker, number: int, run_state: RunState, *, needed: bool
) -> None:
    assert needed == markers.is_needed(marker, number, run_state)


@pytest.mark.parametrize("status", sorted(ENDED_STATUSES))
@pytest.mark.parametrize("kind", "demcgr")
def test_no_marker_is_needed_after_the_run_has_ended(
    status: RunStatus, kind: str
) -> None:
    marker = marker_of(kind, "9" if kind in "gm" else make_ulid(1))

    assert not markers.is_needed(marker, 2, run_at_wait(status))


@pytest.mark.parametrize("kind", "demcgr")
def test_every_marker_is_needed_while_the_run_has_no_version(kind: str) -> None:
    """The process that starts the run will write version 1, or has crashed."""
    assert markers.is_needed(marker_of(kind, "1"), 0, None)
