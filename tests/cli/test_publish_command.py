"""`continuations publish`: what a person reads, and what the runs get."""

from __future__ import annotations

from continuations import Finished, Runner, Suspended
from continuations.cli.formatting import outcome_lines
from tests.cli.command_line import CommandLine
from tests.engine.agent_builders import make_boss
from tests.engine.test_publish import ONE, make_price


def test_publish_names_the_runs_whose_waits_it_ended(cli: CommandLine) -> None:
    """The runs go on at the next sweep; the door of the decision is the command."""
    agent = make_boss(ONE, make_price())
    waiting = Runner(agent, store=cli.runner.store)
    for run_id in ("j1", "j2"):
        assert isinstance(waiting.start("go", run_id=run_id), Suspended)

    shown = cli("publish", "price", "--key", "tea", "--data", "7", "--by", "shop")

    assert shown.lines[0].endswith("it ended waits of 2 runs")
    assert ["  j1", "  j2", "next: continuations sweep"] == shown.lines[1:]
    assert isinstance(waiting.resume("j1"), Finished)
    [line] = cli.runner.audit("j1")
    assert ("cli", "shop") == (line.door, line.by)


def test_next_step_of_a_wait_for_an_event_names_signal(cli: CommandLine) -> None:
    waiting = Runner(make_boss(ONE, make_price()), store=cli.runner.store)
    *_, last = outcome_lines(waiting.start("go", run_id="j1"))
    assert last == "  or: continuations signal j1 NAME --data VALUE"


def test_publish_without_a_waiting_run(cli: CommandLine) -> None:
    """The event is kept for waits that are opened later."""
    shown = cli("publish", "price")
    assert shown.out.endswith("is published; it ended waits of 0 runs\n")


def test_publish_refuses_a_value_that_is_no_json(cli: CommandLine) -> None:
    """The advice says how to write a text."""
    shown = cli("publish", "price", "--data", "dear")
    assert 2 == shown.exit_code
    assert "--data" in shown.err
