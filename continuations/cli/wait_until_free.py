"""Waiting for a run that another process holds; never for a person."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from continuations.errors import RunBusy, StaleRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.engine.outcomes import Outcome

# Seconds between looks at a run that is held; each look is one listing and one read.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0


def wait_until_free(
    attempt: Callable[[], Outcome],
    resume: Callable[[str], Outcome],
    *,
    timeout: float | None,
    print_note: Callable[[str], None],
) -> Outcome:
    """Return the outcome of an attempt, resuming for as long as the run is held.

    A claim ends when its process is done, or at its time if that process died. Raises
    `RunBusy` or `StaleRun` if that takes more than `timeout` seconds.
    """
    ends = None if timeout is None else time.monotonic() + timeout
    pause = _FIRST_PAUSE
    while True:
        try:
            return attempt()
        except (RunBusy, StaleRun) as error:
            left = _LONGEST_PAUSE if ends is None else ends - time.monotonic()
            if left <= 0:
                raise
            if pause == _FIRST_PAUSE:
                print_note(f"waiting: {error}")
            if error.run_id is not None:
                attempt = partial(resume, error.run_id)
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_PAUSE)
