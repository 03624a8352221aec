"""The bytes of a run of 5,000 turns whose history is shortened each 50 turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.counting_store import CountingStore
from benchmarks.result_row import Row
from benchmarks.sample_text import sample_text
from continuations import Agent, Compaction, Finished, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.models.interface import ModelRequest

_TURNS, _TURNS_BETWEEN = 5_000, 50
_GOAL_MB = 12.0
_RESULT_CHARS, _SUMMARY_CHARS = 250, 1500
_KEPT = 20


def rows() -> Iterator[Row]:
    """Measure the bytes of all versions; results are about 40 words of English."""
    text = sample_text(1, _RESULT_CHARS * _TURNS)
    made = {"turns": 0, "summaries": 0}

    @tool(read_only=True)
    def look(number: int) -> str:
        """Look an order up."""
        start = (number - 1) * _RESULT_CHARS
        return text[start : start + _RESULT_CHARS]

    def reply(request: ModelRequest) -> str | ToolCall:
        del request
        made["turns"] += 1
        number = made["turns"]
        if number > _TURNS:
            return "done"
        return ToolCall("look", {"number": number}, id=f"c{number}")

    def summarize(messages: list[dict[str, Any]]) -> str:
        del messages
        start = made["summaries"] * _SUMMARY_CHARS
        made["summaries"] += 1
        return text[start : start + _SUMMARY_CHARS]

    # A turn adds two messages; the task and the summary stand before the recent ones.
    compaction = Compaction(
        soft=_KEPT + 2 + 2 * _TURNS_BETWEEN - 1,
        hard=1_000_000,
        keep_last=_KEPT,
        summarize=summarize,
        count_tokens=len,
        shorten_results=None,
    )
    agent = Agent(
        "clerk",
        tools=[look],
        model=ScriptedModel(reply),
        max_turns=None,
        compaction=compaction,
    )
    store = CountingStore()
    outcome = Runner(agent, store=store).start("Look all orders up.", run_id="r")
    if not isinstance(outcome, Finished):
        raise TypeError(outcome)
    yield Row(
        what=f"{_TURNS:,} turns, shortened {made['summaries']} times: bytes stored",
        ours=store.stored_bytes / 1e6,
        compared_with="the goal",
        theirs=_GOAL_MB,
        unit="MB",
        max_ratio=1.0,
    )
