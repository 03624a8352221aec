"""Shells that close streams, fill disks or send bytes that are no text."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.command_line import ROOT, CommandLine


def in_shell(
    cli: CommandLine, command: str, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a line of a shell in which `$C` is the command line."""
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=cli.folder,
        capture_output=True,
        check=False,
        timeout=60,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "C": f"{sys.executable} -m continuations",
            **environment,
        },
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("$C rewind j1 --version 1 <&-", 0),
        ("$C erase j1 <&-", 2),
        ("$C runs >&-", 0),
        ("$C runs >&- 2>&- <&-", 0),
        ("$C chat boss --key a <&-", 2),
        ("$C show j1 | head -1", 0),
    ],
)
def test_closed_stream_is_no_traceback(
    cli: CommandLine, command: str, code: int
) -> None:
    cli.runner.start("go", run_id="j1")

    done = in_shell(cli, command)

    assert (code, False) == (done.returncode, b"Traceback" in done.stderr), done.stderr


def test_full_disk_is_one_line(cli: CommandLine) -> None:
    cli.runner.start("go", run_id="j1")

    done = in_shell(cli, "$C history j1 --json > /dev/full")

    assert b"Error: the output was not written: No space" in done.stderr
    assert b"Traceback" not in done.stderr


def test_bytes_that_are_no_text_are_not_sent(cli: CommandLine) -> None:
    cli.runner.start("go", run_id="j1")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    ascii_only = in_shell(cli, "$C send j1 Zoë", **plain)
    no_text = in_shell(cli, r"$C send j1 $(printf '\377')", PYTHONUTF8="1")
    sent = in_shell(cli, "$C send j1 Zoë", LC_ALL="C.UTF-8")

    for refused in (ascii_only, no_text):
        assert 2 == refused.returncode
        assert b"is not text in the encoding" in refused.stderr
    assert (0, True) == (sent.returncode, b"message 1" in sent.stdout), sent.stderr


def test_wrong_folder_is_named(cli: CommandLine) -> None:
    found = cli("runs", "--store", "file:nope")

    assert (5, "") == (found.exit_code, found.out)
    assert "nope cannot be read: it does not exist. Correct the" in found.err
