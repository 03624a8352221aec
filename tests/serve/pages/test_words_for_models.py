"""Events and the console do not change with the texts that models read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from continuations import Agent, Answer, Approve, Deny, Runner, tool
from continuations.core.changes import tool_messages
from continuations.core.reading.withheld_texts import shown_event
from continuations.engine.event_reading import read_window
from continuations.events import Attempt, CallEnded
from continuations.ledger.objects import Objects
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.pages.log_entries import run_log
from continuations.serve.pages.run_tree import RunRows
from continuations_storage import MemoryStore
from tests.clocks import ManualClock


@tool
def note(text: str) -> str:
    """Save a note."""
    return text


@tool
def broken() -> str:
    """Do nothing."""
    raise RuntimeError


@tool(approval=True)
def transfer(cents: int) -> str:
    """Send money."""
    return str(cents)


def run_with_every_end() -> tuple[MemoryStore, ManualClock]:
    """Return the store of a run whose calls end in many ways."""
    asked = [ToolCall("transfer", {"cents": cents}) for cents in (1, 2, 3)]
    calls = [ToolCall("note", {"text": "ERROR: not one"}), ToolCall("broken", {})]
    specialist = Agent(
        "helper", description="Helps.", model=ScriptedModel(["ERROR: done"])
    )
    script: list[Any] = [
        [ToolCall("nothing", {}), *calls, *asked],
        ToolCall("helper", {"input": "go"}),
        ToolCall("transfer", {"cents": 4}),
    ]
    store, clock = MemoryStore(), ManualClock()
    tools: list[Any] = [note, broken, transfer, specialist]
    agent = Agent("clerk", tools=tools, model=ScriptedModel(script))
    runner = Runner(agent, store=store, clock=clock)
    runner.start("go", run_id="j1")
    decisions: list[Deny | Answer | Approve] = [
        Deny(by="lee"),
        Answer("done", by="kim"),
        Approve(by="kim"),
    ]
    asking = [runner.wait(each.id) for each in runner.waiting()]
    waits = sorted(asking, key=lambda wait: str(wait.arguments))
    for wait, decision in zip(waits, decisions, strict=True):
        runner.decide(wait.id, decision)
    runner.resume("j1")
    runner.cancel("j1", by="kim")
    return store, clock


def shown() -> dict[str, Any]:
    """Return what events, the table and the log say about the ends of the calls."""
    store, clock = run_with_every_end()
    window = asyncio.run(read_window(Objects(store), "j1"))
    rows = RunRows.of_window(window, clock.now())
    states = rows.states(window)
    ends = [
        each
        for version in window.versions
        for each in version.events
        if isinstance(each, CallEnded)
    ]
    return {
        # Calls of one turn run side by side, and end in any order.
        "kinds": sorted(
            (type(event).__name__, event.path)
            for version in window.versions
            for event in version.events
            if not isinstance(event, Attempt)
        ),
        "ends": sorted((each.tool, str(each.end)) for each in ends),
        "withheld": sorted(str(shown_event(each, "states").result) for each in ends),
        "states": [(row.name, states[row.key].words) for row in rows.rows],
        "log": sorted(
            (entry.last.line.icon, entry.last.line.tone, entry.last.line.name)
            for entry in run_log(window).entries
        ),
    }


def test_words_of_tool_messages_change_neither_events_nor_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each text begins with other words, and one with the words of another end."""
    expected = shown()
    original = tool_messages.tool_message_text
    beginnings = {"note": "DENIED: ", "broken": "CANCELLED "}

    def translated(row: Any, denial_count: int = 0) -> str:
        beginning = beginnings.get(row.tool, "Zurück: ")
        return beginning + original(row, denial_count)

    monkeypatch.setattr(tool_messages, "tool_message_text", translated)

    assert expected == shown()
    ends = {end for _, end in expected["ends"]}
    assert {"invalid", "returned", "error", "denied", "answered", "cancelled"} == ends
    assert "ERROR: [not shown]" in expected["withheld"]
