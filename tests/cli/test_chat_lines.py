"""The lines of a conversation in a terminal name the agent that has it."""

from __future__ import annotations

from continuations.cli.event_lines import EventLines
from continuations_storage import MemoryStore
from tests.engine.handoff_agents import Shop


def test_lines_name_the_agent_that_answers() -> None:
    shop, store = Shop(), MemoryStore()
    runner = shop.runner(store)
    thread = runner.thread("triage", key="k")
    for text in ("hello", "a refund", "back"):
        waiting = thread.send(text)
        for wait in waiting.waits:
            runner.cancel(waiting.run_id, call=wait.call_id)
            runner.resume(waiting.run_id)
    lines = EventLines("triage")

    shown = [
        f"{line.prefix}{line.text}"
        for event in runner.events(waiting.run_id)
        for line in lines.lines(event)
    ]

    assert [
        "user: hello",
        "triage: triage: hello",
        "user: a refund",
        "  · transfer_to_refunds: The agent refunds has the conversation now.",
        "  · triage: hands over to refunds",
    ] == shown[:5]
    back = shown.index("user: back")
    assert shown[back - 1].startswith("refunds: refunds: ")
    assert [
        "  · transfer_to_triage: The agent triage has the conversation now.",
        "  · refunds: hands over to triage",
        "triage: triage: The agent triage has the conversation now.",
    ] == shown[back + 1 :]
