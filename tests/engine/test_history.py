"""`history` and `diff` show the past of a run, in any process and without agents."""

from __future__ import annotations

import asyncio
from typing import Annotated

import pytest

from continuations import Agent, Approve, AsyncRunner, Finished, Frame, Runner, tool
from continuations.errors import InvalidId, InvalidInput, RunErased, RunNotFound
from continuations.events import CallEnded, CallStarted, WaitDecided, WaitOpened
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.past import RunVersion
from continuations.present.json_forms import difference_json, version_json
from continuations.tools import Secret
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests import sample_app
from tests.engine import state_agents
from tests.present.schema_check import assert_matches_schema
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call, scripted_model

PIN = "4711-secret"


@tool(approval=True)
def pay(what: str, pin: Annotated[str, Secret()]) -> str:
    """Pay."""
    return f"paid {what} with {len(pin)} digits"


def make_boss() -> Agent:
    """Return three levels of agents; the deepest pays after an approval."""
    payment = ToolCall("pay", {"what": "rent", "pin": PIN})
    clerk = Agent("clerk", tools=[pay], model=ScriptedModel([payment, "paid"]))
    office = Agent(
        "office",
        tools=[clerk],
        model=ScriptedModel([ToolCall("clerk", {"input": "pay"}), "done"]),
    )
    return Agent(
        "boss",
        tools=[office],
        model=ScriptedModel([ToolCall("office", {"input": "pay"}), "all done"]),
    )


@pytest.fixture
def runner() -> Runner:
    """Return a runner without agents of a store with a finished run."""
    store = MemoryStore()
    worker = Runner(make_boss(), store=store)
    worker.start("go", run_id="jane-1")
    (wait,) = worker.look("jane-1").waits
    worker.decide(wait.id, Approve(by="kim"))
    worker.resume("jane-1")
    return Runner([], store=store)


def test_every_version_has_its_time_worker_waits_and_changes(runner: Runner) -> None:
    versions = list(runner.history("jane-1"))

    assert [*range(1, versions[-1].number + 1)] == [each.number for each in versions]
    assert sorted(each.at for each in versions) == [each.at for each in versions]
    assert versions[-1].status == "finished"
    # And two workers wrote them, also the versions that released the claim
    assert all(each.worker for each in versions)
    assert 2 == len({each.worker for each in versions})
    # And the events are those of `events`
    events = [event for version in versions for event in version.events]
    assert events == list(runner.events("jane-1"))
    # And one version has the wait, with the secret masked
    (waiting,) = [each for each in versions if each.waits]
    assert any(isinstance(event, WaitOpened) for event in waiting.events)
    assert PIN not in waiting.waits[0].arguments_json
    assert waiting.waits[0].path == ("boss", "office", "clerk", "pay")


def test_words_say_who_decided_and_what_ran(runner: Runner) -> None:
    words = [line for version in runner.history("jane-1") for line in version.words]

    assert "boss/office/clerk/pay: approve by kim" in words
    assert "boss/office/clerk/pay: call starts" in words
    assert "run: finished: all done" in words
    assert PIN not in "\n".join(words)


def test_history_goes_on_after_a_version_and_reads_only_what_is_asked_for() -> None:
    store = FaultyStore(MemoryStore())
    worker = Runner(make_boss(), store=store)
    worker.start("go", run_id="jane-1")
    newest = worker.look("jane-1").version
    full = list(worker.history("jane-1"))

    page = worker.history("jane-1", after=2)
    before = len(store.operations)
    first = next(page)
    read = len(store.operations) - before

    assert full[2] == first
    assert full[2:] == [first, *page]
    # A listing, the version of the cursor with its base, and one version
    assert read <= 4
    assert [] == list(worker.history("jane-1", after=newest))


def test_forms_match_the_schema(runner: Runner) -> None:
    versions = list(runner.history("jane-1"))
    for version in versions:
        assert_matches_schema("run_version", version_json(version))
    for before in range(1, len(versions) + 1):
        for after in range(1, len(versions) + 1):
            found = runner.diff("jane-1", before, after)
            assert_matches_schema("run_difference", difference_json(found))


def waiting_version(versions: list[RunVersion]) -> int:
    """Return the number of the version that waits for the approval."""
    return next(each.number for each in versions if each.waits)


def test_difference_has_messages_calls_waits_and_the_decision(runner: Runner) -> None:
    versions = list(runner.history("jane-1"))
    waiting, last = waiting_version(versions), versions[-1].number

    found = runner.diff("jane-1", waiting, last)

    assert ("suspended", "finished") == (found.status_before, found.status_after)
    assert found.usage_after.requests > found.usage_before.requests
    # Two agents ended, and their calls became a message of the root agent
    assert [("removed", "office"), ("removed", "clerk")] == [
        (each.change, each.agent) for each in found.frames
    ]
    added = [each for each in found.messages if each.change == "added"]
    assert [("boss",), ("boss",)] == [each.path for each in added]
    assert ["tool", "assistant"] == [each.message["role"] for each in added]
    states = {each.path[-1]: (each.before, each.after) for each in found.calls}
    assert states["pay"] == ("waiting", None)
    assert PIN not in repr(found.calls)
    # And the decision of the wait that ended
    (wait,) = found.waits
    assert wait.change == "removed"
    assert wait.decision is not None
    assert ("approve", "kim") == (wait.decision.kind, wait.decision.by)


def test_difference_backwards_adds_what_was_removed(runner: Runner) -> None:
    versions = list(runner.history("jane-1"))
    waiting, last = waiting_version(versions), versions[-1].number

    forth = runner.diff("jane-1", waiting, last)
    back = runner.diff("jane-1", last, waiting)

    opposite = {"added": "removed", "removed": "added", "changed": "changed"}
    assert [(m.frame, m.position, opposite[m.change]) for m in forth.messages] != []
    assert {(m.frame, m.position, opposite[m.change]) for m in forth.messages} == {
        (m.frame, m.position, m.change) for m in back.messages
    }
    assert (back.waits[0].change, back.waits[0].decision) == ("added", None)
    same = runner.diff("jane-1", waiting, waiting)
    assert () == same.messages + same.frames + same.calls + same.waits + same.states


def test_started_call_is_one_change(runner: Runner) -> None:
    versions = list(runner.history("jane-1"))
    waiting = waiting_version(versions)

    found = runner.diff("jane-1", waiting, waiting + 1)

    assert any(isinstance(each, CallStarted) for each in versions[waiting].events)
    (call,) = found.calls
    assert ("changed", "waiting", "started") == (call.change, call.before, call.after)
    assert call.arguments_after_json == call.arguments_before_json


def test_state_of_an_agent_is_a_difference() -> None:
    script = {"go": [[("buy", {"cents": 3})], "done"]}
    runner = Runner(state_agents.three_deep(script), store="memory:")
    runner.start("go", run_id="jane-1")

    found = runner.diff("jane-1", 1, runner.look("jane-1").version)

    (state,) = found.states
    assert {} == state.before
    assert {"spent": 3, "on": ["buy"]} == state.after


def test_unknown_runs_and_versions_are_typed_errors(runner: Runner) -> None:
    newest = runner.look("jane-1").version
    with pytest.raises(RunNotFound):
        list(runner.history("other"))
    with pytest.raises(RunNotFound, match="no version 99"):
        runner.diff("jane-1", 1, 99)
    with pytest.raises(RunNotFound):
        runner.diff("jane-1", 0, 1)
    with pytest.raises(InvalidInput, match=f"from 0 to {newest}"):
        list(runner.history("jane-1", after=newest + 1))
    with pytest.raises(InvalidInput, match="after must be an integer"):
        runner.history("jane-1", after="3")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="before must be an integer"):
        runner.diff("jane-1", "1", 2)  # type: ignore[arg-type]
    with pytest.raises(InvalidId):
        runner.history("a/b")
    runner.erase("jane-1")
    with pytest.raises(RunErased):
        list(runner.history("jane-1"))
    with pytest.raises(RunErased):
        runner.diff("jane-1", 1, 2)


def test_coroutines_give_the_same(runner: Runner) -> None:
    async def read() -> tuple[list[RunVersion], object]:
        same = AsyncRunner([], store=runner.store)
        versions = [each async for each in same.history("jane-1")]
        return versions, await same.diff("jane-1", 1, 2)

    versions, found = asyncio.run(read())

    assert list(runner.history("jane-1")) == versions
    assert runner.diff("jane-1", 1, 2) == found
    assert any(isinstance(e, WaitDecided) for v in versions for e in v.events)
    assert any(isinstance(e, CallEnded) for v in versions for e in v.events)


# Agents that have returned ----------------------------------------------------


SCRIPT: Script = {
    "go": [[call("left", input="A"), call("right", input="B")], "all done"],
    "A": [[call("clerk", input="C")], "A done"],
    "B": [[call("act", what="1")], "B done"],
    "C": [[call("read", what="2")], "C done"],
}


def frames_of(runner: Runner, run_id: str, version: int) -> list[Frame]:
    frames = [runner.look(run_id, version=version).root]
    for frame in frames:
        frames.extend(call.frame for call in frame.calls if call.frame is not None)
    return frames


def test_every_frame_stands_in_a_version_with_its_messages(
    environment: RunEnvironment,
) -> None:
    agents = sample_app.make_agents(scripted_model(SCRIPT))
    runner = Runner(agents, store=environment.store)
    assert isinstance(runner.start("go", run_id="r1"), Finished)

    # Given a reader without agents, and a newest version with the root frame only
    reader = Runner([], store=environment.store)
    newest = reader.look("r1").version
    assert 1 == len(frames_of(reader, "r1", newest))

    # When it looks at every version
    transcripts = {
        frame.messages[1]["content"]: [each.get("content") for each in frame.messages]
        for version in range(1, newest + 1)
        for frame in frames_of(reader, "r1", version)
    }

    # Then each frame is there, without its last reply, which its caller has. Results of
    # repeatable tools in the last turn are not stored on their own.
    assert {"go", "A", "B", "C"} == transcripts.keys()
    assert ["C", None] == transcripts["C"][1:]
    assert "acted 1" == transcripts["B"][-1]
    assert "C done" == transcripts["A"][-1]
    assert {"A done", "B done"} <= set(transcripts["go"])


def test_version_that_does_not_exist_is_not_found(environment: RunEnvironment) -> None:
    runner = Runner(
        sample_app.make_agents(scripted_model({"go": ["end"]})), store=environment.store
    )
    runner.start("go", run_id="r1")

    for version in (0, 99):
        with pytest.raises(RunNotFound):
            runner.look("r1", version=version)
