"""Children of one warmed process: forked, killed, frozen, and what became of them.

An interpreter that imports everything takes a third of a second, a fork of one that
did so some milliseconds: only so can a process be killed at every point.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

KILLED = -signal.SIGKILL
TIMED_OUT = -signal.SIGALRM
FROZEN = 1000
TIMEOUT_SECONDS = 60


def fork(work: Callable[[], None]) -> int:
    """Do some work in a child and return its process id.

    The child ends with 0 if the work returned, with 1 if it raised, and by SIGALRM if
    it takes too long: nothing may hang for ever.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.alarm(TIMEOUT_SECONDS)
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - the child must not go on as its parent
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def wait_for_exit(child: int, *, or_stopped: bool = False) -> int:
    """Wait for a child's end: its code, minus the signal, or FROZEN."""
    _, status = os.waitpid(child, os.WUNTRACED if or_stopped else 0)
    if os.WIFSTOPPED(status):
        return FROZEN
    return os.waitstatus_to_exitcode(status)


def run_in_child(work: Callable[[], None]) -> int:
    """Do some work in a child and wait for its end."""
    return wait_for_exit(fork(work))


def continue_child(child: int) -> int:
    """Let a frozen child go on, and wait for its end."""
    os.kill(child, signal.SIGCONT)
    return wait_for_exit(child)


def kill_child(child: int) -> None:
    """End a child that is of no use any more, also a frozen one."""
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    wait_for_exit(child)
