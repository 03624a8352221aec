"""The time axis counts working time: claims to scale, sleeps as narrow columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from continuations.core.reading.run_past import VersionEvents, VersionWindow
from continuations.core.rows.run import Claim, RunRow
from continuations.present.times import length_text, plain_text
from continuations.serve.pages.working_time import AXIS_WIDTH, WorkingTime, working_time

BEGIN = datetime(2026, 11, 22, 9, 2, tzinfo=UTC)
LEASE = timedelta(seconds=30)

# Each version: seconds since the one before, and the worker that holds the claim.
VERSIONS = st.lists(
    st.tuples(
        st.floats(-5, 500_000, allow_nan=False), st.sampled_from(["", "w1", "w2", "w3"])
    ),
    min_size=1,
    max_size=60,
)


def window(
    versions: list[tuple[float, str]], *, status: str = "suspended", newest: int = 0
) -> VersionWindow:
    """Return versions at some times, with the claims of some workers."""
    at, made = BEGIN, list[VersionEvents]()
    for number, (seconds, worker) in enumerate(versions, 1):
        at += timedelta(seconds=seconds)
        claim = Claim(worker=worker, until=at + LEASE, attempt=1) if worker else None
        row = RunRow(
            id="r1",
            run_nonce="n",
            agent="boss",
            created_at=BEGIN,
            input_digest="d",
            status="running" if worker else status,  # type: ignore[arg-type]
            claim=claim,
        )
        made.append(VersionEvents(number=number, at=at, run=row, events=()))
    state: object = None
    return VersionWindow(
        before=None,
        versions=tuple(made),
        state=state,  # type: ignore[arg-type]
        newest_number=newest or len(made),
    )


def described(time: WorkingTime) -> list[tuple[str, str]]:
    """Return the words of each segment."""
    return [(each.title, plain_text(each.text)) for each in time.segments]


def test_claims_are_segments_and_sleeps_are_columns() -> None:
    versions = [(0.0, "w1"), (7.0, "w1"), (12.0, ""), (15_120.0, "w2"), (12.0, "")]
    last = window(versions).versions[-1].at

    time = working_time(window(versions), last + timedelta(hours=8, minutes=56))

    assert [
        ("Worker 1", "09:02 UTC, 19 s"),
        ("asleep", "4 h 12 min"),
        ("Worker 2", "13:14 UTC, 12 s"),
        ("asleep", "8 h 56 min"),
    ] == described(time)
    assert timedelta(seconds=31) == time.worked
    assert timedelta(hours=13, minutes=8) == time.slept
    first, asleep, second, _ = time.segments
    assert asleep.width < second.width < first.width


def test_short_work_and_long_sleep_share_the_axis() -> None:
    """20 s of work are visible beside 13 h of waiting, and 0.1 s do not fill it."""
    versions = [(0.0, "w1"), (20.0, ""), (13 * 3600.0, "w2"), (0.1, "")]
    end = window(versions).versions[-1].at

    long = working_time(window(versions, status="finished"), end).segments
    short = working_time(window([(0.0, "w1"), (0.1, "")]), end).segments

    assert ["Worker 1", "asleep", "Worker 2"] == [each.title for each in long]
    assert long[0].width == 600
    assert 100 < long[1].width
    assert short[0].width == 600
    minute, day = (
        working_time(
            window([(0.0, "w1"), (20.0, ""), (seconds, "w2"), (20.0, "")]), end
        ).segments[1]
        for seconds in (60.0, 86_400.0)
    )
    assert minute.width < day.width


def test_worker_that_died_worked_until_its_last_version() -> None:
    """Its life after that is not known; the version of a sweep is no work."""
    versions = [(0.0, "w1"), (3.0, "w1"), (90.0, "")]

    time = working_time(window(versions), BEGIN + timedelta(seconds=93))

    expected = [("Worker 1", "09:02 UTC, 3.0 s"), ("asleep", "1 min 30 s")]
    assert expected == described(time)
    assert time.segments[0].stretch.is_lost


def test_worker_that_took_the_claim_over_has_a_segment_of_its_own() -> None:
    versions = [(0.0, "w1"), (40.0, "w2"), (2.0, "")]

    time = working_time(window(versions, status="finished"), BEGIN)

    assert ["Worker 1", "asleep", "Worker 2"] == [each.title for each in time.segments]
    assert (2, timedelta(seconds=2)) == (time.workers, time.worked)


def test_worker_that_works_now_counts_until_now() -> None:
    now = BEGIN + timedelta(seconds=20)

    time = working_time(window([(0.0, "w1"), (5.0, "w1")]), now)

    assert [("Worker 1", "09:02 UTC, 20 s")] == described(time)
    assert time.segments[-1].stretch.is_open
    later = working_time(window([(0.0, "w1"), (5.0, "w1")]), now + LEASE)
    assert [("Worker 1", "09:02 UTC, 5.0 s"), ("asleep", "45 s")] == described(later)
    assert later.segments[0].stretch.is_lost


def test_older_version_and_an_ended_run_do_not_sleep_until_now() -> None:
    now = BEGIN + timedelta(days=9)
    versions = [(0.0, "w1"), (5.0, "")]

    ended = working_time(window(versions, status="finished"), now)
    older = working_time(window(versions, newest=7), now)

    assert [("Worker 1", "09:02 UTC, 5.0 s")] == described(ended) == described(older)


@given(VERSIONS, st.floats(0, 500_000), st.booleans())
def test_segments_fill_the_axis_without_overlap(
    versions: list[tuple[float, str]], after: float, is_newest: bool
) -> None:
    found = window(versions, newest=len(versions) + (not is_newest))
    now = found.versions[-1].at + timedelta(seconds=after)

    time = working_time(found, now)

    assert 0 == time.segments[0].x
    for left, right in pairwise(time.segments):
        assert left.x + left.width == right.x
        assert left.stretch.end <= right.stretch.begin
    assert AXIS_WIDTH == time.segments[-1].x + time.segments[-1].width
    assert all(each.width >= 0 for each in time.segments)
    if len(time.segments) > 1:
        assert max(each.width for each in time.segments) <= 0.6 * AXIS_WIDTH + 1
    works = [each for each in time.segments if each.stretch.worker]
    by_length = sorted(works, key=lambda each: each.stretch.length)
    for less, more in pairwise(by_length):
        assert less.width <= more.width + 1  # a pixel for rounding


@given(VERSIONS, st.lists(st.floats(-10, 900_000), max_size=10))
def test_later_moment_is_never_further_left(
    versions: list[tuple[float, str]], moments: list[float]
) -> None:
    found = window(versions)
    time = working_time(found, found.versions[-1].at)

    places = [time.x(BEGIN + timedelta(seconds=each)) for each in sorted(moments)]

    assert sorted(places) == places
    assert all(0 <= each <= AXIS_WIDTH for each in places)


@given(VERSIONS)
def test_working_time_is_the_sum_of_the_claims(
    versions: list[tuple[float, str]],
) -> None:
    """Counted in another way: from version to version."""
    found = window(versions, status="finished")
    now = found.versions[-1].at
    latest, expected = found.versions[0].at, timedelta()
    for before, after in pairwise(found.versions):
        begin, latest = latest, max(latest, after.at)
        claim, next_claim = before.run.claim, after.run.claim
        if claim is None:
            continue
        released = next_claim is None and latest <= claim.until
        goes_on = next_claim is not None and next_claim.worker == claim.worker
        if released or goes_on:
            expected += latest - begin
    time = working_time(found, now)
    if time.segments[-1].stretch.is_open:
        expected += now - latest if now > latest else timedelta()

    assert expected == time.worked
    begin, end = time.segments[0].stretch.begin, time.segments[-1].stretch.end
    assert expected == time.worked_between(begin, end)


def test_lengths_have_two_units() -> None:
    texts = {
        0.0: "0 ms",
        0.0004: "0 ms",
        0.38: "380 ms",
        0.9994: "999 ms",
        0.9996: "1.0 s",
        1.24: "1.2 s",
        9.96: "10 s",
        59.4: "59 s",
        245.0: "4 min 05 s",
        15_120.0: "4 h 12 min",
        212_400.0: "2 d 11 h",
    }
    assert texts == {each: length_text(timedelta(seconds=each)) for each in texts}
