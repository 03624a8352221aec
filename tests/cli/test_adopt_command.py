"""adopt: a paused agent of a file becomes a run of the store."""

from __future__ import annotations

import json

import pytest

from continuations import Finished, run
from tests import effect_log
from tests.cli.command_line import CommandLine
from tests.cli.sample_agents import make_boss
from tests.interop import snaplogic_files as files

DESK = ("--as", "snaplogic", "--app", "tests.interop.snaplogic_files:desk")


def test_bytes_become_a_run_without_the_application(cli: CommandLine) -> None:
    file = cli.folder / "run.bytes"
    file.write_bytes(run(make_boss(), "go").continuation.to_bytes())

    first = cli("adopt", str(file), "--run-id", "j1", "--by", "ann")
    second = cli("adopt", str(file), "--run-id", "j1", "--by", "ann")

    assert (0, first.out) == (second.exit_code, second.out)
    assert "run: j1" in first.lines
    assert "ann" == next(cli.runner.runs()).requester
    assert 0 == cli("approve", cli.single_wait_id()).exit_code
    assert isinstance(cli.runner.resume("j1"), Finished)


def test_file_of_the_prototype_waits_until_its_decisions_are_asked_for(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = cli.folder / "effects"
    monkeypatch.setenv(effect_log.EFFECTS_VARIABLE, str(log))
    file = cli.folder / "jane.json"
    file.write_text(json.dumps(files.nested(approved=(False, True))))
    adopt = ("adopt", str(file), *DESK, "--run-id", "j1")

    assert 0 == cli(*adopt).exit_code
    assert 2 == len(cli("waiting", "--ids").lines)
    approved = cli(*adopt, "--decisions", "--approved-by", "kim")

    assert 1 == approved.err.count("approved: ")
    audit = [json.loads(line) for line in cli("audit", "j1").lines]
    assert ["kim"] == [line["by"] for line in audit if line["verdict"] == "approve"]
    assert 0 == cli("resume", "j1", "--app", DESK[-1]).exit_code
    assert ["LX 9"] == [line["what"] for line in effect_log.read_lines(log)]
    cli("deny", cli.single_wait_id())
    end = cli("resume", "j1", "--app", DESK[-1], "--json")
    assert "desk done" == json.loads(end.out)["output"]
    # A repeat after the end decides nothing.
    assert 0 == cli(*adopt, "--decisions").exit_code


def test_completed_file_is_refused(cli: CommandLine) -> None:
    file = cli.folder / "ended.json"
    file.write_text(json.dumps(files.completed()))

    refused = cli("adopt", str(file), *DESK)

    assert (5, "") == (refused.exit_code, refused.out)
    assert "nothing is paused in the file" in refused.err
    assert [] == cli("waiting", "--ids").lines


def test_wrong_options_name_what_is_missing(cli: CommandLine) -> None:
    assert "--as snaplogic" in cli("adopt", "x", "--decisions").err
    assert "--as snaplogic" in cli("adopt", "x", "--agent", "desk").err
    assert "--app is missing" in cli("adopt", "x", "--as", "snaplogic").err
    assert "FILE cannot be read: x" in cli("adopt", "x").err
