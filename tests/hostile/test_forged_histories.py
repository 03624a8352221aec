"""Forged numbers of a history: nothing runs because of them, and no call is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from continuations import Agent, Approve, Compaction, Runner, tool
from continuations.core.messages import find_violation
from continuations.core.rows.frames import HistoryRecord
from continuations.errors import CompactionFailed, FormatError
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.wire.versions import decode_version, encode_version
from tests.hostile.editable_store import EditableStore
from tests.outcomes import single_wait

LARGE = 2**63 - 1


class Site:
    """A run that waits for an approval, whose history was shortened."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.summaries = 0
        self.store = EditableStore()

        @tool(approval=True)
        def pay(cents: int) -> str:
            """Pay an amount."""
            self.paid.append(cents)
            return "paid"

        @tool(read_only=True)
        def read(number: int) -> str:
            """Read a page."""
            return f"page {number} " + "word " * 60

        compaction = Compaction(
            soft=400, hard=5000, keep_last=2, summarize=self._summarize
        )
        agent = Agent(
            "boss",
            instructions="Work.",
            tools=[pay, read],
            model=ScriptedModel(self._reply),
            compaction=compaction,
        )
        self.requests: list[ModelRequest] = []
        self.turns = 0
        self.runner = Runner(agent, store=self.store)
        wait = single_wait(self.runner.start("go", run_id="r1"))
        assert self.summaries
        self.wait = wait

    def _summarize(self, messages: list[dict[str, Any]]) -> str:
        self.summaries += 1
        return f"{len(messages)} messages"

    def _reply(self, request: ModelRequest) -> Any:
        self.requests.append(request)
        self.turns += 1
        if self.turns <= 7:
            return ToolCall("read", {"number": self.turns}, id=f"r{self.turns}")
        return ToolCall("pay", {"cents": 5}) if not self.paid else "end"

    def forge(self, history: HistoryRecord | None) -> str:
        """Store other numbers in the newest version; return its key."""
        keys = sorted(key for key in self.store.bodies if key.startswith("runs/r1/v/"))
        base = decode_version(self.store.bodies[keys[-1]], keys[-1]).delta.run
        version = decode_version(self.store.bodies[keys[0]], keys[0], base)
        frames = tuple(replace(row, history=history) for row in version.delta.frames)
        assert frames
        body = encode_version(version.header, replace(version.delta, frames=frames))
        self.store.replace_body(keys[0], body)
        return keys[0]


@pytest.mark.parametrize(
    "history",
    [
        HistoryRecord(tokens=5, counted=99),
        HistoryRecord(summary_number=99),
        HistoryRecord(tokens=5, counted=LARGE),
    ],
)
def test_counts_of_missing_messages_are_refused_by_the_key(
    history: HistoryRecord,
) -> None:
    site = Site()
    key = site.forge(history)
    before = site.store.bodies

    with pytest.raises(FormatError, match=key):
        site.runner.resume("r1")

    assert before == site.store.bodies
    assert [] == site.paid


@pytest.mark.parametrize(
    "history",
    [
        None,
        HistoryRecord(),
        HistoryRecord(tokens=1, counted=1, attempt_above=LARGE),
        HistoryRecord(tokens=600, counted=2, summary_number=1),
        HistoryRecord(tokens=600, counted=2, summary_number=4, replaced=LARGE),
        HistoryRecord(tokens_before=LARGE, replaced=LARGE),
    ],
)
def test_other_counts_cost_a_summary_at_most(history: HistoryRecord | None) -> None:
    """The call that was approved runs once, and each request is valid."""
    site = Site()
    site.forge(history)
    made = site.summaries
    site.runner.decide(site.wait.id, Approve(by="kim"))

    outcome = site.runner.resume("r1")

    assert "finished" == outcome.continuation.status
    assert [5] == site.paid
    assert site.summaries <= made + 1
    assert all(find_violation(each.messages) is None for each in site.requests)
    assert [*site.runner.events("r1")]


def test_absurd_count_of_tokens_ends_the_turn() -> None:
    """No request is sent, and the run is not lost."""
    site = Site()
    site.forge(HistoryRecord(tokens=LARGE, counted=2))
    site.runner.decide(site.wait.id, Approve(by="kim"))
    asked = len(site.requests)

    with pytest.raises(CompactionFailed):
        site.runner.resume("r1")

    assert asked == len(site.requests)
    assert [5] == site.paid
    assert "suspended" == site.runner.look("r1").status
