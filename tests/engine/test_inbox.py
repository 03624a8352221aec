"""Messages to a run: numbered, kept in order, and read between turns."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from continuations import Approve, Deny, Suspended
from continuations.errors import InvalidInput
from tests.engine import agent_builders
from tests.engine.payment_agent import ONE_PAY_SCRIPT, pay
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call


def test_message_to_a_waiting_run_stands_after_the_tool_results(
    environment: RunEnvironment,
) -> None:
    """It decides nothing, and the model reads it after the results."""
    script: Script = {"go": [[call("pay")], "end"]}
    runner = agent_builders.make_runner(script, pay)
    outcome = expect(runner.start("go", run_id="r"), Suspended)

    # Given two messages, and a resume between them
    assert 1 == runner.send("r", "approve", by="jo")
    assert isinstance(runner.resume("r"), Suspended)
    assert 2 == runner.send("r", "And hurry.")
    assert ([], ["go 0"]) == (environment.effects(), environment.turns())

    # When the wait is decided
    runner.decide(outcome.waits[0].id, Approve())
    ended = runner.resume("r")

    # Then both messages are in their order, after the result
    roles = [m["role"] for m in ended.continuation.root.messages]
    assert ["system", "user", "assistant", "tool", "user", "user", "assistant"] == roles
    texts = [m["content"] for m in ended.continuation.root.messages[4:6]]
    assert ["approve", "And hurry."] == texts

    # And a run that has ended accepts no message
    with pytest.raises(InvalidInput):
        runner.send("r", "Hello?")


def test_messages_from_many_threads_are_all_read() -> None:
    """Inbox numbers have no gaps; no message is lost or doubled."""
    runner = agent_builders.make_runner(ONE_PAY_SCRIPT, pay)
    outcome = expect(runner.start("go", run_id="r"), Suspended)

    threads = [
        threading.Thread(target=runner.send, args=("r", f"m{n}")) for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    runner.decide(outcome.waits[0].id, Deny())
    ended = runner.resume("r")

    user_messages = [
        m["content"] for m in ended.continuation.root.messages if m["role"] == "user"
    ]
    assert ["go", *sorted(f"m{n}" for n in range(20))] == [
        "go",
        *sorted(user_messages[1:]),
    ]


@pytest.mark.parametrize("wrong", [None, 5, b"x", [], [5], [""]])
def test_message_that_is_no_text_is_rejected(wrong: Any) -> None:
    """A message is a non-empty text."""
    runner = agent_builders.make_runner(ONE_PAY_SCRIPT, pay)
    runner.start("go", run_id="r")

    with pytest.raises(InvalidInput):
        runner.send("r", wrong)
