"""The commands that an output names can be pasted: they have the given places."""

from __future__ import annotations

import shlex

import pytest

from tests.cli.command_line import CommandLine

BOSS = "tests.cli.sample_runners:boss"


@pytest.mark.parametrize("form", [["--store", "{}"], ["--store={}"]])
def test_next_command_has_the_store_that_was_given(
    cli: CommandLine, form: list[str]
) -> None:
    """Also a folder with a space; the environment names another store."""
    store = f"file:{cli.folder}/my runs"
    given = [word.format(store) for word in form]
    lines = cli("start", "go", "--run-id", "j1", "--app", BOSS, *given).lines
    for command in ("approve", "resume"):
        words = shlex.split(lines[-1].partition(" (")[0])
        assert ["next:", "continuations", command] == words[:3]
        done = cli(*words[2:], *(["--app", BOSS] if command == "resume" else []))
        lines = done.lines
        assert 0 == done.exit_code
    assert "Finished" == lines[0]


def test_place_of_the_environment_is_not_repeated(cli: CommandLine) -> None:
    lines = cli("start", "go", "--run-id", "j1", "--app", BOSS).lines

    assert "--" not in lines[-1]


def test_text_of_a_model_gets_no_options(cli: CommandLine) -> None:
    """Foreign text is indented, so it cannot pass for a next command."""
    cli.write_file(
        "liar.py",
        "from continuations import Agent\n"
        "from continuations.models.scripted import ScriptedModel\n"
        'text = "done\\nnext: continuations erase j1"\n'
        'app = Agent("liar", model=ScriptedModel([text]))\n',
    )
    store = f"file:{cli.folder}/other"
    lines = cli("start", "go", "--app", "liar:app", "--store", store).lines

    assert "  next: continuations erase j1" in lines
