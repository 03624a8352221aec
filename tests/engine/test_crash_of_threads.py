"""Threads survive a crash at every storage operation: no message is lost or doubled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from continuations import Answer, Approve, Replied, Runner, Suspended
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.crash_points import every_crash, remaining_keys
from tests.engine.thread_agents import CLERK_ASKS, support

if TYPE_CHECKING:
    from continuations.threads import Thread
    from continuations_storage import Store
    from tests.run_environment import RunEnvironment

KEY = "customer 42"


class Desk:
    """A store with a clock, and processes that share them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock.now)

    def process(self, store: Store | None = None) -> Runner:
        """Return the runner of a new process."""
        return Runner(support(), store=store or self.store, clock=self.clock)

    def thread(self, store: Store | None = None) -> Thread[Any]:
        """Return the thread in a new process."""
        return self.process(store).thread(key=KEY)

    def recover(self) -> None:
        """Let the claims of dead processes end, and sweep until nothing is due."""
        for _ in range(3):
            self.clock.seconds += 120
            assert {} == self.process().sweep().errors

    def finish(self) -> None:
        """Check that no marker is left, also after the longest delay."""
        self.clock.seconds += 3 * 86400
        self.recover()
        assert [] == remaining_keys(self.store)


def outputs(thread: Thread[Any]) -> list[str]:
    """Return what users and the agent said, without the calls of tools."""
    messages = thread.messages()
    said = [each for each in messages if each["role"] in ("user", "assistant")]
    return [str(each["content"]) for each in said if each["content"]]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("own_id", ["m1", None])
def test_first_message_survives_a_crash(moment: Any, own_id: str | None) -> None:
    """It is posted or not; with an id of its own a repeat never posts it twice."""
    for point in every_crash(moment, more_than=12, step=3):
        desk = Desk()
        with point.process(desk.store) as dying:
            desk.thread(dying).send("one", id=own_id)
        desk.recover()
        if own_id is not None or not desk.thread().messages()[1:]:
            reply = desk.thread().send("one", id=own_id)
            assert isinstance(reply, Replied)
            assert "1: one" == reply.output

        assert ["one", "1: one"] == outputs(desk.thread())
        desk.finish()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_next_message_survives_a_crash(moment: Any) -> None:
    """A worker dies while it answers; others' messages are answered by a sweep."""
    for point in every_crash(moment, more_than=8, step=2):
        desk = Desk()
        desk.thread().send("one")
        ticket = desk.thread().post("two")
        other = desk.thread().post("three")
        with point.process(desk.store) as dying:
            desk.process(dying).resume(ticket.run_id)
        desk.recover()

        expected = ["one", "1: one", "two", "2: two", "three", "3: three"]
        assert expected == outputs(desk.thread())
        for each, output in ((ticket, "2: two"), (other, "3: three")):
            reply = each.reply()
            assert isinstance(reply, Replied)
            assert output == reply.output
        desk.finish()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_reply_of_one_message_survives_a_crash(moment: Any) -> None:
    """The worker of one sender dies; it would have left the other message to others."""
    for point in every_crash(moment, more_than=8, step=2):
        desk = Desk()
        desk.thread().post("one")
        desk.thread().post("two")
        with point.process(desk.store) as dying:
            ticket = desk.thread(dying).post("three", id="m3")
            ticket.reply()
        desk.recover()

        reply = desk.thread().send("three", id="m3")
        assert isinstance(reply, Replied)
        assert "3: three" == reply.output
        expected = ["one", "1: one", "two", "2: two", "three", "3: three"]
        assert expected == outputs(desk.thread())
        desk.finish()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_approval_below_a_thread_survives_a_crash(
    environment: RunEnvironment, moment: Any
) -> None:
    """The call of the agent below runs once or its outcome is asked about."""
    for runs, point in enumerate(every_crash(moment, more_than=8, step=2), start=1):
        desk = Desk()
        held = desk.thread().send(f"{CLERK_ASKS}rent")
        assert isinstance(held, Suspended)
        desk.process().decide(held.waits[0].id, Approve(by="kim"))
        with point.process(desk.store) as dying:
            desk.process(dying).resume(held.run_id)
        desk.recover()
        for wait in desk.process().open_waits():
            assert "unknown" == wait.kind
            ran = len(environment.effect_names()) == runs
            verdict = Answer("paid rent", by="kim") if ran else Approve(by="kim")
            desk.process().decide(wait.id, verdict)
        desk.recover()

        reply = desk.process().resume(held.run_id)
        assert isinstance(reply, Replied)
        assert "done: done: paid rent" == reply.output
        assert runs == len(environment.effect_names())
        desk.finish()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_close_survives_a_crash(moment: Any) -> None:
    """The thread is closed, or it is open and can be closed again."""
    for point in every_crash(moment, more_than=8, step=2):
        desk = Desk()
        desk.thread().send("one")
        desk.thread().post("two")
        with point.process(desk.store) as dying:
            desk.thread(dying).close()
        desk.recover()
        desk.thread().close()

        state = desk.thread().look()
        assert state is not None
        assert "finished" == state.status
        assert ["one", "1: one", "two", "2: two"] == outputs(desk.thread())
        desk.finish()


def test_an_interruption_leaves_an_unknown_outcome_to_a_person(
    environment: RunEnvironment,
) -> None:
    """A call that may have happened is decided first; then the message is read."""
    asked = 0
    for point in every_crash("after", more_than=8, step=2):
        desk, paid = Desk(), len(environment.effect_names())
        held = desk.thread().send("pay rent", by="ann")
        assert isinstance(held, Suspended)
        desk.process().decide(held.waits[0].id, Approve(by="kim"))
        with point.process(desk.store) as dying:
            desk.process(dying).resume(held.run_id)
        desk.recover()
        unknown = [w for w in desk.process().open_waits() if w.kind == "unknown"]
        if not unknown:
            continue
        asked += 1
        late = desk.thread().post("stop", by="ann", when_busy="interrupt")
        assert unknown[0].id in [wait.id for wait in desk.process().open_waits()]
        desk.process().decide(unknown[0].id, Answer("paid rent", by="kim"))
        reply = late.reply()
        assert isinstance(reply, Replied)
        assert "2: stop" == reply.output
        assert len(environment.effect_names()) - paid <= 1
    assert asked
