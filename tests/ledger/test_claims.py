"""Claims: their time on two clocks, and their attempts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from continuations.core.rows.run import Claim, Failure, RunRow, RunStatus
from continuations.errors import ClockOff, RunBusy
from continuations.ledger.claims import (
    ClockReading,
    Lease,
    check_clock,
    check_free,
    claimed,
    next_attempt,
    released,
)
from continuations.wire.fields import readable_time
from tests.ledger.fake_clock import MOMENT, FakeClock, seconds_after_start
from tests.ledger.runs import RUN, make_state, make_wait

WHOLE_SECONDS = timedelta(seconds=1)


def new_lease(clock: FakeClock, length: float = 30.0) -> Lease:
    return Lease.start_now(clock, length)


def claimed_run_row(until: datetime, attempt: int = 1) -> RunRow:
    claim = Claim(worker="w", until=until, attempt=attempt)
    return replace(make_state(status="running").run, claim=claim)


# The lease ------------------------------------------------------------------


def test_new_lease_has_its_full_time() -> None:
    lease = new_lease(FakeClock())

    assert 30.0 == lease.seconds_left
    assert seconds_after_start(30) == lease.until
    assert lease.can_start_action
    assert 10.0 == lease.seconds_to_renewal


@pytest.mark.parametrize(
    ("passed", "allows", "to_renewal"),
    [
        (0.0, True, 10.0),
        (9.5, True, 0.5),
        (10.0, True, 0.0),  # exactly two thirds are left
        (14.9, True, 0.0),
        (15.0, False, 0.0),  # half is left: not enough to start a call
        (29.9, False, 0.0),
        (30.0, False, 0.0),
        (31.0, False, 0.0),
        (1e6, False, 0.0),
    ],
)
def test_lease_allows_less_as_time_passes(
    passed: float, to_renewal: float, *, allows: bool
) -> None:
    clock = FakeClock()
    lease = new_lease(clock)
    clock.advance(passed)

    assert allows == lease.can_start_action
    assert to_renewal == pytest.approx(lease.seconds_to_renewal, abs=0.001)
    assert 30 - passed == pytest.approx(lease.seconds_left, abs=0.001)


def test_frozen_wall_clock_does_not_extend_a_lease() -> None:
    """The lease ends on the elapsed clock if the wall clock froze or was set back."""
    clock = FakeClock()
    lease = new_lease(clock)
    clock.advance(16, wall=False)

    assert not lease.can_start_action
    clock.advance(-3600, elapsed=False)
    assert not lease.can_start_action


def test_frozen_elapsed_clock_does_not_extend_a_lease() -> None:
    """The lease ends on the wall clock after a virtual machine was suspended."""
    clock = FakeClock()
    lease = new_lease(clock)
    clock.advance(16, elapsed=False)

    assert not lease.can_start_action
    assert 0.0 == lease.seconds_to_renewal


def test_lease_ends_while_the_machine_sleeps() -> None:
    clock = FakeClock()
    lease = new_lease(clock)
    clock.advance(8 * 3600)

    assert lease.seconds_left < 0
    assert not lease.can_start_action


def test_wall_clock_set_forward_ends_a_lease() -> None:
    """Other workers, which see that time, may take over."""
    clock = FakeClock()
    lease = new_lease(clock)
    clock.advance(3600, elapsed=False)

    assert not lease.can_start_action


def test_lease_begins_before_its_create_is_sent() -> None:
    """A slow request shortens the time of the holder."""
    clock = FakeClock()
    lease = new_lease(clock)
    clock.advance(20)

    assert seconds_after_start(30) == lease.until
    assert 10 == pytest.approx(lease.seconds_left)


# Claimed and released -------------------------------------------------------


def test_claim_has_worker_end_and_attempt() -> None:
    state = make_state(make_wait())
    lease = new_lease(FakeClock())

    run = claimed(state, worker="w-1", lease=lease, attempt=3).run

    assert "running" == run.status
    assert Claim(worker="w-1", until=lease.until, attempt=3) == run.claim


@pytest.mark.parametrize("status", ["running", "suspended"])
def test_released_run_is_suspended(status: RunStatus) -> None:
    state = replace(
        make_state(),
        run=replace(claimed_run_row(seconds_after_start(30)), status=status),
    )

    run = released(state).run

    assert ("suspended", None) == (run.status, run.claim)


@pytest.mark.parametrize("status", ["finished", "failed", "cancelled"])
def test_released_keeps_a_final_status(status: RunStatus) -> None:
    failure = Failure(code="x", message="y")
    state = make_state(status=status)
    state = replace(state, run=replace(state.run, failure=failure))

    run = released(state).run

    assert (status, None, failure) == (run.status, run.claim, run.failure)


def test_claiming_and_releasing_changes_nothing_else() -> None:
    state = make_state(make_wait())
    lease = new_lease(FakeClock())

    again = released(claimed(state, worker="w", lease=lease, attempt=1))

    assert state == again


# Attempts -------------------------------------------------------------------


def test_attempts_count_takeovers_of_unreleased_claims() -> None:
    """Attempts are counted also if each worker dies by SIGKILL."""
    state = make_state()
    for expected in (1, 2, 3, 4):
        attempt = next_attempt(state.run)
        assert expected == attempt
        lease = new_lease(FakeClock())
        state = claimed(state, worker="w", lease=lease, attempt=attempt)


def test_attempt_count_restarts_after_a_release() -> None:
    state = replace(make_state(), run=claimed_run_row(MOMENT, attempt=4))

    assert 5 == next_attempt(state.run)
    assert 1 == next_attempt(released(state).run)


# Who may claim --------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "busy"), [(-1, False), (0, False), (0.001, True), (30, True)]
)
def test_claim_lasts_until_its_end(seconds: float, *, busy: bool) -> None:
    """Another worker can take over after a limited time."""
    run = claimed_run_row(MOMENT + timedelta(seconds=seconds))

    if not busy:
        check_free(run, MOMENT)
        return
    with pytest.raises(RunBusy) as caught:
        check_free(run, MOMENT)
    assert run.claim is not None
    assert (RUN, run.claim.until) == (caught.value.run_id, caught.value.until)
    text = str(caught.value)
    assert readable_time(run.claim.until + timedelta(milliseconds=999)) in text
    assert "Call again after it." in text


def test_run_without_a_claim_is_free() -> None:
    check_free(make_state().run, MOMENT)


# The store's time -----------------------------------------------------------


@pytest.mark.parametrize(
    ("store_time", "off"),
    [
        (None, False),
        (0.0, False),
        (1.0, False),
        (0.5, False),
        (-7.5, False),  # a quarter of 30 s before the request
        (-7.501, True),
        (8.5, False),  # a quarter of 30 s after the reply
        (8.501, True),
        (3600.0, True),
        (-3600.0, True),
    ],
)
def test_clock_may_differ_by_a_quarter_of_a_claim(
    store_time: float | None, *, off: bool
) -> None:
    """The reading has the times before and after the request."""
    moment = None if store_time is None else seconds_after_start(store_time)
    if not off:
        check_clock(ClockReading(MOMENT, moment, seconds_after_start(1)), 30, RUN)
        return
    with pytest.raises(ClockOff) as caught:
        check_clock(ClockReading(MOMENT, moment, seconds_after_start(1)), 30, RUN)
    assert RUN == caught.value.run_id


def test_slow_store_is_not_a_wrong_clock() -> None:
    check_clock(
        ClockReading(MOMENT, seconds_after_start(55), seconds_after_start(60)), 30, RUN
    )
    check_clock(
        ClockReading(MOMENT, seconds_after_start(0), seconds_after_start(60)), 30, RUN
    )


@pytest.mark.parametrize("fraction", [0.0, 0.001, 0.5, 0.999])
@pytest.mark.parametrize("lease", [3, 4, 30])
def test_right_clock_passes_with_a_store_that_tells_whole_seconds(
    fraction: float, lease: float
) -> None:
    """A store's time that is rounded down is not an earlier time."""
    now = seconds_after_start(fraction)

    check_clock(ClockReading(now, MOMENT, now, WHOLE_SECONDS), lease, RUN)


@pytest.mark.parametrize(
    ("clock", "off"), [(8.499, False), (8.501, True), (-7.5, False), (-7.501, True)]
)
def test_resolution_allows_no_more_than_the_store_may_be_later(
    clock: float, *, off: bool
) -> None:
    """Only a clock ahead of the store's time is allowed the rounding."""
    now = seconds_after_start(clock)
    reading = ClockReading(now, MOMENT, now, WHOLE_SECONDS)

    if off:
        with pytest.raises(ClockOff):
            check_clock(reading, 30, RUN)
    else:
        check_clock(reading, 30, RUN)


def test_resolution_and_request_make_the_reading_uncertain() -> None:
    sent, received = MOMENT, seconds_after_start(2)

    assert 3 == ClockReading(sent, MOMENT, received, WHOLE_SECONDS).uncertainty
    assert 2 == ClockReading(sent, MOMENT, received).uncertainty
    assert 0 == ClockReading(sent, None, received, WHOLE_SECONDS).uncertainty


def test_shorter_claim_allows_less_clock_offset() -> None:
    check_clock(ClockReading(MOMENT, seconds_after_start(1), MOMENT), 4, RUN)
    with pytest.raises(ClockOff):
        check_clock(ClockReading(MOMENT, seconds_after_start(1), MOMENT), 3.9, RUN)
