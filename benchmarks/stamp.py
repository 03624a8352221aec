"""The end of a measurement: a tool writes the time and ends its process."""

from __future__ import annotations

import os
import time


def write_time_and_exit() -> None:
    """Write the time of the clock that all processes share, and exit."""
    now = time.monotonic_ns()
    os.write(1, str(now).encode())
    os._exit(0)
