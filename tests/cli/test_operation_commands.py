"""Commands of operations: a row is a command, with the parameters of its method."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest
from typer.main import get_command

from continuations import AsyncRunner
from continuations.cli import operation_commands
from continuations.cli.program import COMMANDS, program
from continuations.serve.operations import OPERATIONS, Operation
from tests.cli.command_line import RUNNERS, CommandLine

ROWS = [each for each in OPERATIONS if each.command]
COMMON = {"by", "json", "app", "store"}
SHOW_RUN = next(each for each in OPERATIONS if each.id == "showRun")
AUDIT = next(each for each in OPERATIONS if each.id == "auditRun")


@pytest.fixture
def with_row(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give the command line one more row."""
    functions = dict(operation_commands.COMMANDS)
    places = dict(COMMANDS)
    monkeypatch.setattr("continuations.cli.operation_commands.COMMANDS", functions)
    monkeypatch.setattr("continuations.cli.program.COMMANDS", places)

    def add(operation: Operation) -> None:
        # Built by the same function as all others.
        functions[operation.command] = operation_commands.command_of(operation)
        places[operation.command] = "operation_commands"

    return add


@pytest.mark.parametrize("operation", ROWS, ids=lambda each: each.command)
def test_command_of_a_row_has_the_parameters_of_its_method(
    operation: Operation,
) -> None:
    root: Any = get_command(program())
    parameters = {each.name for each in root.commands[operation.command].params}
    called = getattr(AsyncRunner, operation.call or operation.id)
    method = inspect.signature(called).parameters

    assert {"app", "json", "store"} <= parameters
    assert ("by" in method) == ("by" in parameters)
    assert method.keys() - {"self", "door", "connection"} <= parameters
    assert parameters - method.keys() <= {*COMMON, "file"}


def test_row_without_a_text_function_prints_the_members_of_its_form(
    cli: CommandLine, with_row: Any
) -> None:
    """Nothing but the row is written for such a command."""
    with_row(SHOW_RUN._replace(command="look"))
    cli.start(f"{RUNNERS}:runner")

    shown = cli("look", "j1")
    form = json.loads(cli("look", "j1", "--json", "--version", "1").out)

    assert (0, "") == (shown.exit_code, shown.err)
    assert 'run_id: "j1"' in shown.lines
    assert 1 == form["version"]
    assert 2 == cli("look", "j1", "--version", "first").exit_code


def test_help_of_a_row_has_the_words_of_the_method(
    cli: CommandLine, with_row: Any
) -> None:
    with_row(SHOW_RUN._replace(command="look"))
    with_row(AUDIT._replace(command="who"))

    look, who = (" ".join(cli(name, "--help").out.split()) for name in ("look", "who"))

    assert "Show a run. Needs no agent code." in look
    assert "Number of a version, by default the newest." in look
    assert "--past / --no-past" in who


def test_each_row_with_a_command_has_a_place_in_the_help() -> None:
    """A command that the table of the program does not name could not be called."""
    generated = {name for name, module in COMMANDS.items() if "operation" in module}
    assert generated == operation_commands.COMMANDS.keys()
