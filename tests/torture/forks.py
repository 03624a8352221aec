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
HUNG = -signal.SIGALRM
FROZEN = 1000
SECONDS = 60


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
        signal.alarm(SECONDS)
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - the child must not go on as its parent
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def came_to(child: int, *, or_froze: bool = False) -> int:
    """Wait for a child's end: its code, minus the signal, or FROZEN."""
    _, status = os.waitpid(child, os.WUNTRACED if or_froze else 0)
    if os.WIFSTOPPED(status):
        return FROZEN
    return os.waitstatus_to_exitcode(status)


def done(work: Callable[[], None]) -> int:
    """Do some work in a child and wait for its end."""
    return came_to(fork(work))


def wake(child: int) -> int:
    """Let a frozen child go on, and wait for its end."""
    os.kill(child, signal.SIGCONT)
    return came_to(child)


def end(child: int) -> None:
    """End a child that is of no use any more, also a frozen one."""
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    came_to(child)
