"""A run that a worker gives up has one marker, which goes with the end of the run."""

from __future__ import annotations

import asyncio

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Finished,
    Model,
    Runner,
    Wait,
)
from continuations.errors import ModelError
from continuations.ledger import layout
from continuations.models.interface import ModelReply, ModelRequest, PendingReply
from continuations_storage.faults import FaultyStore, on, refused
from tests import effect_log, scripts
from tests.clocks import ManualClock
from tests.engine import payment_agent
from tests.engine.agent_builders import make_boss, text_tool
from tests.engine.shared_store import SharedStore
from tests.outcomes import single_wait
from tests.own_task import cancel_own_task
from tests.scripts import Script, call
from tests.stores import StoreWithListingTime

pay = text_tool(
    "pay", "paid", logs=True, approval=ApprovalPolicy(expires_after=30 * 86_400)
)
SCRIPT: Script = {
    "go": [[call("pay"), call("child", input="C")], "end"],
    "C": ["child ended"],
}


class Released(SharedStore):
    """A store in which a test looks at the markers that are left."""

    def reasons(self) -> list[tuple[str, int]]:
        """Return the letter and the due time of each marker, in seconds from now."""
        now_ms = int(self.clock.now().timestamp() * 1000)
        parsed = [layout.parse_marker(key) for key in self.markers()]
        return [
            (each.reason, (each.due_ms - now_ms) // 1000 if each.due_ms else 0)
            for each in parsed
            if each is not None
        ]


def test_markers_go_with_the_end_after_a_model_error() -> None:
    """Also those of the decided wait, whose deadline is a month away."""
    shared = Released()
    broken: Script = {"go": [[call("pay")], ModelError("down")]}
    runner = shared.machine(agents=make_boss(broken, pay))
    runner.decide(single_wait(runner.start("go", run_id="r")).id, Approve())
    with pytest.raises(ModelError):
        runner.resume("r")
    assert [("r", 60)] == shared.reasons()

    mended: Script = {"go": [[call("pay")], "end"]}
    outcome = shared.machine(agents=make_boss(mended, pay)).resume("r")

    assert isinstance(outcome, Finished)
    assert [] == shared.keys("markers/", "waits/")
    assert ["pay "] == effect_log.names()


def test_each_failed_try_doubles_the_delay_until_there_is_progress() -> None:
    """By resume as well as by sweep; a reply of the model begins a new count."""
    shared = Released()
    failing: Script = {"go": [ModelError("down")]}
    runner = shared.machine(agents=make_boss(failing, pay))
    with pytest.raises(ModelError):
        runner.start("go", run_id="r")
    for seconds in (120, 240, 480):
        with pytest.raises(ModelError):
            runner.resume("r")
        assert [("r", seconds)] == shared.reasons()

    partly: Script = {"go": [[call("missing_tool")], ModelError("down")]}
    with pytest.raises(ModelError):
        shared.machine(agents=make_boss(partly, pay)).resume("r")

    assert [("r", 60)] == shared.reasons()


def test_cancelled_start_publishes_its_waits() -> None:
    """A person can decide at once, although another frame's turn was interrupted."""
    shared = Released()
    notified: list[Wait] = []
    replies = scripts.scripted_model(SCRIPT)

    class SlowModel:
        """Does not reply to the sub-agent."""

        name = "slow"

        async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
            if request.agent == "child":
                await asyncio.sleep(60)
            return await replies.reply(request)

    def runner(model: Model) -> AsyncRunner:
        child = Agent("child", model=model)
        boss = Agent("boss", tools=[pay, child], model=model)
        return shared.machine(agents=boss, notify=notified.append).async_runner

    async def start() -> None:
        async with asyncio.timeout(0.3):
            await runner(SlowModel()).start("go", run_id="r")

    with pytest.raises(TimeoutError):
        asyncio.run(start())

    # The wait is listed and notified, and the run can go on at once
    [listed] = shared.machine(agents=[]).waiting()
    assert [listed.id] == [wait.id for wait in notified]
    assert "suspended" == shared.machine(agents=[]).look("r").status
    assert [("r", 0)] == [each for each in shared.reasons() if each[0] != "e"]

    # And nothing is left after its end
    shared.machine(agents=[]).decide(listed.id, Approve())
    assert isinstance(asyncio.run(runner(replies).resume("r")), Finished)
    assert [] == shared.keys("markers/", "waits/")
    assert ["pay "] == effect_log.names()


def test_sweep_finds_a_run_whose_claim_is_kept_after_an_error() -> None:
    """The marker of the decision is the only guard of that claim."""
    cancels = True

    async def cancel_first() -> bool:
        return cancels and await cancel_own_task()

    report = text_tool("report", "reported", logs=True, approval=cancel_first)
    # Given a worker that stops under its claim, and cannot release the claim
    clock = ManualClock()
    store = StoreWithListingTime(clock)
    script: Script = {"go": [[call("pay")], [call("report")], "end"]}
    agent = make_boss(script, payment_agent.pay, report)
    runner = Runner(agent, store=store, clock=clock)
    runner.decide(single_wait(runner.start("go", run_id="r")).id, Approve())
    no_release = on("create", refused(), prefix="markers/0000000000000-r-")
    faulty = Runner(agent, store=FaultyStore(store, no_release), clock=clock)
    assert {"r"} == faulty.sweep().errors.keys()
    assert "running" == runner.look("r").status
    assert ["pay "] == effect_log.names()

    # When its claim is over
    cancels = False
    clock.seconds += 3600
    swept = runner.sweep()

    # Then a sweep finds the run, and no effect happens twice
    assert 1 == swept.runs_checked
    assert ["r"] == [each.run_id for each in swept.resumed if type(each) is Finished]
    assert ["pay ", "report "] == effect_log.names()
    assert [] == asyncio.run(store.keys("markers/"))
