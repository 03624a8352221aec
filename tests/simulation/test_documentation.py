"""The pages about the simulation are true: commands, laws, numbers."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.docs.replay import ROOT, matches
from tests.simulation.families import SEEDS_PER_FAMILY
from tests.simulation.laws import LAWS
from tests.simulation.mutants.registry import MUTANTS
from tests.simulation.mutants.seeds import SEEDS
from tests.simulation.simulate import main

PAGE = ROOT / "tests" / "README.md"
GUARANTEES = ROOT / "docs" / "guarantees.md"
COMMAND = "python -m tests.simulation.simulate "


def test_commands_of_the_page_print_the_shown_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A reader who types the commands sees the same lines."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n\$ (.*)\n((?s:.*?))^```", text, re.MULTILINE)

    assert 3 == len(blocks)
    for command, expected in blocks:
        assert command.startswith(COMMAND)
        code = main(shlex.split(command.removeprefix(COMMAND)))
        printed = capsys.readouterr().out
        assert matches(printed, expected.strip()), printed
        assert code == ("breaks" in expected)


def test_page_names_every_folder_and_the_number_of_mutants() -> None:
    text = PAGE.read_text(encoding="utf-8")
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}

    assert [] == [name for name in sorted(folders) if f"`{name}`" not in text]
    assert f"holds {len(MUTANTS)} bugs" in text


def test_page_names_every_law_and_no_other() -> None:
    """A law that was renamed is renamed on the page too."""
    text = PAGE.read_text(encoding="utf-8")
    table = text.split("| laws of | |\n")[1].split("\n\n")[0]

    assert set(LAWS) == set(re.findall(r"`([a-z_]+)`", table))


def test_pages_name_the_number_of_mutants_and_their_seeds() -> None:
    """The numbers are those of the registry."""
    text = PAGE.read_text(encoding="utf-8")
    [stated] = re.findall(r"among the first ([\d,]+) of their family", text)
    largest = max(seed % SEEDS_PER_FAMILY for seed, _ in SEEDS.values())

    assert largest < int(stated.replace(",", ""))
    assert f"So {len(MUTANTS)} *mutants*" in GUARANTEES.read_text(encoding="utf-8")


def test_each_rule_of_workflows_names_tests_that_exist() -> None:
    table = PAGE.read_text(encoding="utf-8").split("## The rules of workflows")[1]
    folder = PAGE.parent / "engine" / "workflows"
    code = "".join(path.read_text() for path in folder.glob("test_*.py"))

    named = set(re.findall(r"`(test_[a-z_]+)`", table))

    assert set() == named - set(re.findall(r"def (test_[a-z_]+)", code))
