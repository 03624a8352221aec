"""Counters, waits, evidence and threads are the same with a shortened history."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    Compaction,
    Deny,
    Failed,
    Finished,
    Outcome,
    Replied,
    Runner,
    Suspended,
    tool,
)
from continuations.events import Compacted, MessageAdded
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.threads import Thread, Ticket
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.compacted_agents import PADDING, last_step, pay, step, steps, worker
from tests.engine.test_compaction import empty_summary, short_summary
from tests.engine.test_thread_cost import CountingStore
from tests.outcomes import expect
from tests.stores import OneByOneStore

pytestmark = pytest.mark.usefixtures("environment")

TEXTS = tuple(f"message {number}" for number in range(8))


def approved(runner: Runner, outcome: Outcome) -> Outcome:
    """Approve what waits, and go on."""
    assert isinstance(outcome, Suspended)
    for wait in outcome.waits:
        runner.decide(wait.id, Approve(by="kim"))
    return runner.resume("r")


def test_approval_after_a_compaction_runs_with_its_edit() -> None:
    """The call is found by our ids, wherever its message stands."""
    runner = Runner(worker(steps(8, ("pay", {"cents": 5}))), store=MemoryStore())
    outcome = expect(runner.start("go", run_id="r"), Suspended)

    wait = outcome.waits[0]
    runner.decide(wait.id, Approve(by="kim", arguments={"cents": 4}))
    ended = expect(runner.resume("r"), Finished)

    assert "pay 4" in effect_log.names()
    results = [
        str(each["content"])
        for each in ended.continuation.root.messages
        if each["role"] == "tool"
    ]
    assert "changed its arguments" in results[-1]


def test_evidence_begins_behind_the_summary() -> None:
    """It shows the newest results of the task, and never the words of a summary."""

    @tool(approval=True, summary="Pay {cents}")
    def settle(cents: int) -> str:
        """Settle."""
        return f"settled {cents}"

    agent = worker(steps(8, ("settle", {"cents": 5})), tools=[step, settle])
    runner = Runner(agent, store=MemoryStore())
    outcome = expect(runner.start("go", run_id="r"), Suspended)

    found = outcome.waits[0].evidence

    assert found
    assert {"step"} == {each.source for each in found}
    assert found[-1].text.startswith("step 8 done")


def test_wrong_outputs_are_counted_over_a_compaction() -> None:
    """The model is asked again as often as without one."""

    def script(request: ModelRequest) -> Any:
        done = last_step(request.messages)
        wrong = done in (1, 9)
        retried = any(
            f"after {done}" in str(each.data.get("content"))
            for each in request.messages
        )
        if wrong and not retried:
            return f"no number after {done}"
        if done < 9:
            return ToolCall("step", {"number": done + 1}, id=f"s{done + 1}")
        return "still no number"

    def agent(compaction: Compaction | None) -> Agent:
        return worker(script, compaction=compaction, output_type=int, output_retries=1)

    shortens = Compaction(soft=800, hard=1600, keep_last=4, summarize=_last_step)
    ends: list[tuple[str, int]] = []
    for compaction in (None, shortens):
        runner = Runner(agent(compaction), store=MemoryStore())
        outcome = expect(runner.start("go", run_id="r"), Failed)
        ends.append((outcome.error.code, outcome.continuation.root.turns))

    assert ends[0] == ends[1]
    assert any(isinstance(each, Compacted) for each in runner.events("r"))
    texts = [str(each["content"]) for each in outcome.continuation.root.messages]
    asked = [text for text in texts if text.startswith("Your last reply cannot")]
    assert 1 == len(asked)


def _last_step(messages: list[dict[str, Any]]) -> str:
    """Return a summary with the last step of the replaced messages."""
    found = [str(each["content"]) for each in messages if each["role"] == "tool"]
    return found[-1].removesuffix(PADDING) if found else "nothing"


def test_denials_are_counted_over_a_compaction() -> None:
    """The third denial of one call ends the agent, also if a summary has the first."""

    def script(request: ModelRequest) -> Any:
        if request.agent.endswith("/summary"):
            return "Payments were denied."
        return [ToolCall("pay", {"cents": 5}), ToolCall("step", {"number": 1})]

    compaction = Compaction(soft=250, hard=2000, keep_last=2)
    agent = worker(script, compaction=compaction)
    runner = Runner(agent, store=MemoryStore())
    outcome: Outcome = runner.start("go", run_id="r")
    for _ in range(3):
        assert isinstance(outcome, Suspended)
        runner.decide(outcome.waits[0].id, Deny(by="kim", reason="no " + PADDING))
        outcome = runner.resume("r")

    assert isinstance(outcome, Failed)
    assert "max_denials" == outcome.error.code


def chat(store: Any, clock: ManualClock | None = None, **options: Any) -> Runner:
    """Return the runner of a chat whose history is soon shortened."""

    def reply(request: ModelRequest) -> Any:
        text = request.messages[-1].content
        if text.startswith("pay"):
            return ToolCall("pay", {"cents": 5})
        return f"You said {text[:20]}. " + "word " * 40

    options.setdefault("summarize", short_summary)
    values: dict[str, Any] = {"soft": 300, "hard": 900, "keep_last": 2, **options}
    compaction = Compaction(**values)
    model = ScriptedModel(reply)
    agent = Agent("chat", tools=[pay], model=model, compaction=compaction)
    return Runner(agent, store=store, clock=clock)


def talk(thread: Thread[Any]) -> list[Ticket[Any]]:
    """Send all texts, and return the tickets."""
    tickets: list[Ticket[Any]] = []
    for text in TEXTS:
        tickets.append(thread.post(text))
        assert isinstance(tickets[-1].reply(), Replied)
    return tickets


def test_old_tickets_of_a_thread_keep_their_replies() -> None:
    runner = chat(MemoryStore())
    thread = runner.thread("chat", key="k")
    tickets = talk(thread)

    assert len(thread.messages()) < 2 * len(TEXTS)
    for text, ticket in zip(TEXTS, tickets, strict=True):
        reply = expect(ticket.reply(), Replied)
        assert reply.output.startswith(f"You said {text}.")
    events = [*runner.events(tickets[0].run_id)]
    said = [each.message for each in events if isinstance(each, MessageAdded)]
    asked = [each["content"] for each in said if each["role"] == "user"]
    assert list(TEXTS) == asked
    assert sum(isinstance(each, Compacted) for each in events) >= 2


def test_reply_above_hard_is_failed_and_the_thread_goes_on(store: MemoryStore) -> None:
    """The next message has its reply once a summary succeeds."""
    broken = chat(store, summarize=empty_summary, hard=400)
    thread = broken.thread("chat", key="k")
    replies = [thread.send(text) for text in TEXTS]

    failed = [each for each in replies if isinstance(each, Failed)]
    assert failed
    assert {"compaction"} == {each.error.code for each in failed}
    assert "more than hard=400" in failed[0].error.message

    again = chat(store, hard=400).thread("chat", key="k").send("and now?")
    assert isinstance(again, Replied)
    assert again.output.startswith("You said and now?")


def test_approval_in_a_shortened_thread() -> None:
    """A message that waits has its reply after the decision, and one payment."""
    runner = chat(MemoryStore())
    thread = runner.thread("chat", key="k")
    talk(thread)

    held = thread.post("pay 5")
    waiting = expect(held.reply(), Suspended)
    runner.decide(waiting.waits[0].id, Approve(by="kim"))

    assert isinstance(held.reply(), Replied)
    assert ["pay 5"] == effect_log.names()


def test_message_costs_the_same_requests_after_compactions() -> None:
    """Creates and listings do not grow; a compaction is one version more."""
    store = CountingStore()
    runner = chat(store, ManualClock())
    thread = runner.thread("chat", key="k")
    costs: list[tuple[bool, int, int]] = []
    seen = 0
    for number in range(40):
        store.reset()
        reply = expect(thread.send(f"message {number}"), Replied)
        cost = (store.requests["create"], store.requests["keys"])
        events = runner.events(reply.run_id)
        shortened = sum(isinstance(each, Compacted) for each in events)
        costs.append((shortened > seen, *cost))
        seen = shortened

    usual = {cost[1:] for cost in costs[10:] if not cost[0]}
    with_summary = {cost[1:] for cost in costs[10:] if cost[0]}
    assert 1 == len(usual)
    (creates, listings) = usual.pop()
    assert {(creates + 1, listings)} == with_summary


def test_bytes_of_a_long_run_are_bounded() -> None:
    """300 turns with a compaction in each tenth or so: about 2 kB a turn."""
    compaction = Compaction(
        soft=2500, hard=9000, keep_last=4, summarize=_last_step, shorten_results=None
    )
    store = _SizeStore()
    agent = worker(steps(300), compaction=compaction, max_turns=None)

    assert isinstance(Runner(agent, store=store).start("go", run_id="r"), Finished)

    # 12 MB for 5,000 turns are 2,400 bytes for a turn.
    assert store.written < 300 * 2400


class _SizeStore(OneByOneStore):
    """A store that adds up the bytes that are written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    async def create(self, key: str, body: bytes) -> Any:
        self.written += len(body)
        return await super().create(key, body)
