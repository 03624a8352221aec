"""An operator lists and drops the signals that no wait has taken."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, Literal

import pytest

from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    Finished,
    Identity,
    Replied,
    Runner,
    Suspended,
    tool,
    wait_for,
)
from continuations.errors import InvalidInput, RunBusy, RunNotFound
from continuations.ledger.arrivals import run_signals
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.api import HttpApi, Request
from continuations.tools import ToolWait
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests.clocks import ManualClock
from tests.outcomes import expect
from tests.sampling import sample
from tests.serve.console.console_client import ConsoleClient
from tests.serve.console.test_rewind_page import form_of, get, post
from tests.serve.http.api_fixture import verify_bearer


@tool
def receipt() -> ToolWait[Any]:
    """Wait for a receipt."""
    return wait_for("receipt")


@tool(approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


def make_agent() -> Agent[Any]:
    """Return an agent that asks before it pays, and then waits for a receipt."""
    calls = [ToolCall("pay", {}), ToolCall("receipt", {})]
    return Agent("boss", tools=[pay, receipt], model=ScriptedModel([*calls, "end"]))


def make_runner(store: Any = None) -> Runner:
    """Return a runner on a store, by default of its own."""
    return Runner(make_agent(), store=store or MemoryStore())


def names_of(runner: Runner, run_id: str = "r1") -> list[str]:
    """Return the names of the signals that no wait has taken."""
    return [each.name for each in runner.signals(run_id)]


@pytest.mark.parametrize("taken_in", [False, True])
def test_signals_are_listed_and_dropped_by_their_name(*, taken_in: bool) -> None:
    """It makes no difference whether a worker has taken them in."""
    runner = make_runner()
    runner.start("go", run_id="r1")
    for number, name in enumerate(("other", "receipt", "other", "third")):
        runner.signal("r1", name, {"number": number}, by="mail")
    if taken_in:
        runner.resume("r1")

    listed = runner.signals("r1")
    assert [1, 2, 3, 4] == [each.number for each in listed]
    assert {"number": 2} == listed[2].data
    assert "mail" == listed[2].by

    assert 2 == runner.drop_signals("r1", name="other", by="kim", reason="wrong name")
    assert ["receipt", "third"] == names_of(runner)
    assert 0 == runner.drop_signals("r1", name="other", by="kim")
    runner.signal("r1", "other", "later")
    assert ["receipt", "third", "other"] == names_of(runner)
    assert 3 == runner.drop_signals("r1", by="lee")
    assert [] == runner.signals("r1")

    lines = [each for each in runner.audit("r1") if each.verdict == "drop"]
    assert ["kim", "lee"] == [each.by for each in lines]
    assert "wrong name" == lines[0].reason
    assert ["other to number 3", "signals to number 5"] == [each.rule for each in lines]


def test_dropped_signal_ends_no_wait_and_another_one_does() -> None:
    runner = make_runner()
    waiting = expect(runner.start("go", run_id="r1"), Suspended)
    runner.signal("r1", "receipt", "wrong")
    runner.drop_signals("r1", name="receipt")
    runner.decide(waiting.waits[0].id, Approve())
    assert isinstance(runner.resume("r1"), Suspended)

    runner.signal("r1", "receipt", "right")

    ended = expect(runner.resume("r1"), Finished)
    results = [m for m in ended.continuation.root.messages if m["role"] == "tool"]
    assert ["paid", "right"] == [each["content"] for each in results]


def test_drop_that_takes_an_awaited_signal_in_leaves_a_marker() -> None:
    """Its own marker goes with the version. A sweep ends the wait nevertheless."""
    runner = make_runner()
    waiting = expect(runner.start("go", run_id="r1"), Suspended)
    runner.decide(waiting.waits[0].id, Approve())
    runner.resume("r1")
    runner.signal("r1", "receipt", "paper")
    runner.signal("r1", "other")

    assert 1 == runner.drop_signals("r1", name="other")

    [swept] = runner.sweep().resumed
    assert isinstance(swept, Finished)
    assert [] == asyncio.run(runner.store.keys("markers/"))


def test_full_run_accepts_signals_again_after_a_drop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This is what the error advises; no wait for the new name is open."""
    monkeypatch.setattr(run_signals, "MAX_KEPT_SIGNALS", 3)
    monkeypatch.setattr(run_signals, "MAX_KEPT_IN_ALL", 3)
    runner = make_runner()
    runner.start("go", run_id="r1")
    for name in ("a", "b", "c"):
        runner.signal("r1", name)
    with pytest.raises(InvalidInput, match=r"Drop those .* with drop_signals\(\)"):
        runner.signal("r1", "receipt")

    runner.drop_signals("r1", name="a")

    assert 4 == runner.signal("r1", "receipt")


def test_running_worker_drops_signals_that_come_with_the_request() -> None:
    """The run goes on, in the same process, with its later requests."""
    store = MemoryStore()
    dropped: list[int] = []

    @tool
    def work() -> str:
        """Work, while an operator drops signals."""
        other = Runner([], store=store)
        other.signal("r1", "a")
        other.signal("r1", "b")
        dropped.append(other.drop_signals("r1", name="a"))
        dropped.append(len(other.signals("r1")))
        return "worked"

    model = ScriptedModel([ToolCall("work", {}), "end"])
    runner = Runner(Agent("boss", tools=[work], model=model), store=store)

    outcome = expect(runner.start("go", run_id="r1"), Finished)

    assert [1, 1] == dropped
    assert ["b"] == [each.name for each in outcome.continuation.run_state.run.signals]


def test_signals_of_a_thread_are_dropped() -> None:
    model = ScriptedModel(lambda _request: "Yes.")
    runner = Runner(Agent("boss", model=model), store=MemoryStore())
    run_id = runner.thread(key="k").send("hello").run_id
    runner.signal(run_id, "other")

    assert 1 == runner.drop_signals(run_id)

    assert [] == runner.signals(run_id)
    assert isinstance(runner.thread(key="k").send("again"), Replied)


def test_rewind_brings_no_dropped_signal_back() -> None:
    runner = make_runner()
    assert isinstance(runner.start("go", run_id="r1"), Suspended)
    runner.signal("r1", "receipt")
    runner.resume("r1")
    version = runner.look("r1").version
    runner.drop_signals("r1")

    runner.rewind("r1", version)

    assert [] == runner.signals("r1")


@pytest.mark.parametrize(
    "wrong", [{"name": ""}, {"name": 5}, {"by": ""}, {"reason": 5}]
)
def test_invalid_argument_drops_nothing(wrong: dict[str, Any]) -> None:
    runner = make_runner()
    runner.start("go", run_id="r1")
    runner.signal("r1", "other")

    with pytest.raises(InvalidInput):
        runner.drop_signals("r1", **wrong)

    assert ["other"] == names_of(runner)


def test_ended_and_missing_runs_are_errors() -> None:
    runner = make_runner()
    runner.start("go", run_id="r1")
    runner.cancel("r1")
    with pytest.raises(InvalidInput, match="it is cancelled"):
        runner.drop_signals("r1")
    for act in (runner.signals, runner.drop_signals):
        with pytest.raises(RunNotFound):
            act("r2")


def _act(runner: Runner) -> None:
    try:
        assert isinstance(runner.start("go", run_id="r1"), Suspended)
    except RunBusy:
        return
    if runner.audit("r1"):
        return
    runner.signal("r1", "a", id="1")
    runner.signal("r1", "b", id="2")
    runner.drop_signals("r1", name="a")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_crash_at_every_operation_drops_all_or_nothing(
    moment: Literal["before", "after"],
) -> None:
    """A recorded request counts, and signals of another name stay."""
    clock = ManualClock()
    undisturbed = FaultyStore(MemoryStore(clock.now))
    _act(Runner(make_agent(), store=undisturbed, clock=clock))
    count = len(undisturbed.operations)
    for number in sample(range(1, count + 1), 8, int(moment == "after")):
        clock = ManualClock()
        inner = MemoryStore(clock.now)
        dying = FaultyStore(inner, at(number, crashed(moment)))
        where = f"{moment} {number}"
        try:
            _act(Runner(make_agent(), store=dying, clock=clock))
        except Crash:
            where = f"{moment} {number}: {dying.operations[-1]}"
        clock.seconds += 120
        runner = Runner(make_agent(), store=inner, clock=clock)
        runner.start("go", run_id="r1")
        asked = [each for each in runner.audit("r1") if each.verdict == "drop"]
        sent = [each.reason for each in runner.audit("r1") if each.verdict == "signal"]
        expected = [name for name in sent if name != "a" or not asked]
        for _ in range(3):
            assert expected == names_of(runner), where
            clock.seconds += 3600
            assert {} == runner.sweep().errors
        row = runner.look("r1").run_state.run
        assert expected == [each.name for each in row.signals], where
        found = asyncio.run(inner.keys("markers/"))
        # The marker of a request that was never stored may be left.
        found = [key for key in found if asked or "-o-" not in key]
        assert [] == [key for key in found if "/e-" not in key], where


# Doors -----------------------------------------------------------------------------


async def test_http_lists_and_drops_signals() -> None:
    """The data needs the right `read`, and a drop the right `cancel`."""
    rights = {"view"}

    def can(_person: Identity, act: str, _run: str | None) -> bool:
        return act in rights

    runner = AsyncRunner(make_agent(), store="memory:")
    api = HttpApi(runner, verify=verify_bearer, can=can)
    headers = {"content-type": "application/json", "authorization": "Bearer kim"}

    async def ask(method: str, path: str, **fields: Any) -> tuple[int, Any]:
        body = json.dumps(fields).encode() if method == "POST" else b""
        request = Request(method=method, path=path, headers=headers, body=body)
        response = await api.handle(request)
        return response.status, json.loads(response.body)

    await runner.start("go", run_id="r1")
    await runner.signal("r1", "other", "private", by="mail")
    await runner.signal("r1", "third")
    status, listed = await ask("GET", "/runs/r1/signals")
    assert 200 == status
    assert ["other", "third"] == [each["name"] for each in listed["signals"]]
    assert "private" not in str(listed)
    rights.add("read")
    _, listed = await ask("GET", "/runs/r1/signals")
    assert "private" == listed["signals"][0]["data"]

    drop = "/runs/r1/signals/drop"
    assert 403 == (await ask("POST", drop, name="other"))[0]
    rights.add("cancel")
    assert 400 == (await ask("POST", drop, by="lee"))[0]
    dropped = await ask("POST", drop, name="other", reason="wrong")
    assert (200, {"run_id": "r1", "dropped": 1}) == dropped
    assert ["third"] == [each.name for each in await runner.signals("r1")]
    [line] = [each for each in await runner.audit("r1") if each.verdict == "drop"]
    assert ("kim", "http", "wrong") == (line.by, line.door, line.reason)


def test_console_shows_the_names_and_drops_them() -> None:
    """Without the right to cancel there is no button."""
    runner = AsyncRunner(make_agent(), store="memory:")

    def can(_person: Identity, act: str, _run: str | None) -> bool:
        return act == "view"

    async def prepare() -> None:
        await runner.start("go", run_id="r1")
        for name in ("o<ther", "o<ther", "third"):
            await runner.signal("r1", name, "private")

    asyncio.run(prepare())
    client = ConsoleClient(runner)
    page = get(client, "/runs/r1/actions")
    assert "o&lt;ther</b>: 2 signals" in page.text
    assert "private" not in page.text
    assert '<button class="btn" type="submit">Drop' in page.text
    limited = get(ConsoleClient(runner, {"can": can}), "/runs/r1/actions").text
    assert "2 signals" in limited
    assert ">Drop<" not in limited

    form = {**form_of(page), "name": "o<ther"}
    assert 303 == post(client, "/runs/r1/signals", form).status_code

    assert ["third"] == [each.name for each in asyncio.run(runner.signals("r1"))]
    assert not re.search("o&lt;ther", get(client, "/runs/r1/actions").text)
