"""The help of a command is in the docstring of its function, option by option."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Annotated, Any, get_args

import pytest
from typer.main import get_command

from continuations.cli.command import (
    CommandFunction,
    Words,
    described,
    help_and_words,
    option,
    words_of,
)
from continuations.cli.options import Limits
from continuations.cli.program import COMMANDS, program
from tests.cli.command_line import CommandLine

FUNCTIONS = sorted({*COMMANDS.values()} - {"operation_commands", "completion"})


def test_words_of_a_section_have_a_metavar_and_a_text() -> None:
    found = words_of(
        """
    event_id (ID): Your id of the event: a repeat
        changes nothing.
    text ([INPUT]): The task.
    due: Only what is due.
    """
    )

    repeat = "Your id of the event: a repeat changes nothing."
    assert found == {
        "event_id": Words("ID", repeat),
        "text": Words("[INPUT]", "The task."),
        "due": Words(None, "Only what is due."),
    }


def test_section_is_not_part_of_the_help() -> None:
    def run() -> None:
        """Do it.

        More words.

        Arguments and options:
            one (N): A number.
        """

    assert help_and_words(run.__doc__) == (
        "Do it.\n\nMore words.",
        "    one (N): A number.",
    )


def test_type_of_a_parameter_has_its_names_and_limits() -> None:
    parameter = option("limit", Annotated[int, "--most", "-n", Limits(1, 9)], 5)

    changed = described(parameter, {"limit": Words("N", "How many.")})

    kind, info = get_args(changed.annotation)
    # In an annotation, the first name stands where a default value would.
    assert ("--most", "-n") == (info.default, *info.param_decls)
    assert (int, 1, 9) == (kind, info.min, info.max)
    assert ("N", "How many.") == (info.metavar, info.help)


def test_each_argument_and_option_has_words() -> None:
    root: Any = get_command(program())
    silent = [
        (name, each.name)
        for name, command in root.commands.items()
        for each in command.params
        if not each.help
    ]
    assert [] == silent


def test_command_works_without_docstrings(cli: CommandLine) -> None:
    """`python -OO` removes the help, and no option; no words are those of another."""
    optimized = ("-OO", "-m", "continuations")

    shown = cli.run_in_process("signal", "j1", "paid", "--id", "s1", program=optimized)
    posted = cli.run_in_process(
        *("post", "support", "hello", "--key", "k", "--id", "m1"), program=optimized
    )

    helped = cli.run_in_process("runs", "--help", program=optimized)

    assert "Usage" not in shown.err
    assert "--agent" in helped.out
    assert "root agent" not in helped.out
    assert (0, "") == (posted.exit_code, posted.err)


@pytest.mark.parametrize("module", FUNCTIONS)
def test_docstring_describes_only_parameters_of_the_function(module: str) -> None:
    """A typing error in a name would leave words out of the help."""
    loaded = vars(import_module(f"continuations.cli.{module}"))
    for name in (each for each in COMMANDS if COMMANDS[each] == module):
        command = loaded[name]
        assert isinstance(command, CommandFunction)
        function = command.run
        _, section = help_and_words(function.__doc__)
        assert words_of(section).keys() <= inspect.signature(function).parameters.keys()
