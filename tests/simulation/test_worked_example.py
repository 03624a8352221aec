"""The commands in tests/README.md print what the page shows."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from tests.docs.replay import ROOT, matches
from tests.simulation.mutants.registry import MUTANTS
from tests.simulation.simulate import main

if TYPE_CHECKING:
    import pytest

PAGE = ROOT / "tests" / "README.md"
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
    """The page describes all folders."""
    text = PAGE.read_text(encoding="utf-8")
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}

    assert [] == [name for name in sorted(folders) if f"`{name}`" not in text]
    assert f"holds {len(MUTANTS)} bugs" in text
