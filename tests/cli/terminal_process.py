"""Run a command line in a real terminal (a pty), and type into it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path
from typing import Self

from tests.cli.command_line import ROOT
from tests.python_path import python_path

# Colors, and the switches of bracketed paste.
_CONTROL_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TIMEOUT = 60.0
# Wide enough that no text of a test is wrapped.
_ROWS, _COLUMNS = 40, 1000
CTRL_C, CTRL_D = "\x03", "\x04"


class TerminalProcess:
    """A command line whose standard streams are a terminal."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self._seen = ""
        self.text = ""
        self.raw = ""  # with control sequences
        self.pid, self._terminal = pty.fork()
        if not self.pid:  # the child
            os.chdir(folder)
            variables = {**os.environ, "TERM": "xterm", "COLUMNS": str(_COLUMNS)}
            variables["PYTHONPATH"] = python_path(ROOT, ROOT / "storage")
            variables |= environment
            words = [sys.executable, "-m", "continuations", *arguments]
            os.execve(sys.executable, words, variables)  # noqa: S606 - this project
        size = struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process, if it is still there."""
        if self.pid:
            self.kill()
        os.close(self._terminal)

    def type(self, text: str) -> None:
        """Type keys."""
        os.write(self._terminal, text.encode())

    def enter(self, line: str) -> None:
        """Type a line and Enter."""
        self.type(f"{line}\r")

    def expect(self, text: str) -> str:
        """Wait for a text; return what came before it since the last text."""
        end = time.monotonic() + _TIMEOUT
        while text not in self._seen:
            if not self._read(end - time.monotonic()):
                msg = f"{text!r} did not appear. The terminal has:\n{self.text}"
                raise AssertionError(msg)
        before, _, self._seen = self._seen.partition(text)
        return before

    def answer(self, question: str, line: str) -> str:
        """Wait for a text, and type a line and Enter; return what came before it."""
        before = self.expect(question)
        self.enter(line)
        return before

    def interrupt(self) -> int:
        """Press Ctrl-C at a prompt until the process ends; return its exit code.

        Readline notices a signal that arrives just before it waits at the next key.
        """
        end = time.monotonic() + _TIMEOUT
        while time.monotonic() < end:
            self.type(CTRL_C)
            while self._read(2):
                pass
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
        msg = f"The process did not end. The terminal has:\n{self.text}"
        raise AssertionError(msg)

    def wait(self) -> int:
        """Wait for the end of the process; return its exit code."""
        end = time.monotonic() + _TIMEOUT
        while self._read(end - time.monotonic()):
            pass
        if time.monotonic() > end:
            msg = f"The process did not end. The terminal has:\n{self.text}"
            raise AssertionError(msg)
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process as a crash would."""
        self.signal(signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.pid = 0

    def _read(self, seconds: float) -> bool:
        """Read what the terminal shows now; return False at its end or in the end."""
        # Not `select.select`, which fails above 1,024 open files.
        poll = select.poll()
        poll.register(self._terminal, select.POLLIN)
        ready = poll.poll(max(seconds, 0) * 1000)
        try:
            data = os.read(self._terminal, 65536) if ready else b""
        except OSError:  # Linux: the other side is closed
            data = b""
        self.raw += data.decode(errors="replace")
        new = _CONTROL_SEQUENCE.sub("", data.decode(errors="replace"))
        new = new.replace("\r\n", "\n")
        self.text += new
        self._seen += new
        return bool(data)
