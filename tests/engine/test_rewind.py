"""`rewind` goes on from an earlier version of a run, and repeats nothing unasked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    AsyncRunner,
    Deny,
    Failed,
    Finished,
    Grant,
    Replied,
    Runner,
    Suspended,
    errors,
)
from continuations.errors import InvalidInput, StaleRun
from continuations.events import RunRewound
from continuations.ledger.objects import Objects
from continuations.models.scripted import ScriptedModel
from continuations.value_class import replace
from continuations_storage import MemoryStore, Store
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.past_agents import RUN_ID, SCRIPT, only_wait, three_deep, version_with
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.sampling import RUNS_ALL_CASES
from tests.scripts import call

# Mail, then a payment, then a question: the run is alive at the end.
TURNS = [
    [call("read", what="file")],
    [call("pay", what="rent")],
    [call("mail", what="second")],
    [call("choose", what="colour")],
    "clerk done",
]
ASKING = {**SCRIPT, "C": TURNS}
DONE = ["choose colour", "mail second", "pay rent", "read file"]


def make_runner(script: Any = ASKING, **options: Any) -> Runner:
    """Return a runner of three levels of agents."""
    options.setdefault("store", MemoryStore())
    return Runner(three_deep(script), **options)


def asking_run(script: Any = ASKING, **options: Any) -> Runner:
    """Return a runner of a run that paid, sent mail, and asks a question."""
    runner = make_runner(script, **options)
    runner.start("go", run_id=RUN_ID)
    runner.decide(only_wait(runner).id, Approve(by="kim"))
    assert isinstance(runner.resume(RUN_ID), Suspended)
    return runner


def before_payment() -> tuple[Runner, int]:
    """Return a run that asks, and its version in which the payment waited."""
    runner = asking_run()
    return runner, version_with(runner, "pay", "waiting")


def test_what_was_approved_or_started_since_is_asked_about() -> None:
    """The payment and the mail happened; neither happens again unasked."""
    runner, version = before_payment()
    before = runner.look(RUN_ID)
    (old,) = runner.look(RUN_ID, version=version).waits

    rewound = runner.rewind(RUN_ID, version)

    assert (RUN_ID, version) == (rewound.run_id, rewound.rewound_to)
    assert runner.look(RUN_ID).version == rewound.version
    assert ["pay", "mail", "choose"] == [each.tool for each in rewound.calls]
    assert ("boss", "office", "clerk", "pay") == rewound.calls[0].path
    assert () == rewound.messages
    # The wait is back under a new id, and the question is over
    wait = only_wait(runner)
    assert ("pay", "approval") == (wait.tool, wait.kind)
    assert old.id != wait.id
    assert wait.note is not None
    assert [wait.id] == [each.id for each in runner.waiting()]
    with pytest.raises(errors.Cancelled):
        runner.decide(before.waits[0].id, Answer("red"))
    with pytest.raises(errors.AlreadyDecided):
        runner.decide(old.id, Deny())
    # Nothing runs until a person decides; then the mail is asked about
    assert isinstance(runner.resume(RUN_ID), Suspended)
    assert DONE == sorted(effect_log.names())
    runner.decide(wait.id, Deny(by="lee"))
    outcome = expect(runner.resume(RUN_ID), Suspended)
    assert ["mail"] == [each.tool for each in outcome.waits]
    assert DONE == sorted(effect_log.names())
    # Ids and usage never went back
    after = runner.look(RUN_ID).run_state
    assert after.run.next_id > before.run_state.run.next_id
    assert after.run.usage.requests > before.usage.requests
    assert {log.id for log in after.logs.values()}.isdisjoint(
        {log.id for log in before.run_state.logs.values()}
    )


def test_event_tells_of_the_rewind_and_describes_the_run_anew() -> None:
    runner, version = before_payment()

    rewound = runner.rewind(RUN_ID, version)

    versions = list(runner.history(RUN_ID))
    (event,) = [
        each for one in versions for each in one.events if isinstance(each, RunRewound)
    ]
    assert version == event.version
    assert event is versions[-1].events[0]
    assert rewound.version == versions[-1].number
    assert f"run: rewound to version {version}; what follows describes it" in (
        versions[-1].words
    )


def test_grants_since_end_and_earlier_ones_stay() -> None:
    turns = [[call("pay", what="a")], [call("wire", what="b")], "clerk done"]
    runner = make_runner({**SCRIPT, "C": turns})
    runner.start("go", run_id=RUN_ID, by="jane")
    runner.decide(only_wait(runner).id, Approve(by="kim", remember=Grant("pay")))
    version = version_with(runner, "pay", "waiting")
    assert isinstance(runner.resume(RUN_ID), Suspended)
    assert 1 == len(runner.grants(RUN_ID))

    runner.rewind(RUN_ID, version)

    assert () == tuple(runner.grants(RUN_ID))
    # A resume takes the old decision in no more
    assert isinstance(runner.resume(RUN_ID), Suspended)
    assert () == tuple(runner.grants(RUN_ID))


def test_started_call_is_unknown_and_keeps_its_key() -> None:
    runner = asking_run()
    version = version_with(runner, "mail", "started")

    runner.rewind(RUN_ID, version)

    wait = only_wait(runner)
    assert ("unknown", "mail") == (wait.kind, wait.tool)
    runner.decide(wait.id, Approve(by="kim"))
    outcome = expect(runner.resume(RUN_ID), Suspended)
    keys = [each["key"] for each in effect_log.effects() if each["tool"] == "mail"]
    assert 2 == len(keys)
    assert 1 == len(set(keys))
    # The tool of the question was used since then too
    assert [("approval", "choose")] == [(w.kind, w.tool) for w in outcome.waits]


def test_messages_since_are_returned_and_not_read_again() -> None:
    model = ScriptedModel(lambda request: f"reply {len(request.messages)}")
    runner = Runner(Agent("support", model=model), store=MemoryStore())
    thread = runner.thread("support", key="k")
    first = expect(thread.send("one"), Replied)
    version = runner.look(first.run_id).version
    thread.send("two", by="ann")

    rewound = runner.rewind(first.run_id, version)

    (message,) = rewound.messages
    assert (2, "two", "ann") == (message.number, message.text, message.by)
    assert "resting" == runner.look(first.run_id).status
    reply = expect(thread.send("three"), Replied)
    texts = [m["content"] for m in reply.continuation.root.messages]
    assert ["one", "three"] == [t for t in texts if not t.startswith("reply")]


def test_message_that_is_cut_off_has_a_failed_reply() -> None:
    """The sender of a message whose turn is rewound is not left without a reply."""
    script = {**SCRIPT, "hi": ["hello", [call("office", input="O")], "done"]}
    runner = make_runner(script)
    thread = runner.thread("boss", key="k")
    first = thread.send("hi")
    version = runner.look(first.run_id).version
    assert isinstance(thread.send("pay", id="m-2"), Suspended)

    runner.rewind(first.run_id, version)

    reply = expect(thread.send("pay", id="m-2"), Failed)
    assert "stopped" == reply.error.code
    assert "resting" == runner.look(first.run_id).status


def test_thread_that_rests_is_not_rewound_into_a_turn_with_a_reply() -> None:
    script = {"hi": ["hello", "again"]}
    runner = make_runner(script)
    thread = runner.thread("boss", key="k")
    first = thread.send("hi")
    running = next(
        v.number for v in runner.history(first.run_id) if v.status == "running"
    )

    with pytest.raises(errors.InvalidInput, match="in which the thread rests"):
        runner.rewind(first.run_id, running)


def test_pause_stays_and_an_ended_pause_does_not_come_back() -> None:
    runner, version = before_payment()
    runner.pause(RUN_ID, reason="audit")
    runner.resume(RUN_ID)

    runner.rewind(RUN_ID, version)

    outcome = expect(runner.resume(RUN_ID), Suspended)
    assert ("audit",) == outcome.reasons
    paused = runner.look(RUN_ID).version
    runner.unpause(RUN_ID)
    runner.resume(RUN_ID)
    runner.rewind(RUN_ID, paused)
    outcome = expect(runner.resume(RUN_ID), Suspended)
    assert () == outcome.reasons


def test_run_can_be_rewound_twice_and_forward_again() -> None:
    runner, version = before_payment()
    asking = runner.look(RUN_ID).version

    runner.rewind(RUN_ID, version)
    again = runner.rewind(RUN_ID, version)
    assert ["pay", "mail", "choose"] == [each.tool for each in again.calls]
    runner.rewind(RUN_ID, asking)

    wait = only_wait(runner)
    assert ("question", "choose") == (wait.kind, wait.tool)
    runner.decide(wait.id, Answer("red"))
    assert isinstance(runner.resume(RUN_ID), Finished)


def test_wrong_rewinds_write_nothing() -> None:
    runner = asking_run()
    newest = runner.look(RUN_ID).version
    with pytest.raises(errors.InvalidInput, match="is its newest one"):
        runner.rewind(RUN_ID, newest)
    with pytest.raises(errors.RunNotFound):
        runner.rewind(RUN_ID, 99)
    with pytest.raises(errors.InvalidInput, match="must be an integer"):
        runner.rewind(RUN_ID, "2")  # type: ignore[arg-type]
    assert newest == runner.look(RUN_ID).version
    runner.cancel(RUN_ID)
    with pytest.raises(errors.InvalidInput, match="Fork it"):
        runner.rewind(RUN_ID, 2)
    assert isinstance(runner.resume(RUN_ID), Failed)


def test_live_claim_is_busy(clock: ManualClock) -> None:
    store = MemoryStore(clock.now)
    runner = asking_run(store=store, clock=clock)
    version = version_with(runner, "pay", "waiting")
    for point in every_crash("after", more_than=3, step=2):
        with point.process(store) as dying:
            make_runner(store=dying, clock=clock).rewind(RUN_ID, version)
        if runner.look(RUN_ID).run_state.run.rewind_to:
            break
    assert version == runner.look(RUN_ID).run_state.run.rewind_to
    with pytest.raises(errors.RunBusy):
        runner.rewind(RUN_ID, version)
    with pytest.raises(errors.RunBusy):
        runner.resume(RUN_ID)


@pytest.mark.parametrize("who", ["resume", "sweep", "rewind"])
def test_crash_at_each_operation_is_finished_by_whoever_takes_over(
    environment: RunEnvironment, who: str
) -> None:
    """The run is rewound or it is not; nothing repeats, and nothing is left behind."""
    for point in every_crash("before", "after", more_than=12, step=3):
        (environment.folder / "effects").unlink(missing_ok=True)
        clock = ManualClock()
        store: Store = MemoryStore(clock.now)
        runner = asking_run(store=store, clock=clock)
        version = version_with(runner, "pay", "waiting")
        with point.process(store) as dying:
            make_runner(store=dying, clock=clock).rewind(RUN_ID, version)
        clock.seconds += 120
        if who == "rewind":
            runner.rewind(RUN_ID, version)
        elif who == "sweep":
            assert {} == runner.sweep().errors
        outcome = runner.resume(RUN_ID)
        assert isinstance(outcome, Suspended)
        assert 0 == runner.look(RUN_ID).run_state.run.rewind_to
        assert DONE == sorted(environment.effect_names())
        for _ in range(9):
            (wait,) = outcome.waits
            assert [wait.id] == [each.id for each in runner.waiting()]
            is_question = wait.kind == "question"
            runner.decide(wait.id, Answer("red") if is_question else Deny())
            outcome = runner.resume(RUN_ID)
            if not isinstance(outcome, Suspended):
                break
        assert isinstance(outcome, Finished)
        for _ in range(2):
            clock.seconds += 120
            assert {} == runner.sweep().errors
        assert [] == asyncio.run(store.keys("markers/"))
        assert [] == asyncio.run(store.keys("waits/"))
        assert DONE == sorted(environment.effect_names())


@pytest.mark.fresh_interpreters
def test_rewinds_and_resumes_in_fresh_interpreters_repeat_nothing(
    environment: RunEnvironment,
) -> None:
    settings = {"app": "tests.engine.past_agents:agents", "script": ASKING}
    environment.run("start", RUN_ID, "go", **settings)
    runner = Runner([], store=environment.store)
    version = version_with(runner, "pay", "waiting")
    runner.decide(only_wait(runner).id, Approve(by="kim"))
    environment.run("resume", RUN_ID, **settings)
    assert DONE == sorted(environment.effect_names())
    for _ in range(3 if RUNS_ALL_CASES else 2):
        environment.run("rewind", RUN_ID, str(version), **settings)
        environment.run("resume", RUN_ID, **settings)
        assert DONE == sorted(environment.effect_names())
        wait = only_wait(runner)
        assert ("boss", "office", "clerk", "pay") == wait.path
        runner.decide(wait.id, Deny(by="lee"))
        found = environment.run("resume", RUN_ID, **settings)
        assert ["mail"] == [each["tool"] for each in found["waits"]]
        assert DONE == sorted(environment.effect_names())


def test_async_runner_and_a_process_without_agents_rewind_too() -> None:
    runner, version = before_payment()

    rewound = asyncio.run(AsyncRunner([], store=runner.store).rewind(RUN_ID, version))

    assert version == rewound.rewound_to
    runner.decide(only_wait(runner).id, Deny())
    outcome = expect(runner.resume(RUN_ID), Suspended)
    assert ["mail"] == [wait.tool for wait in outcome.waits]


# Plans ------------------------------------------------------------------------


def objects_of(runner: Runner) -> list[str]:
    """Return the keys of the runner's store."""

    async def read() -> list[str]:
        return sorted([key async for key in Objects(runner.store).all_keys("")])

    return asyncio.run(read())


def test_plan_tells_what_the_rewind_does_and_writes_nothing() -> None:
    runner = asking_run()
    runner.send(RUN_ID, "Hurry", by="kim")
    assert isinstance(runner.resume(RUN_ID), Suspended)
    version = version_with(runner, "pay", "waiting")
    before = objects_of(runner)

    plan = runner.plan_rewind(RUN_ID, version)

    assert before == objects_of(runner)
    assert [only_wait(runner).id] == [wait.id for wait in plan.waits]
    assert ["pay", "mail", "choose"] == [each.tool for each in plan.calls]
    assert plan.refusal is None
    rewound = runner.rewind(RUN_ID, version, shown=plan.digest)
    assert (plan.calls, plan.messages) == (rewound.calls, rewound.messages)
    # The plan of the version that was rewound tells of it afterwards.
    again = runner.plan_rewind(RUN_ID, version, newest=plan.newest)
    assert replace(plan, digest="", decided=()) == replace(again, digest="", decided=())


def test_run_that_moved_on_since_the_plan_is_not_rewound() -> None:
    runner, version = before_payment()
    plan = runner.plan_rewind(RUN_ID, version)
    runner.pause(RUN_ID, by="lee")
    before = objects_of(runner)

    with pytest.raises(StaleRun, match="moved on since the plan"):
        runner.rewind(RUN_ID, version, shown=plan.digest)

    assert before == objects_of(runner)
    runner.rewind(RUN_ID, version, shown=runner.plan_rewind(RUN_ID, version).digest)


def test_plan_says_why_a_rewind_is_refused() -> None:
    runner = asking_run()
    newest = runner.look(RUN_ID).version
    assert "newest one" in (runner.plan_rewind(RUN_ID, newest).refusal or "")
    runner.decide(only_wait(runner).id, Answer("red", by="kim"))
    runner.resume(RUN_ID)
    assert "Fork it" in (runner.plan_rewind(RUN_ID, 2).refusal or "")


def deciding_run() -> tuple[Runner, int]:
    """Return a runner whose run asks a question, and the version before it."""
    runner = asking_run()
    return runner, version_with(runner, "pay", "waiting")


def test_decision_since_the_plan_makes_it_stale() -> None:
    """The person confirms the end of an open wait, and not that of a decided one."""
    runner, version = deciding_run()
    wait = only_wait(runner)
    plan = runner.plan_rewind(RUN_ID, version)
    assert () == plan.decided
    runner.decide(wait.id, Answer("red", by="lee"))
    before = objects_of(runner)

    with pytest.raises(StaleRun, match="something was decided for it"):
        runner.rewind(RUN_ID, version, shown=plan.digest)

    assert before == objects_of(runner)
    again = runner.plan_rewind(RUN_ID, version)
    assert (wait.id,) == again.decided
    assert version == runner.rewind(RUN_ID, version, shown=again.digest).rewound_to


def test_vote_since_the_plan_makes_it_stale() -> None:
    turns = [[call("wire", what="b")], "clerk done"]
    runner = make_runner({**SCRIPT, "C": turns})
    runner.start("go", run_id=RUN_ID, by="jane")
    wait = only_wait(runner)
    plan = runner.plan_rewind(RUN_ID, 1)
    runner.decide(wait.id, Approve(by="kim"))

    with pytest.raises(StaleRun):
        runner.rewind(RUN_ID, 1, shown=plan.digest)

    again = runner.plan_rewind(RUN_ID, 1)
    assert ["kim"] == [vote.by for vote in again.waits[0].votes]
    runner.rewind(RUN_ID, 1, shown=again.digest)


def test_grant_revoked_since_the_plan_makes_it_stale() -> None:
    turns = [[call("pay", what="a")], [call("choose", what="b")], "clerk done"]
    runner = make_runner({**SCRIPT, "C": turns})
    runner.start("go", run_id=RUN_ID)
    runner.decide(only_wait(runner).id, Approve(by="kim", remember=Grant("pay")))
    runner.resume(RUN_ID)
    plan = runner.plan_rewind(RUN_ID, 2)
    (grant,) = runner.grants(RUN_ID)
    runner.revoke(RUN_ID, grant.id, by="lee")

    with pytest.raises(StaleRun):
        runner.rewind(RUN_ID, 2, shown=plan.digest)


def test_digest_of_a_plan_is_for_its_version_only() -> None:
    runner, version = deciding_run()
    plan = runner.plan_rewind(RUN_ID, version)

    with pytest.raises(StaleRun, match="the plan is for another version"):
        runner.rewind(RUN_ID, version + 1, shown=plan.digest)


@pytest.mark.parametrize("shown", ["", "x", "f" * 64, f"1-{'0' * 32}-{'0' * 32}"])
def test_digest_of_no_version_says_so(shown: str) -> None:
    runner, version = deciding_run()

    with pytest.raises(InvalidInput, match="digest of no version of this run"):
        runner.rewind(RUN_ID, version, shown=shown)


def test_digest_of_a_later_version_says_so() -> None:
    runner, version = deciding_run()
    digest = runner.plan_rewind(RUN_ID, version).digest

    with pytest.raises(InvalidInput, match="digest of no version of this run"):
        runner.rewind(RUN_ID, version, shown="9" + digest)
