"""Completion for bash, zsh and fish, generated from the commands."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from typer.main import get_command

from continuations.cli.program import program
from tests.cli.command_line import RUNNERS, CommandLine

# Completes the words that it gets, and prints one suggestion per line.
COMPLETE = """
continuations() { printf '%s\\n' approval-1@r1 unknown-2@r1; }
COMP_WORDS=(continuations "$@"); COMP_CWORD=$#
_continuations; printf '%s\\n' "${COMPREPLY[@]}"
"""


def suggestions(cli: CommandLine, *words: str) -> list[str]:
    """Return what bash suggests for the last word."""
    script = cli("completion", "bash").out + COMPLETE
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", *words],  # noqa: S607 - found on PATH
        capture_output=True,
        text=True,
        check=True,
    )
    assert "" == done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_names_every_command_and_option(cli: CommandLine, shell: str) -> None:
    root: Any = get_command(program())
    script = cli("completion", shell)

    assert (0, "") == (script.exit_code, script.err)
    for name, command in root.commands.items():
        assert name in script.out
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--"):
                    written = option[2:] if shell == "fish" else option
                    assert written in script.out, (name, option)


def test_bash_completes_commands_options_and_wait_ids(cli: CommandLine) -> None:
    found = ["show", "send", "signal", "signals", "sweep", "serve"]
    assert found == suggestions(cli, "s")[1:]
    assert ["--context"] == suggestions(cli, "resume", "j1", "--co")
    assert ["unknown-2@r1"] == suggestions(cli, "approve", "u")
    assert ["zsh"] == suggestions(cli, "completion", "z")
    assert [] == suggestions(cli, "start", "x")


def test_unknown_shell_is_a_usage_error(cli: CommandLine) -> None:
    assert 2 == cli("completion", "powershell").exit_code


def test_completion_loads_no_application(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A press of Tab starts no process but the one that lists waits."""
    monkeypatch.setenv("CONTINUATIONS_APP", f"{RUNNERS}:no_such_name")

    assert 0 == cli("completion", "zsh").exit_code
