"""Options of the command mcp; tests/interop serves real clients with it."""

from __future__ import annotations

import sys

import pytest

from tests.cli.command_line import CommandLine

VERIFIER = "verify_written:verify"
HTTP = ("--http", "0", "--verify", VERIFIER)
APPLICATION = """
from continuations import Agent, Runner
from continuations.models.scripted import ScriptedModel

runner = Runner(Agent("bank", model=ScriptedModel([])), store="file:runs")


def verify(request):
    return None
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--http", "8000"), "--http and --verify belong together"),
        (("--verify", VERIFIER), "--http and --verify belong together"),
        (HTTP, "CONTINUATIONS_SECRET is missing"),
        (("--can", "nowhere_written:f"), "--can: cannot load"),
    ],
)
def test_invalid_option_is_a_usage_error(
    cli: CommandLine,
    options: tuple[str, ...],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CONTINUATIONS_SECRET", raising=False)
    cli.write_file("verify_written.py", APPLICATION)

    done = cli("mcp", "--app", "verify_written:runner", *options)

    assert (2, "") == (done.exit_code, done.out)
    assert expected in done.err


def test_missing_package_is_named(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "continuations.interop.mcp", None)
    cli.write_file("bank_written.py", APPLICATION)

    done = cli("mcp", "--app", "bank_written:runner")

    assert (2, "") == (done.exit_code, done.out)
    assert "Traceback" not in done.err
