"""An operator pauses a run, unpauses it, and cancels one call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Continuation,
    Deny,
    Failed,
    Finished,
    Runner,
    Suspended,
    tool,
)
from continuations.engine.requests.run_requests import RunRequests
from continuations.errors import (
    AlreadyDecided,
    Cancelled,
    DecisionRefused,
    InvalidInput,
)
from continuations.models.scripted import ScriptedModel
from continuations_storage import MemoryStore, Store
from tests import scripts
from tests.clocks import ManualClock
from tests.engine.agent_builders import (
    make_boss,
    make_runner,
    root_tool_results,
    text_tool,
)
from tests.outcomes import expect, single_wait
from tests.scripts import NextLine, Script, call


def operator(store: Store) -> Runner:
    return Runner([], store=store)


def elsewhere(command: Coroutine[Any, Any, object]) -> None:
    """Run a command in an event loop of its own, while a model of this one works."""
    thread = threading.Thread(target=asyncio.run, args=(command,))
    thread.start()
    thread.join()


def keys(store: Store, prefix: str) -> list[str]:
    return list(asyncio.run(store.keys(prefix)))


class Payments:
    """A tool that needs an approval, and one that does something to its own run."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.paid: list[str] = []
        self.script: Script = {"go": [[call("pay", what="x")], "end"]}

    def runner(self, **options: Any) -> Runner:
        pay = text_tool(
            "pay", "paid {what}", {"what": str}, into=self.paid, approval=True
        )
        return make_runner(self.script, pay, store=self.store, **options)


# Pause ------------------------------------------------------------------------------


def test_paused_run_begins_nothing_until_it_is_unpaused() -> None:
    """A decision is recorded while the run is paused, and counts after `unpause`."""
    app = Payments()
    wait = single_wait(app.runner().start("go", run_id="r1"))

    paused = operator(app.store).pause("r1", reason="audit", by="kim")
    assert "suspended" == paused.status
    app.runner().decide(wait.id, Approve(by="lee"))
    resumed = expect(app.runner().resume("r1"), Suspended)

    assert ("audit",) == resumed.reasons
    assert not resumed.paused
    [held] = resumed.waits
    assert ("operator", "run", "Paused by kim.") == (held.kind, held.subject, held.note)
    assert [] == app.paid
    # The approval is taken in, so no marker is due and no sweep looks at the run.
    assert [] == keys(app.store, "markers/")
    assert 0 == app.runner().sweep().runs_checked

    operator(app.store).unpause("r1", by="kim")
    [swept] = app.runner().sweep().resumed
    assert isinstance(swept, Finished)
    assert ["x"] == app.paid
    assert [] == keys(app.store, "markers/")


def test_pause_of_a_waiting_run_leaves_no_marker_and_keeps_its_deadline() -> None:
    """Only the deadline of the open wait stays."""
    clock = ManualClock()
    app = Payments()
    app.store = MemoryStore(clock.now)
    app.script = {"go": [[call("ask", what="x")], "end"]}

    @tool(approval=ApprovalPolicy(expires_after=timedelta(seconds=100)))
    def ask(what: str) -> str:
        """Ask."""
        return what

    def runner() -> Runner:
        return make_runner(app.script, ask, store=app.store, clock=clock)

    runner().start("go", run_id="r1")
    Runner([], store=app.store, clock=clock).pause("r1")
    [deadline] = keys(app.store, "markers/")
    assert "-e-" in deadline
    clock.seconds = 200
    [swept] = runner().sweep().resumed
    assert isinstance(swept, Suspended)
    assert ["operator"] == [wait.kind for wait in swept.waits]
    assert [] == keys(app.store, "markers/")

    Runner([], store=app.store, clock=clock).unpause("r1")
    ended = expect(runner().resume("r1"), Finished)
    assert root_tool_results(ended)[0].startswith("EXPIRED")


def test_worker_pauses_at_its_next_commit_and_completes_what_runs() -> None:
    """The tool that runs returns; no model turn and no other call begins after it."""
    store, done = MemoryStore(), list[str]()

    @tool
    def act(what: str) -> str:
        """Act, and pause the own run from outside."""
        if what == "1":
            operator(store).pause("r1", reason="stop it")
        done.append(what)
        return f"acted {what}"

    script: Script = {"go": [[call("act", what="1")], [call("act", what="2")], "end"]}
    outcome = make_runner(script, act, store=store).start("go", run_id="r1")

    assert isinstance(outcome, Suspended)
    assert ("stop it",) == outcome.reasons
    assert ["1"] == done
    assert ["acted 1"] == root_tool_results(outcome)
    assert [] == keys(store, "markers/")

    operator(store).unpause("r1")
    assert isinstance(make_runner(script, act, store=store).resume("r1"), Finished)
    assert ["1", "2"] == done


def test_pause_at_the_last_turn_keeps_the_reply_for_the_end() -> None:
    """The reply is paid for: after `unpause` the run ends with it, and asks nothing."""
    store, turns = MemoryStore(), list[int]()

    def script(messages: Any) -> Any:
        del messages
        turns.append(len(turns) + 1)
        if turns == [1]:
            elsewhere(AsyncRunner([], store=store).pause("r1"))
        return "end" if turns == [1] else "asked twice"

    outcome = make_runner(script, store=store).start("go", run_id="r1")
    assert isinstance(outcome, Suspended)
    assert ("pause",) == outcome.reasons

    operator(store).unpause("r1")
    assert "end" == make_runner(script, store=store).resume("r1").result()
    assert [1] == turns


def test_pause_and_unpause_twice_change_nothing() -> None:
    """The first reason stays, and a second request is not recorded."""
    app = Payments()
    app.runner().start("go", run_id="r1")
    clerk = operator(app.store)

    first = clerk.pause("r1", reason="one")
    again = clerk.pause("r1", reason="two")
    assert first.version == again.version
    assert ["one"] == [wait.policy for wait in again.waits if wait.kind == "operator"]
    free = clerk.unpause("r1")
    assert free.version == clerk.unpause("r1").version
    assert ["approval"] == [wait.kind for wait in free.waits]
    assert 2 == len(keys(app.store, "runs/r1/in/o-"))
    # A second pause has a number and a wait of its own.
    assert clerk.pause("r1").waits != first.waits


def test_pause_of_an_ended_run_is_refused() -> None:
    """The error names the run and its status, and nothing is recorded."""
    app = Payments()
    app.script = {"go": ["end"]}
    app.runner().start("go", run_id="r1")

    with pytest.raises(InvalidInput, match="run r1 was not paused: it is finished"):
        operator(app.store).pause("r1")
    with pytest.raises(InvalidInput, match="run r1 was not unpaused: it is finished"):
        operator(app.store).unpause("r1")
    assert [] == keys(app.store, "runs/r1/in/")


def test_pause_under_a_later_number_is_refused_if_the_run_ended_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another request took its number and was taken in; then the run was cancelled."""
    app = Payments()
    app.runner().start("go", run_id="r1")
    post = RunRequests._post  # pyright: ignore[reportPrivateUsage]

    async def post_later(*request: Any, **subject: Any) -> Any:
        monkeypatch.undo()
        other = AsyncRunner([], store=app.store)
        await other.pause("r1")
        posted = await post(*request, **subject)
        await other.cancel("r1")
        return posted

    monkeypatch.setattr(RunRequests, "_post", post_later)

    with pytest.raises(InvalidInput, match="run r1 was not paused: it is cancelled"):
        operator(app.store).pause("r1")
    assert 2 == len(keys(app.store, "runs/r1/in/o-"))


def test_cancel_of_a_paused_run_ends_it() -> None:
    """No wait and no marker stays."""
    app = Payments()
    app.runner().start("go", run_id="r1")
    operator(app.store).pause("r1")

    ended = operator(app.store).cancel("r1")

    assert ("cancelled", ()) == (ended.status, ended.waits)
    assert [] == keys(app.store, "markers/")
    assert isinstance(app.runner().resume("r1"), Failed)


def test_message_to_a_paused_run_is_read_after_it() -> None:
    """The inbox is read, and no model is asked."""
    app = Payments()
    app.script = {"go": [[call("pay", what="x")], "end"]}
    outcome = expect(app.runner().start("go", run_id="r1"), Suspended)
    operator(app.store).pause("r1")
    app.runner().decide(outcome.waits[0].id, Deny())
    operator(app.store).send("r1", "And then?")

    held = expect(app.runner().resume("r1"), Suspended)
    assert "And then?" == held.continuation.root.messages[-1]["content"]

    operator(app.store).unpause("r1")
    assert isinstance(app.runner().resume("r1"), Finished)


def test_wait_for_an_operator_cannot_be_decided() -> None:
    """The error says how it ends."""
    app = Payments()
    app.runner().start("go", run_id="r1")
    paused = operator(app.store).pause("r1")
    [wait] = [each for each in paused.waits if each.kind == "operator"]

    with pytest.raises(DecisionRefused, match="is ended by unpause"):
        app.runner().decide(wait.id, Approve())


# Cancel of a call -------------------------------------------------------------------


class Tree:
    """boss calls hr and note; hr calls pay, which needs an approval."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.done: list[str] = []
        self.clerk = operator(self.store)

    def runner(self, script: Script | NextLine) -> Runner:
        @tool(approval=True)
        def pay(what: str) -> str:
            """Pay."""
            self.done.append(f"pay {what}")
            return f"paid {what}"

        @tool
        def act(what: str) -> str:
            """Act, and cancel the call of the agent that runs it."""
            if what == "stop":
                self.clerk.cancel("r1", call="boss/hr", reason="Too risky.")
            self.done.append(f"act {what}")
            return f"acted {what}"

        hr = Agent("hr", tools=[pay, act], model=scripts.scripted_model(script))
        return Runner(make_boss(script, hr, pay), store=self.store)


NESTED: Script = {
    "go": [[call("hr", input="H"), call("pay", what="b")], "end"],
    "H": [[call("pay", what="h")], "hr done"],
}


def test_cancelled_thread_that_rested_keeps_no_marker(store: MemoryStore) -> None:
    """An ended run has nothing left that a sweep could find."""
    runner = Runner(Agent("clerk", model=ScriptedModel(["hello"])), store=store)
    thread = runner.thread("clerk", key="jane")
    thread.send("hi")

    assert "cancelled" == operator(store).cancel(thread.run_id).status
    assert [] == keys(store, "markers/")


def test_cancelled_call_ends_with_everything_below_and_the_run_goes_on() -> None:
    """The approval below is closed, and a late decider learns why."""
    tree = Tree()
    outcome = expect(tree.runner(NESTED).start("go", run_id="r1"), Suspended)
    below, beside = sorted(outcome.waits, key=lambda wait: -len(wait.path))

    state = tree.clerk.cancel("r1", call="boss/hr", reason="Too risky.")

    assert [beside.id] == [wait.id for wait in state.waits]
    assert [beside.id] == [wait.id for wait in tree.clerk.waiting()]
    with pytest.raises(Cancelled, match="its call or run r1 was cancelled"):
        tree.clerk.decide(below.id, Approve())
    lines = {line.wait: line.reason for line in tree.clerk.audit("r1")}
    assert "Too risky." == lines[below.id]
    tree.clerk.decide(beside.id, Approve())
    ended = expect(tree.runner(NESTED).resume("r1"), Finished)
    assert ["pay b"] == tree.done
    cancelled, paid = root_tool_results(ended)
    assert cancelled.startswith("CANCELLED while it ran")
    assert "Too risky." in cancelled
    assert "paid b" == paid
    assert [] == keys(tree.store, "markers/")


def test_cancelled_waiting_call_of_the_root_never_runs() -> None:
    """An approval that was recorded before does not run it either."""
    tree = Tree()
    script: Script = {"go": [[call("pay", what="b")], "end"]}
    wait = single_wait(tree.runner(script).start("go", run_id="r1"))
    tree.clerk.decide(wait.id, Approve())

    tree.clerk.cancel("r1", call=wait.call_id)

    with pytest.raises(AlreadyDecided):
        tree.clerk.decide(wait.id, Deny())
    ended = expect(tree.runner(script).resume("r1"), Finished)
    assert [] == tree.done
    assert ["CANCELLED: it was not executed. An operator cancelled it."] == (
        root_tool_results(ended)
    )


def test_running_call_below_a_cancelled_one_returns_and_is_reported() -> None:
    """A running tool returns and its result is kept; no other call begins."""
    tree = Tree()
    script: Script = {
        "go": [[call("hr", input="H")], "end"],
        "H": [[call("act", what="stop"), call("pay", what="h")], "hr done"],
    }

    ended = expect(tree.runner(script).start("go", run_id="r1"), Finished)

    assert ["act stop"] == tree.done
    [result] = root_tool_results(ended)
    assert result.startswith("CANCELLED while it ran")
    assert "Too risky." in result
    assert "act: acted stop" in result
    assert [] == list(tree.clerk.waiting())
    assert [] == keys(tree.store, "waits/")


@pytest.mark.parametrize("name", ["c99", "boss/nobody", "boss/pay"])
def test_cancel_of_a_call_that_is_not_open_is_refused(name: str) -> None:
    """A path must name one open call. Nothing is recorded."""
    tree = Tree()
    script: Script = {"go": [[call("pay", what="1"), call("pay", what="2")], "end"]}
    tree.runner(script).start("go", run_id="r1")

    with pytest.raises(InvalidInput, match="was not cancelled"):
        tree.clerk.cancel("r1", call=name)
    assert [] == keys(tree.store, "runs/r1/in/")


def test_cancelled_agent_without_open_calls_is_not_asked_again() -> None:
    """Its model works while an operator cancels it: the reply is given up."""
    tree = Tree()
    turns: list[str] = []

    def script(messages: Any) -> Any:
        if "H" not in str(scripts.first_user_message(messages)):
            return scripts.next_line(NESTED, messages)
        turns.append("hr")
        elsewhere(AsyncRunner([], store=tree.store).cancel("r1", call="boss/hr"))
        return [call("pay", what="h")]

    ended = expect(tree.runner(script).start("go", run_id="r1"), Suspended)

    assert ["boss", "pay"] == list(ended.waits[0].path)
    assert ["hr"] == turns


def test_paused_run_keeps_a_cancelled_call_cancelled() -> None:
    """Both requests count, in their order."""
    tree = Tree()
    assert isinstance(tree.runner(NESTED).start("go", run_id="r1"), Suspended)
    tree.clerk.pause("r1")
    state: Continuation = tree.clerk.cancel("r1", call=["boss", "hr"])
    assert {"operator", "approval"} == {wait.kind for wait in state.waits}
    assert isinstance(tree.runner(NESTED).resume("r1"), Suspended)
    tree.clerk.unpause("r1")
    [wait] = tree.clerk.waiting()
    tree.clerk.decide(wait.id, Approve())
    assert isinstance(tree.runner(NESTED).resume("r1"), Finished)
    assert ["pay b"] == tree.done
