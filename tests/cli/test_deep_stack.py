"""show: a stack of a thousand agents has a line for every level."""

from __future__ import annotations

import json

from continuations import Runner
from tests.cli.command_line import CommandLine, wait_ids
from tests.cli.sample_agents import make_nested_agent


def test_a_thousand_levels_are_drawn(cli: CommandLine) -> None:
    # Given a stack of a thousand agents, the deepest of which waits
    agent = make_nested_agent(1000)
    runner = Runner(agent, store=cli.store)
    runner.start("go", run_id="deep")
    [wait] = runner.look("deep").waits

    # When it is shown
    shown = cli("show", "deep")
    report = json.loads(cli("show", "deep", "--json").out)

    # Then every level has a line, and the lines stay short
    assert (0, [wait.id]) == (shown.exit_code, wait_ids(shown))
    assert 999 == sum(' step {"input":' in line for line in shown.lines)
    assert any('[999] step {"input":"1"}' in line for line in shown.lines)
    assert any("[1000] pay" in line for line in shown.lines)
    assert max(map(len, shown.lines)) < 200
    assert 1000 == len(report["frames"])
    assert 0 == cli("show", wait.id).exit_code
    assert 0 == cli("approve", cli.single_wait_id()).exit_code
