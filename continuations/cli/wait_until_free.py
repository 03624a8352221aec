"""Retry while another process holds the claim on a run, for `--wait-if-busy`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from continuations.errors import RunBusy, StaleRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.engine.outcomes import Outcome

# Seconds between two attempts. An attempt on a busy run costs one listing and one read.
_FIRST_DELAY, _MAX_DELAY = 0.1, 1.0


def wait_until_free(
    attempt: Callable[[], Outcome | None],
    resume: Callable[[], Outcome | None],
    *,
    timeout: float | None,
    is_stopped: Callable[[], bool],
    write_note: Callable[[str], None],
) -> Outcome | None:
    """Return the outcome of an attempt, and resume the run while it is busy.

    A claim ends when its process commits the last version, or at its deadline if the
    process died. Raises `RunBusy` or `StaleRun` after `timeout` seconds. Returns `None`
    once `is_stopped` is true.
    """
    end = None if timeout is None else time.monotonic() + timeout
    delay = _FIRST_DELAY
    while not is_stopped():
        try:
            return attempt()
        except (RunBusy, StaleRun) as error:
            time_left = _MAX_DELAY if end is None else end - time.monotonic()
            if time_left <= 0:
                raise
            if delay == _FIRST_DELAY:
                write_note(f"waiting: {error}")
            attempt = resume
        time.sleep(min(delay, time_left))
        delay = min(delay * 2, _MAX_DELAY)
    return None
