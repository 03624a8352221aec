"""Cold processes: a new interpreter for each, which may use compiled files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def environment(base_url: str = "http://127.0.0.1:9/v1") -> dict[str, str]:
    """Return the variables of a child process; no server listens on port 9."""
    # With PYTHONDONTWRITEBYTECODE every cold import would compile the source.
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "OPENAI_API_KEY": "sk-bench", "OPENAI_BASE_URL": base_url}


def captured_output(
    code: str, *arguments: str, base_url: str = "http://127.0.0.1:9/v1"
) -> str:
    """Run code in a new interpreter and return its standard output."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=environment(base_url),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def wall_time_ms(code: str, *arguments: str) -> float:
    """Return the milliseconds of a new interpreter from its start to its exit."""
    started = time.monotonic_ns()
    captured_output(code, *arguments)
    return (time.monotonic_ns() - started) / 1e6


def time_to_stamp_ms(code: str, *arguments: str) -> float:
    """Return the milliseconds from a process's start to the time that it writes."""
    started = time.monotonic_ns()
    return (int(captured_output(code, *arguments)) - started) / 1e6
