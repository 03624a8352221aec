"""Object keys: valid in every store, in the promised order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.errors import ContinuationsError, InvalidId, WaitNotFound
from continuations.ledger import layout, markers
from continuations.ledger.layout import Marker
from continuations_storage.keys import check_prefix, split_key
from tests.ledger.fake_clock import MOMENT, make_ulid
from tests.ledger.runs import make_wait
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
    marker = markers.deadline_marker(make_wait(deadline=far))
    assert marker is not None

    # Then its marker sorts after all that is due now
    assert marker.key > layout.key_after_due_markers(int(MOMENT.timestamp() * 1000))
    found = layout.parse_marker(marker.key)
    assert found is not None
    assert marker.key == found.key


@pytest.mark.parametrize("reason", "demcgr")
def test_is_release_marker_accepts_only_release_markers(reason: str) -> None:
    """A marker with another reason is not the marker of a release."""
    key = Marker(1, reason, "1", "n1", "jane").key

    assert (reason == "r") == layout.is_release_marker(key)
    assert not layout.is_release_marker(f"{layout.MARKERS_PREFIX}1-{reason}")


def test_postponed_marker_counts_fruitless_looks() -> None:
    """A marker with a later due time guards the same thing."""
    first = Marker(1, "g", "7", make_ulid(1)[-layout.NONCE_LENGTH :], "jane")

    # Given a marker that is postponed again and again, each time by another process
    seen = [first]
    for due in range(2, 60):
        read = layout.parse_marker(seen[-1].postponed(due).key)
        assert read is not None
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
