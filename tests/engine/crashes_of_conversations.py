"""Crashes of conversations: threads and histories that are shortened."""

from __future__ import annotations

from typing import Any, ClassVar

from continuations import (
    Agent,
    Answer,
    Approve,
    Compaction,
    Finished,
    Outcome,
    Replied,
    Suspended,
    tool,
)
from continuations.engine.outcomes import SendResult
from continuations.errors import RunNotFound
from continuations.events import Compacted, MessageAdded
from continuations.threads import Thread, Ticket
from tests import effect_log
from tests.engine.compacted_agents import PADDING, steps, worker
from tests.engine.crash_scenario import Scenario
from tests.engine.thread_agents import CLERK_ASKS, support
from tests.outcomes import expect, present

# Threads -----------------------------------------------------------------------------


class _Conversation(Scenario):
    """A thread, whose messages are neither lost nor doubled."""

    more_than = 8

    def agents(self) -> Agent:
        return support()

    def thread(self) -> Thread[Any]:
        return self.process().thread(key="customer 42")

    def texts(self) -> list[str]:
        """Return what users and the agent said, without the calls of tools."""
        messages = self.thread().messages()
        said = [each for each in messages if each["role"] in ("user", "assistant")]
        return [str(each["content"]) for each in said if each["content"]]


def assert_replied(outcome: Outcome | SendResult[str], text: str) -> None:
    """Check the reply to a message."""
    assert isinstance(outcome, Replied)
    assert text == outcome.output


class FirstMessage(_Conversation):
    """A message with an id of its own is posted once, however often it is repeated."""

    more_than = 12
    step = 3
    own_id: ClassVar[str | None] = "m1"

    def dies(self) -> None:
        self.thread().send("one", id=self.own_id)

    def then(self) -> None:
        self.sweep()
        if self.own_id is not None or not self.thread().messages()[1:]:
            assert_replied(self.thread().send("one", id=self.own_id), "1: one")
        assert ["one", "1: one"] == self.texts()


class FirstMessageWithoutAnId(FirstMessage):
    """It is posted or not; if it is posted, a sweep answers it."""

    own_id = None


class NextMessage(_Conversation):
    """A worker dies while it answers; others' messages are answered by a sweep."""

    tickets: tuple[Ticket[Any], ...]

    def before(self) -> None:
        self.thread().send("one")
        self.tickets = self.thread().post("two"), self.thread().post("three")

    def dies(self) -> None:
        self.process().resume(self.tickets[0].run_id)

    def then(self) -> None:
        self.sweep()
        expected = ["one", "1: one", "two", "2: two", "three", "3: three"]
        assert expected == self.texts()
        for each, text in zip(self.tickets, ("2: two", "3: three"), strict=True):
            assert_replied(each.reply(), text)


class ReplyToOneSender(_Conversation):
    """The worker of one sender dies; it would have left the other message to others."""

    def before(self) -> None:
        self.thread().post("one")
        self.thread().post("two")

    def dies(self) -> None:
        self.thread().post("three", id="m3").reply()

    def then(self) -> None:
        self.sweep()
        assert_replied(self.thread().send("three", id="m3"), "3: three")
        expected = ["one", "1: one", "two", "2: two", "three", "3: three"]
        assert expected == self.texts()


class ApprovalInAThread(_Conversation):
    """The call of the agent below runs once, or its outcome is asked about."""

    message: ClassVar[str] = f"{CLERK_ASKS}rent"
    thread_id: str

    def before(self) -> None:
        held = expect(self.thread().send(self.message, by="ann"), Suspended)
        self.thread_id = held.run_id
        self.process().decide(held.waits[0].id, Approve(by="kim"))

    def dies(self) -> None:
        self.process().resume(self.thread_id)

    def then(self) -> None:
        self.sweep()
        for wait in self.process().open_waits():
            self.approve_unknown(wait, "paid rent")
        self.sweep()
        reply = self.process().resume(self.thread_id)
        assert_replied(reply, "done: done: paid rent")
        assert ["pay rent"] == self.effects()


class InterruptionOfAnUnknownCall(ApprovalInAThread):
    """A call that may have happened is decided first; then the message is read."""

    message = "pay rent"
    reaches = frozenset({"unknown"})

    def then(self) -> None:
        self.sweep()
        waits = self.process().open_waits()
        late = self.thread().post("stop", by="ann", when_busy="interrupt")
        for wait in waits:
            assert "unknown" == wait.kind
            self.reached.add("unknown")
            assert wait.id in [each.id for each in self.process().open_waits()]
            self.process().decide(wait.id, Answer("paid rent", by="kim"))
        assert_replied(late.reply(), "2: stop")
        assert len(self.effects()) <= 1


class Close(_Conversation):
    """The thread is closed, or it is open and can be closed again."""

    def before(self) -> None:
        self.thread().send("one")
        self.thread().post("two")

    def dies(self) -> None:
        self.thread().close()

    def then(self) -> None:
        self.sweep()
        self.thread().close()
        state = present(self.thread().look())
        assert "finished" == state.status
        assert ["one", "1: one", "two", "2: two"] == self.texts()


# Compactions -------------------------------------------------------------------------


@tool(read_only=True)
def step(number: int) -> str:
    """Make a step that may be repeated."""
    effect_log.append_effect("step", number)
    return f"step {number} done {PADDING}"


class Summaries(Scenario):
    """A stored summary is not asked for again; one that was lost is."""

    more_than = 15
    step = 3

    def agents(self) -> Agent:
        compaction = Compaction(soft=400, hard=900, keep_last=2)
        return worker(steps(6), tools=[step], compaction=compaction)

    def asked(self) -> int:
        """Return how many summaries were asked for."""
        return len(self.effects("step"))

    def stored(self, run_id: str) -> int:
        """Return how many compactions a run has; none if it does not exist."""
        try:
            events = [*self.process().events(run_id)]
        except RunNotFound:
            return 0
        return sum(isinstance(each, Compacted) for each in events)

    def dies(self) -> None:
        self.process().start("go", run_id=self.run_id)

    def then(self) -> None:
        """Start again, which finds the run or starts it."""
        asked, stored = self.asked(), self.stored(self.run_id)
        self.sweep()
        outcome = expect(self.process().start("go", run_id=self.run_id), Finished)
        assert "all 6 steps are done" == outcome.output
        assert asked - stored in (0, 1)
        assert self.asked() - asked == self.stored(self.run_id) - stored
        events = self.process().events(self.run_id)
        added = [each.message for each in events if isinstance(each, MessageAdded)]
        results = [each["tool_call_id"] for each in added if each["role"] == "tool"]
        assert [f"s{number}" for number in range(1, 7)] == results


class FailedSummaries(Summaries):
    """The history is whole, and the attempts are one more at most."""

    def agents(self) -> Agent:
        def summarize(messages: list[dict[str, Any]]) -> str:
            effect_log.append_effect("summary", len(messages))
            return ""

        compaction = Compaction(soft=400, hard=9000, keep_last=2, summarize=summarize)
        return worker(steps(5), tools=[step], compaction=compaction)

    def then(self) -> None:
        self.sweep()
        outcome = expect(self.process().start("go", run_id=self.run_id), Finished)
        assert 2 + 10 + 1 == len(outcome.continuation.root.messages)
        asked = self.asked()
        self.environment.clear_logs()
        self.process().start("go", run_id="undisturbed")
        assert asked - self.asked() in (0, 1)


class SummariesOfAThread(Summaries):
    """Old tickets have their replies, and the next message is answered once."""

    more_than = 8
    step = 2
    first: Ticket[Any]

    def agents(self) -> Agent:
        def reply(request: Any) -> str:
            if request.agent.endswith("/summary"):
                effect_log.append_effect("summary", 0)
                return "They talked."
            return f"You said {request.messages[-1].content}. " + "word " * 40

        compaction = Compaction(soft=120, hard=900, keep_last=2)
        return worker(reply, name="chat", tools=[], compaction=compaction)

    def thread(self) -> Thread[Any]:
        return self.process().thread("chat", key="k")

    def before(self) -> None:
        self.first = self.thread().post("one")
        self.first.reply()
        for text in ("two", "and two"):
            self.thread().send(text)

    def dies(self) -> None:
        self.thread().send("three", id="m3")

    def then(self) -> None:
        run_id = self.first.run_id
        asked, stored = self.asked(), self.stored(run_id)
        self.sweep()
        third, old = self.thread().send("three", id="m3"), self.first.reply()
        assert isinstance(third, Replied)
        assert third.output.startswith("You said three.")
        assert isinstance(old, Replied)
        assert old.output.startswith("You said one.")
        assert self.asked() - asked == self.stored(run_id) - stored
        assert self.stored(run_id)
