"""A thread rests between messages; every sender gets the reply to its own message."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Budget,
    Deny,
    Failed,
    Finished,
    Grant,
    Identity,
    Outcome,
    Queued,
    Replied,
    Runner,
    Suspended,
    tool,
)
from continuations.engine.outcomes import SendResult
from continuations.errors import InvalidInput, NotFinished, StoreError, ThreadClosed
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.threads import Thread
from continuations_storage import Denied, MemoryStore
from continuations_storage.faults import ForwardingStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import should_pause_after, text_tool
from tests.engine.thread_agents import CLERK_ASKS, support
from tests.outcomes import expect, present, single_wait
from tests.run_environment import RunEnvironment


def make_runner(**options: Any) -> Runner:
    """Return a runner of the support agent on a store of its own."""
    clock = ManualClock()
    return Runner(support(**options), store=MemoryStore(clock.now), clock=clock)


@pytest.fixture
def runner() -> Runner:
    return make_runner()


@pytest.fixture
def thread(runner: Runner) -> Thread[Any]:
    """Return a thread without messages."""
    return runner.thread(key="customer 42")


def output(result: Outcome | SendResult) -> Any:
    assert isinstance(result, Replied)
    return result.output


def test_a_conversation_goes_on_after_each_reply(
    runner: Runner, thread: Thread[Any]
) -> None:
    """Another handle on the same agent and key is the same thread."""
    first = thread.send("Hello", by="ann")
    second = runner.thread("support", key="customer 42").send("And now?")

    assert "1: Hello" == output(first)
    assert "2: And now?" == output(second)
    roles = [message["role"] for message in thread.messages()]
    assert ["system", "user", "assistant", "user", "assistant"] == roles
    state = present(thread.look())
    assert ("resting", ()) == (state.status, state.waits)


def test_other_keys_and_agents_are_other_threads(runner: Runner) -> None:
    """Also keys that are equal once they are joined."""
    for key in ("a", "A", "a b", "a-b", "\u00e9", "e\u0301", "x" * 500):
        assert "1: Hello" == output(runner.thread(key=key).send("Hello"))


def test_a_thread_without_messages_is_not_stored(
    runner: Runner, thread: Thread[Any]
) -> None:
    """Nothing is stored by `thread`, `messages`, `look` or `close`."""
    assert [] == thread.messages()
    assert thread.look() is None
    thread.close()
    assert [] == list(runner.runs())


def test_idle_threads_appear_in_no_list_of_waits(runner: Runner) -> None:
    """They are listed as live runs that rest, and no sweep looks at them."""
    for number in range(30):
        runner.thread(key=f"{number}").send("Hello")

    assert [] == list(runner.waiting())
    assert [] == list(runner.open_waits())
    assert 30 == len(list(runner.runs(status="resting")))
    assert 0 == runner.sweep().runs_checked


def test_a_repeat_with_the_same_id_gets_the_same_reply(thread: Thread[Any]) -> None:
    """The agent reads the message once; another text under the id is refused."""
    first = thread.send("Hello", by="ann", id="m1")
    thread.send("More", id="m2")
    again = thread.send("Hello", by="ann", id="m1")

    assert output(first) == output(again) == "1: Hello"
    assert 2 == len(effect_log.turns())
    with pytest.raises(InvalidInput, match="another text or sender"):
        thread.send("Hallo", by="ann", id="m1")
    with pytest.raises(InvalidInput, match="another text or sender"):
        thread.send("Hello", by="bob", id="m1")


def test_tickets_have_the_replies_to_their_own_messages(thread: Thread[Any]) -> None:
    """In whatever order they are asked, and also later."""
    tickets = [thread.post(text) for text in ("one", "two", "three")]

    assert "3: three" == output(tickets[2].reply())
    assert "1: one" == output(tickets[0].reply())
    assert "2: two" == output(tickets[1].reply())
    for _ in range(20):
        thread.send("more")
    assert "2: two" == output(tickets[1].reply())


def test_a_worker_stops_after_the_reply_that_it_was_asked_for(
    environment: RunEnvironment, runner: Runner, thread: Thread[Any]
) -> None:
    """The messages of others are due, and a sweep answers them."""
    mine = thread.post("mine")
    others = [thread.post(f"other {number}") for number in range(2)]

    assert "1: mine" == output(mine.reply())
    assert 1 == len(environment.turns())
    [swept] = runner.sweep().resumed
    assert "3: other 1" == output(swept)
    assert 3 == len(environment.turns())
    assert "2: other 0" == output(others[0].reply())
    assert 0 == runner.sweep().runs_checked


def test_an_approval_holds_the_thread_and_later_messages_queue(
    runner: Runner, thread: Thread[Any]
) -> None:
    """`Queued` tells nothing about the wait of the other sender."""
    held = expect(thread.send("pay rent", by="ann"), Suspended)
    [wait] = held.waits
    assert "ann" == wait.requester
    queued = thread.send("What else?", by="bob")
    assert queued == Queued(run_id=held.run_id, number=2)
    assert ("queued", None, ()) == (queued.status, queued.output, queued.waits)
    with pytest.raises(NotFinished, match="message 2 of run"):
        queued.result()
    assert [] == effect_log.names()

    runner.decide(wait.id, Approve(by="kim"))
    assert {} == runner.sweep().errors
    replies = [message["content"] for message in thread.messages()]
    assert "done: paid rent" in replies
    assert "2: What else?" in replies
    assert ["pay rent"] == effect_log.names()


def test_a_sub_agent_waits_below_a_thread(runner: Runner, thread: Thread[Any]) -> None:
    """The thread rests again once the agent below has returned."""
    ticket = thread.post(f"{CLERK_ASKS}rent", by="ann")
    wait = single_wait(ticket.reply())
    assert (("support", "clerk", "pay"), "ann") == (wait.path, wait.requester)
    runner.decide(wait.id, Approve(by="kim"))

    assert "done: done: paid rent" == output(ticket.reply())
    assert ["pay rent"] == effect_log.names()
    state = present(thread.look())
    assert 1 == len(state.run_state.frames)


def test_a_denied_call_does_not_run_and_the_thread_goes_on(
    runner: Runner, thread: Thread[Any]
) -> None:
    """The denial is a tool result like that of a run."""
    ticket = thread.post("pay rent")
    runner.decide(single_wait(ticket.reply()).id, Deny(by="kim", reason="too dear"))

    assert "too dear" in output(ticket.reply())
    assert "2: Sorry" == output(thread.send("Sorry"))
    assert [] == effect_log.names()


def test_an_error_of_a_turn_is_the_reply_to_its_message() -> None:
    """The next message is answered; the limits count for each message."""
    runner = make_runner(max_turns=1)
    thread = runner.thread(key="k")
    assert "1: one" == output(thread.send("one"))
    failed = expect(thread.send("note it"), Failed)
    assert "max_turns" == failed.error.code
    assert "resting" == failed.continuation.status
    assert "3: three" == output(thread.send("three"))
    late = thread.post("four")
    assert "4: four" == output(late.reply())


def test_a_budget_limits_each_message() -> None:
    """A message that uses it up fails, and the next one has a whole budget."""
    thread = make_runner().thread(key="k", budget=Budget(requests=1))
    failed = expect(thread.send("note it"), Failed)
    assert "budget" == failed.error.code
    for number in (2, 3):
        assert f"{number}: x" == output(thread.send("x"))


def test_cancelling_the_run_ends_the_thread(
    runner: Runner, thread: Thread[Any]
) -> None:
    """No call runs afterwards, and messages without a reply are closed out."""
    held = thread.send(f"{CLERK_ASKS}rent")
    late = thread.post("late")
    assert isinstance(held, Suspended)
    assert "cancelled" == runner.cancel(held.run_id, reason="Enough.").status

    with pytest.raises(ThreadClosed, match="was closed before"):
        late.reply()
    assert "1: again" == output(thread.send("again"))
    assert [] == effect_log.names()


def test_close_ends_the_thread_and_the_next_message_opens_it_anew(
    runner: Runner, thread: Thread[Any]
) -> None:
    """Messages before the close get their replies, and can be read later."""
    first = thread.send("one")
    waiting = thread.post("two")
    thread.close(by="ann")

    assert "2: two" == output(waiting.reply())
    state = present(thread.look())
    assert "finished" == state.status
    assert isinstance(runner.resume(state.run_id), Finished)
    thread.close()  # a second time changes nothing
    again = thread.send("three")
    assert "1: three" == output(again)
    assert isinstance(first, Replied)
    assert isinstance(again, Replied)
    assert first.run_id.removesuffix("-1") == again.run_id.removesuffix("-2")


def test_an_adopted_thread_is_a_run(runner: Runner, thread: Thread[Any]) -> None:
    """It goes on after the approval, and finishes with the reply."""
    held = expect(thread.send("pay rent", by="ann"), Suspended)
    adopted = runner.adopt(held.continuation, run_id="copy", by="lee")
    assert isinstance(adopted, Suspended)
    assert ["lee"] == [wait.requester for wait in adopted.waits]
    runner.decide(adopted.waits[0].id, Approve(by="kim"))
    end = expect(runner.resume("copy"), Finished)

    assert ("finished", "done: paid rent") == (end.continuation.status, end.output)
    assert ["pay rent"] == effect_log.names()


def test_a_thread_that_rests_is_not_adopted(
    runner: Runner, thread: Thread[Any]
) -> None:
    """Nothing is paused in it."""
    reply = expect(thread.send("one"), Replied)
    with pytest.raises(InvalidInput, match="nothing is paused"):
        runner.adopt(reply.continuation, run_id="copy")


def test_many_generations_are_found(thread: Thread[Any]) -> None:
    """The search is by doubling, then by halving."""
    for number in range(1, 12):
        result = expect(thread.send("Hello"), Replied)
        assert result.run_id.endswith(f"-{number}")
        thread.close()


def test_a_message_behind_a_close_has_no_reply(
    runner: Runner, thread: Thread[Any]
) -> None:
    """Message and close take numbers one after the other; exactly one is next."""
    held = expect(thread.send("pay rent"), Suspended)
    thread.close()
    late = thread.post("late")
    assert isinstance(late.reply(), Queued)
    runner.decide(held.waits[0].id, Approve(by="kim"))
    runner.resume(held.run_id)

    with pytest.raises(ThreadClosed, match="Send it again"):
        late.reply()
    assert "1: late" == output(thread.send("late"))


def test_merged_messages_have_one_reply(runner: Runner, thread: Thread[Any]) -> None:
    """Only messages of one sender are merged, and only if the sender allows it."""
    held = thread.post("pay rent", by="ann")
    assert isinstance(held.reply(), Suspended)
    merged = thread.post("and be quick", by="ann", when_busy="merge")
    other = thread.post("me too", by="bob", when_busy="merge")
    [wait] = runner.open_waits()
    runner.decide(wait.id, Approve(by="kim"))

    assert "2: and be quick" == output(held.reply())
    assert "2: and be quick" == output(merged.reply())
    assert "3: me too" == output(other.reply())
    assert ["pay rent"] == effect_log.names()


def test_an_interruption_cancels_what_has_not_begun(
    runner: Runner, thread: Thread[Any]
) -> None:
    """Also an approved call; the agent reads that, and one reply answers both."""
    first = thread.post(f"{CLERK_ASKS}rent", by="ann")
    runner.decide(single_wait(first.reply()).id, Approve(by="kim"))
    second = thread.send("No, stop!", by="ann", when_busy="interrupt")

    assert "2: No, stop!" == output(second)
    assert "2: No, stop!" == output(first.reply())
    assert [] == effect_log.names()
    told = [m["content"] for m in thread.messages() if m["role"] == "tool"]
    assert ["The user sent another message." in text for text in told] == [True]
    assert [] == list(runner.waiting())


def test_another_sender_does_not_interrupt(runner: Runner, thread: Thread[Any]) -> None:
    """Their message has its own reply, after the call of the other one."""
    first = thread.post("pay rent", by="ann")
    held = expect(first.reply(), Suspended)
    assert isinstance(thread.send("No, stop!", by="bob", when_busy="interrupt"), Queued)
    runner.decide(held.waits[0].id, Approve(by="kim"))
    runner.sweep()

    assert "done: paid rent" == output(first.reply())
    assert ["pay rent"] == effect_log.names()


def test_an_interruption_of_a_thread_that_rests_is_a_message(
    thread: Thread[Any],
) -> None:
    """There is nothing to interrupt."""
    thread.send("one", by="ann")
    assert "2: two" == output(thread.send("two", by="ann", when_busy="interrupt"))


def test_a_stopped_turn_rests_and_its_calls_never_run(
    runner: Runner, thread: Thread[Any]
) -> None:
    """The reply is `Failed` with code `stopped`, and the next message is answered."""
    first = thread.post(f"{CLERK_ASKS}rent", by="ann")
    assert isinstance(first.reply(), Suspended)
    queued = thread.post("Next", by="bob")
    thread.stop_turn(by="ann", reason="Wrong flat.")

    stopped = expect(first.reply(), Failed)
    assert ("stopped", "resting") == (stopped.error.code, stopped.continuation.status)
    assert "Wrong flat." in stopped.error.message
    assert "2: Next" == output(queued.reply())
    assert [] == effect_log.names()
    assert [] == list(runner.waiting())
    thread.stop_turn()  # it rests: nothing to stop
    assert "3: More" == output(thread.send("More"))


def test_an_invalid_reason_stops_nothing(runner: Runner, thread: Thread[Any]) -> None:
    """The error is raised, and the call waits as before."""
    assert isinstance(thread.send("pay rent", by="ann"), Suspended)
    reason: Any = 5
    with pytest.raises(InvalidInput, match="reason must be"):
        thread.stop_turn(reason=reason)
    assert 1 == len(list(runner.waiting()))


def test_a_queued_message_is_answered_after_a_stop_by_a_sweep(
    runner: Runner, thread: Thread[Any]
) -> None:
    """No process waits for its reply."""
    assert isinstance(thread.send("pay rent", by="ann"), Suspended)
    thread.post("Next", by="bob")
    thread.stop_turn()
    [swept] = runner.sweep().resumed

    assert "2: Next" == output(swept)
    assert [] == effect_log.names()
    assert 0 == runner.sweep().runs_checked


def test_a_stopped_thread_costs_one_look_of_a_sweep(
    runner: Runner, thread: Thread[Any]
) -> None:
    """No message stands behind the turn, so the marker of its release goes."""
    assert isinstance(thread.send("pay rent", by="ann"), Suspended)
    thread.stop_turn()

    assert [1, 0] == [runner.sweep().runs_checked for _ in range(2)]


def test_a_cancelled_thread_keeps_the_replies_before(
    runner: Runner, thread: Thread[Any]
) -> None:
    """The cancellation is no reply: it came after the last one."""
    ticket = thread.post("one")
    reply = expect(ticket.reply(), Replied)
    runner.cancel(reply.run_id, reason="enough")

    assert "1: one" == output(ticket.reply())


def test_a_pause_survives_the_end_of_a_turn(
    runner: Runner, thread: Thread[Any]
) -> None:
    """Only `unpause` ends it: the next message waits."""
    held = expect(thread.send("pay rent", by="ann"), Suspended)
    runner.pause(held.run_id, reason="audit")
    thread.stop_turn()
    paused = expect(thread.send("note it", by="ann"), Suspended)

    assert ("audit",) == paused.reasons
    assert [] == effect_log.names()
    runner.unpause(held.run_id)
    assert {} == runner.sweep().errors
    assert ["note it"] == effect_log.names()


def test_a_repeat_may_interrupt_with_the_message_that_was_queued(
    runner: Runner, thread: Thread[Any]
) -> None:
    """The thread reads the message, although it was posted with `queue`."""
    assert isinstance(thread.send("pay rent", by="ann"), Suspended)
    assert isinstance(thread.send("two", by="ann", id="m2"), Queued)
    reply = thread.send("two", by="ann", id="m2", when_busy="interrupt")

    assert "2: two" == output(reply)
    assert [] == effect_log.names()
    assert 0 == len(list(runner.waiting()))


def test_a_stop_during_the_last_reply_counts(clock: ManualClock) -> None:
    """The sender gets `Failed`; the text of the reply stays in the conversation."""
    store = MemoryStore(clock.now)

    async def reply(_: ModelRequest) -> str:
        other = AsyncRunner(support(), store=store, clock=clock)
        await other.thread(key="k").stop_turn()
        return "too late"

    agent = Agent("support", model=ScriptedModel(reply))
    stopped = Runner(agent, store=store, clock=clock).thread(key="k").send("one")

    assert isinstance(stopped, Failed)
    assert "stopped" == stopped.error.code
    assert "too late" == stopped.continuation.root.messages[-1]["content"]


def test_a_revoked_grant_covers_no_call_of_a_thread(
    runner: Runner, thread: Thread[Any]
) -> None:
    """Also if it is revoked before a worker applied the approval that gave it."""
    held = expect(thread.send("pay rent", by="ann"), Suspended)
    runner.decide(held.waits[0].id, Approve(by="kim", remember=Grant("pay")))
    [grant] = runner.grants(held.run_id)
    runner.revoke(held.run_id, grant.id)
    assert {} == runner.sweep().errors
    assert isinstance(thread.send("pay rent again", by="ann"), Suspended)

    assert ["pay rent"] == effect_log.names()


def test_the_requester_is_the_sender_of_the_message(runner: Runner) -> None:
    """So no person approves their own request, in a thread of many."""
    thread = runner.thread(key="k")
    for sender in (None, "ann", Identity(name="bob")):
        ticket = thread.post("pay rent", by=sender)
        held = expect(ticket.reply(), Suspended)
        name = sender.name if isinstance(sender, Identity) else sender
        assert name == held.waits[0].requester
        runner.decide(held.waits[0].id, Deny(by="kim"))
        output(ticket.reply())


@pytest.mark.parametrize("steps", range(6))
def test_a_stopping_process_leaves_the_reply_to_a_sweep(
    runner: Runner, thread: Thread[Any], steps: int
) -> None:
    """Wherever `should_pause` ends the work, the tool runs once."""
    ticket = thread.post("note it")
    left = ticket.reply(should_pause=should_pause_after(steps))
    assert isinstance(left, Suspended | Queued)
    assert left.paused
    [swept] = runner.sweep().resumed

    assert "done: noted it" == output(swept) == output(ticket.reply())
    assert ["note it"] == effect_log.names()


def test_instructions_are_made_with_each_message() -> None:
    """A function gets the text and the context."""

    def greet(text: str, context: str) -> str:
        return f"{context}: {text}"

    runner = make_runner(instructions=greet)
    thread = runner.thread(key="k")
    thread.send("Hello", context="EN")
    thread.send("More", context="DE")

    systems = [m["content"] for m in thread.messages() if m["role"] == "system"]
    assert ["EN: Hello", "DE: More"] == systems


def test_usage_of_a_reply_is_that_of_its_message(thread: Thread[Any]) -> None:
    """The continuation has the usage of the whole thread."""
    thread.send("one")
    reply = expect(thread.send("note it"), Replied)
    assert (2, 3) == (reply.usage.requests, reply.continuation.usage.requests)


def test_a_pause_holds_a_thread_until_unpause(
    runner: Runner, thread: Thread[Any]
) -> None:
    """A message that comes meanwhile is answered afterwards."""
    first = expect(thread.send("one"), Replied)
    runner.pause(first.run_id, reason="audit")
    held = expect(thread.send("two"), Suspended)
    assert ("audit",) == held.reasons
    runner.unpause(first.run_id)
    [swept] = runner.sweep().resumed
    assert "2: two" == output(swept)


def test_labels_and_title_describe_the_run_of_a_thread(runner: Runner) -> None:
    """They are those of the call that made the thread."""
    runner.thread(key="k", labels={"team": "care"}, title="Parcel").send("Hello")
    [summary] = runner.runs(label="team=care")
    assert ("Parcel", {"team": "care"}) == (summary.title, summary.labels)


def test_erased_thread_is_not_opened_again(runner: Runner, thread: Thread[Any]) -> None:
    """The generation keeps its number, and the next message begins a new one."""
    reply = expect(thread.send("one"), Replied)
    thread.close()
    runner.erase(reply.run_id)
    again = thread.send("two")
    assert "1: two" == output(again)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": ""}, "key must be a text"),
        ({"key": "x" * 501}, "key must be a text"),
        ({"key": "k", "agent": "nobody"}, "is not a root agent"),
        ({"key": "k", "budget": 5}, "budget must be"),
    ],
)
def test_invalid_threads_are_refused(
    runner: Runner, arguments: Any, message: str
) -> None:
    """Nothing is stored."""
    with pytest.raises(InvalidInput, match=message):
        runner.thread(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"text": ""}, "text must be"),
        ({"text": "x", "id": ""}, "id must be a text"),
        ({"text": "x", "when_busy": "later"}, "when_busy must be one of"),
        ({"text": "x", "by": 5}, "by must be"),
    ],
)
def test_invalid_messages_are_refused(
    runner: Runner, thread: Thread[Any], arguments: Any, message: str
) -> None:
    """Nothing is stored."""
    with pytest.raises(InvalidInput, match=message):
        thread.send(**arguments)
    assert [] == list(runner.runs())


def test_a_reply_that_a_decision_ends_is_stored_before_the_next_message_is_read() -> (
    None
):
    """Else its sender would get an empty reply: the next turn clears the old one."""
    fire = text_tool(
        "fire", "{who}", {"who": str}, approval=ApprovalPolicy(on_denied="stop")
    )
    model = ScriptedModel([ToolCall("fire", {"who": "Jane"}), "Hello!"])
    runner = Runner(Agent("hr", tools=[fire], model=model), store=MemoryStore())
    thread = runner.thread(key="k")
    first = thread.post("Fire Jane.", by="ann")
    held = expect(first.reply(), Suspended)
    second = thread.post("Hello?", by="bob")
    runner.decide(held.waits[0].id, Deny(by="kim"))

    assert "Hello!" == output(second.reply())
    failed = expect(first.reply(), Failed)
    assert "denied" == failed.error.code


def test_a_repeat_may_list_the_messages_before_others_post(clock: ManualClock) -> None:
    """Then its first number is larger than the listing said, and nothing is damaged."""
    store = MemoryStore(clock.now)
    thread = Runner(support(), store=store, clock=clock).thread(key="k")
    thread.send("one")

    class Slow(ForwardingStore):
        """Others post between the listing of messages and the next create."""

        posted = False

        async def create(self, key: str, body: bytes) -> datetime | None:
            if "/in/i-" in key and not self.posted:
                self.posted = True
                others = AsyncRunner(support(), store=store, clock=clock)
                await others.thread(key="k").post("two")
                await others.thread(key="k").post("mine", id="m")
            return await super().create(key, body)

    late = Runner(support(), store=Slow(store), clock=clock).thread(key="k")
    assert "3: mine" == output(late.send("mine", id="m"))


def test_a_message_whose_workers_died_asks_for_a_new_id(clock: ManualClock) -> None:
    """The same id gives the same reply: so the sender needs a new one."""
    dies = [True]

    class DyingStore(ForwardingStore):
        async def create(self, key: str, body: bytes) -> datetime | None:
            if dies[0] and "/v/" in key and key.endswith("6"):
                raise Denied(key, "the process has died")
            return await super().create(key, body)

    store = DyingStore(MemoryStore(clock.now))
    runner = Runner(support(), store=store, clock=clock, max_attempts=1)
    thread = runner.thread(key="k")
    with pytest.raises(StoreError):
        thread.send("Hello", id="m1")
    clock.seconds += 3600
    dies[0] = False

    result = expect(thread.send("Hello", id="m1"), Failed)

    assert "attempts" == result.error.code
    assert "then send it again under a new id." in result.error.message
    assert "2: Hello" == output(thread.send("Hello", id="m2"))


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_merged_message_is_read_before_the_next_request(idempotent: bool) -> None:
    """A correction comes before further calls; messages of others wait."""
    seen: list[list[str]] = []

    def reply_of_model(request: ModelRequest) -> Any:
        messages = [message.data for message in request.messages]
        seen.append([f"{each['role']}: {each.get('content')}" for each in messages])
        calls = sum(each["role"] == "tool" for each in messages)
        last = messages[-1]
        corrected = any("Stop" in str(each["content"]) for each in messages)
        if last["role"] == "user" and str(last["content"]) == "me too":
            return "Bob's reply"
        if corrected or calls == 3:
            return f"{calls} notes"
        return ToolCall("note_down", {"what": str(calls)})

    posts: list[Any] = []
    notes: Thread[Any]

    @tool(idempotent=idempotent)
    def note_down(what: str) -> str:
        if what == "0":
            posts.append(notes.post("Stop", by="ann", when_busy="merge"))
            posts.append(notes.post("now.", by="ann", when_busy="merge"))
            posts.append(notes.post("me too", by="bob"))
        return what

    agent = Agent("noter", tools=[note_down], model=ScriptedModel(reply_of_model))
    clock = ManualClock()
    store = MemoryStore(clock.now)
    notes = Runner(agent, store=store, clock=clock).thread(key="k")

    assert "1 notes" == output(notes.send("Take notes.", by="ann"))
    assert ["user: Stop", "user: now."] == seen[1][-2:]
    assert 2 == len(seen)
    assert "1 notes" == output(posts[0].reply())
    assert "1 notes" == output(posts[1].reply())
    assert "Bob's reply" == output(posts[2].reply())
