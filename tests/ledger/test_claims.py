"""The right to move a run on: on two clocks, for a time, counted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from continuations.core.run import Claim, Failure, Status
from continuations.errors import ClockOff, RunBusy
from continuations.ledger.claims import (
    Lease,
    Told,
    check_clock,
    check_free,
    claimed,
    next_attempt,
    released,
)
from tests.ledger.machine import MOMENT, FakeClock, later
from tests.ledger.runs import RUN, a_table, a_wait

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.run import RunRow


def lease_of(clock: FakeClock, length: float = 30.0) -> Lease:
    """Return a lease that begins now."""
    return Lease.beginning_now(clock, length)


def held(until: datetime, attempt: int = 1) -> RunRow:
    """Return the row of a run that a worker holds."""
    claim = Claim(worker="w", until=until, attempt=attempt)
    return replace(a_table(status="running").run, claim=claim)


# The lease ------------------------------------------------------------------


def test_a_lease_begins_whole() -> None:
    lease = lease_of(FakeClock())

    assert 30.0 == lease.left
    assert later(30) == lease.until
    assert lease.allows_a_call
    assert not lease.wants_renewal


@pytest.mark.parametrize(
    ("passed", "allows", "wants"),
    [
        (0.0, True, False),
        (10.0, True, False),  # exactly two thirds are left
        (10.5, True, True),
        (14.9, True, True),
        (15.0, False, True),  # half is left: too little to begin a call
        (29.9, False, True),
        (30.0, False, True),
        (31.0, False, True),
        (1e6, False, True),
    ],
)
def test_what_a_lease_allows_as_time_passes(
    passed: float, *, allows: bool, wants: bool
) -> None:
    clock = FakeClock()
    lease = lease_of(clock)
    clock.pass_time(passed)

    assert (allows, wants) == (lease.allows_a_call, lease.wants_renewal)
    assert 30 - passed == pytest.approx(lease.left, abs=0.001)


def test_a_wall_clock_that_stands_still_does_not_lengthen_a_lease() -> None:
    """R-A5: a machine whose wall clock froze, or was set back."""
    clock = FakeClock()
    lease = lease_of(clock)
    clock.pass_time(16, wall=False)

    assert not lease.allows_a_call
    clock.pass_time(-3600, elapsed=False)
    assert not lease.allows_a_call


def test_an_elapsed_clock_that_stands_still_does_not_lengthen_a_lease() -> None:
    """R-A5: a virtual machine that was suspended, whose uptime did not go on."""
    clock = FakeClock()
    lease = lease_of(clock)
    clock.pass_time(16, elapsed=False)

    assert not lease.allows_a_call
    assert lease.wants_renewal


def test_a_sleep_ends_a_lease() -> None:
    clock = FakeClock()
    lease = lease_of(clock)
    clock.pass_time(8 * 3600)

    assert lease.left < 0
    assert not lease.allows_a_call


def test_a_wall_clock_that_leaps_forward_ends_a_lease() -> None:
    """It errs on the safe side: the others, who see that time, may take over."""
    clock = FakeClock()
    lease = lease_of(clock)
    clock.pass_time(3600, elapsed=False)

    assert not lease.allows_a_call


def test_a_lease_is_measured_from_before_its_create_is_sent() -> None:
    """What takes long on the way is lost to the holder, never to the others."""
    clock = FakeClock()
    lease = lease_of(clock)
    clock.pass_time(20)

    assert later(30) == lease.until
    assert 10 == pytest.approx(lease.left)


# Claimed and released -------------------------------------------------------


def test_a_claim_says_who_until_when_and_which_attempt() -> None:
    table = a_table(a_wait())
    lease = lease_of(FakeClock())

    run = claimed(table, worker="w-1", lease=lease, attempt=3).run

    assert "running" == run.status
    assert Claim(worker="w-1", until=lease.until, attempt=3) == run.claim


@pytest.mark.parametrize("status", ["running", "suspended"])
def test_a_claim_that_is_given_up_leaves_a_suspended_run(status: Status) -> None:
    table = replace(a_table(), run=replace(held(later(30)), status=status))

    run = released(table).run

    assert ("suspended", None) == (run.status, run.claim)


@pytest.mark.parametrize("status", ["finished", "failed", "cancelled"])
def test_an_end_stays_an_end(status: Status) -> None:
    failure = Failure(code="x", message="y")
    table = a_table(status=status)
    table = replace(table, run=replace(table.run, failure=failure))

    run = released(table).run

    assert (status, None, failure) == (run.status, run.claim, run.failure)


def test_claiming_and_releasing_changes_nothing_else() -> None:
    table = a_table(a_wait())
    lease = lease_of(FakeClock())

    again = released(claimed(table, worker="w", lease=lease, attempt=1))

    assert table == again


# Attempts -------------------------------------------------------------------


def test_attempts_count_the_claims_that_take_over_from_the_dead() -> None:
    """R-A9: bounded also when every attempt dies by SIGKILL."""
    table = a_table()
    for expected in (1, 2, 3, 4):
        attempt = next_attempt(table.run)
        assert expected == attempt
        lease = lease_of(FakeClock())
        table = claimed(table, worker="w", lease=lease, attempt=attempt)


def test_a_claim_given_up_in_order_begins_anew() -> None:
    table = replace(a_table(), run=held(MOMENT, attempt=4))

    assert 5 == next_attempt(table.run)
    assert 1 == next_attempt(released(table).run)


# Who may claim --------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "busy"), [(-1, False), (0, False), (0.001, True), (30, True)]
)
def test_a_claim_holds_until_its_end_and_not_longer(
    seconds: float, *, busy: bool
) -> None:
    """R-A5: another resumer can take over after a bounded time."""
    run = held(MOMENT + timedelta(seconds=seconds))

    if not busy:
        check_free(run, MOMENT)
        return
    with pytest.raises(RunBusy) as caught:
        check_free(run, MOMENT)
    assert run.claim is not None
    assert (RUN, run.claim.until) == (caught.value.run_id, caught.value.until)
    assert run.claim.until.isoformat() in str(caught.value)


def test_a_run_that_nobody_holds_is_free() -> None:
    check_free(a_table().run, MOMENT)


# The store's time -----------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "off"),
    [
        (None, False),
        (0.0, False),
        (1.0, False),
        (0.5, False),
        (-7.5, False),  # a quarter of 30 s before it was sent
        (-7.501, True),
        (8.5, False),  # a quarter after it was answered
        (8.501, True),
        (3600.0, True),
        (-3600.0, True),
    ],
)
def test_a_clock_may_be_off_by_a_quarter_of_a_claim(
    told: float | None, *, off: bool
) -> None:
    """`told` counts from the sending; the answer came a second later."""
    moment = None if told is None else later(told)
    if not off:
        check_clock(Told(MOMENT, moment, later(1)), 30, RUN)
        return
    with pytest.raises(ClockOff) as caught:
        check_clock(Told(MOMENT, moment, later(1)), 30, RUN)
    assert RUN == caught.value.run_id


def test_a_slow_store_is_not_a_wrong_clock() -> None:
    check_clock(Told(MOMENT, later(55), later(60)), 30, RUN)
    check_clock(Told(MOMENT, later(0), later(60)), 30, RUN)


def test_a_shorter_claim_asks_for_better_clocks() -> None:
    check_clock(Told(MOMENT, later(1), MOMENT), 4, RUN)
    with pytest.raises(ClockOff):
        check_clock(Told(MOMENT, later(1), MOMENT), 3.9, RUN)
