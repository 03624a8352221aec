"""`fork` goes on from a version of a run, and repeats nothing unasked."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Finished,
    Grant,
    Replied,
    Runner,
    Suspended,
    Wait,
    tool,
)
from continuations.core.rows.wait_rules import WAIT_KINDS
from continuations.errors import (
    AlreadyDecided,
    DecisionRefused,
    InvalidId,
    InvalidInput,
    RunExists,
    RunNotFound,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import text_tool
from tests.engine.past_agents import RUN_ID, SCRIPT, only_wait, three_deep, version_with
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.scripts import call

PAID = ["mail first", "mail second", "pay rent", "read file"]


def make_runner(script: Any = SCRIPT, **options: Any) -> Runner:
    """Return a runner of three levels of agents."""
    options.setdefault("store", MemoryStore())
    return Runner(three_deep(script), **options)


def finished_run(script: Any = SCRIPT, **options: Any) -> Runner:
    """Return a runner of a run that was approved and has ended."""
    runner = make_runner(script, **options)
    runner.start("go", run_id=RUN_ID, by="jane")
    runner.decide(only_wait(runner).id, Approve(by="kim"))
    assert isinstance(runner.resume(RUN_ID), Finished)
    return runner


def resume_until_waits(runner: Runner, run: str) -> tuple[Wait, ...]:
    outcome = expect(runner.resume(run), Suspended)
    return outcome.waits


def answers_of(runner: Runner, run: str) -> list[str]:
    """Return the results that the clerk of a run read, from its versions."""
    found: list[str] = []
    for version in runner.history(run):
        for event in version.events:
            message = getattr(event, "message", {"role": ""})
            if message["role"] == "tool" and event.path[-1] == "clerk":
                found.append(str(message["content"]))
    return found


# What a fork asks about -----------------------------------------------------------


def test_ended_run_goes_on_from_a_wait_with_another_decision() -> None:
    """The approved payment of the first run is denied in the fork, and not made."""
    runner = finished_run()
    before = runner.look(RUN_ID)
    version = version_with(runner, "pay", "waiting")
    (wait,) = runner.look(RUN_ID, version=version).waits

    fork = runner.fork(
        RUN_ID,
        version,
        run_id="fork",
        decisions={wait.id: Deny(by="lee", reason="too dear")},
    )

    assert "fork" == fork
    # The source did not change, and nothing ran yet
    assert before == runner.look(RUN_ID)
    assert PAID == sorted(effect_log.names())
    # The decision is recorded for a new wait of the fork
    (line,) = runner.audit("fork", past=False)
    assert ("deny", "lee", "python") == (line.verdict, line.by, line.door)
    assert line.wait != wait.id
    assert line.digest != wait.digest
    # And the mail that the source sent after this version is asked about
    (again,) = resume_until_waits(runner, "fork")
    assert ("approval", "mail", {"what": "second"}) == (
        again.kind,
        again.tool,
        again.arguments,
    )
    assert again.note is not None
    assert "after that version" in again.note
    assert PAID == sorted(effect_log.names())
    runner.decide(again.id, Approve(by="lee"))
    assert isinstance(runner.resume("fork"), Finished)
    assert sorted([*PAID, "mail second"]) == sorted(effect_log.names())
    assert any(text.startswith("DENIED") for text in answers_of(runner, "fork"))


def test_fork_without_a_decision_waits_under_a_new_id_with_its_full_time() -> None:
    """No approval of the source counts, and the time to decide begins anew."""
    clock = ManualClock()
    policy = ApprovalPolicy(within=timedelta(days=2))
    grant = text_tool("grant", "{what}", {"what": str}, approval=policy)
    model = ScriptedModel([ToolCall("grant", {"what": "x"}), "done"])
    agent = Agent("boss", tools=[grant], model=model)
    runner = Runner(agent, store=MemoryStore(clock.now), clock=clock)
    runner.start("go", run_id=RUN_ID)
    wait = only_wait(runner)
    runner.decide(wait.id, Approve(by="kim"))
    clock.seconds += timedelta(days=5).total_seconds()

    runner.fork(RUN_ID, run_id="fork")

    again = only_wait(runner, "fork")
    assert (again.id, again.digest) != (wait.id, wait.digest)
    assert again.created_at == clock.now()
    assert again.deadline == clock.now() + timedelta(days=2)
    assert [again.id] == [each.id for each in runner.waiting()]


@pytest.mark.parametrize(
    ("name", "kind"), [("mail", "unknown"), ("book", "unknown"), ("read", None)]
)
def test_started_call_is_unknown_unless_it_only_reads(
    name: str, kind: str | None
) -> None:
    """An idempotent call has another key in another run: it may happen twice."""
    script = {**SCRIPT, "C": [[call(name, what="x")], "clerk done"]}
    runner = make_runner(script)
    assert isinstance(runner.start("go", run_id=RUN_ID), Finished)
    version = version_with(runner, name, "started")

    runner.fork(RUN_ID, version, run_id="fork")
    outcome = runner.resume("fork")

    if kind is None:
        assert isinstance(outcome, Finished)
        assert ["read x", "read x"] == effect_log.names()
        return
    assert isinstance(outcome, Suspended)
    (wait,) = outcome.waits
    assert (kind, name) == (wait.kind, wait.tool)
    assert [f"{name} x"] == effect_log.names()
    runner.decide(wait.id, Answer("it happened", by="kim"))
    assert isinstance(runner.resume("fork"), Finished)
    assert [f"{name} x"] == effect_log.names()


def test_call_that_a_later_version_made_is_asked_about() -> None:
    """The fork goes on before its model asked for the call."""
    runner = finished_run()
    version = version_with(runner, "office", "nested")

    runner.fork(RUN_ID, version, run_id="fork")
    (wait,) = resume_until_waits(runner, "fork")

    assert ("approval", "mail", ("boss", "office", "clerk", "mail")) == (
        wait.kind,
        wait.tool,
        wait.path,
    )
    # A read-only call of the same turn ran again
    assert sorted([*PAID, "read file"]) == sorted(effect_log.names())


def test_tool_that_no_later_version_used_needs_no_approval() -> None:
    """Only the tools that were approved or started later are asked about."""
    runner = make_runner()
    runner.start("go", run_id=RUN_ID)
    wait = only_wait(runner)

    runner.fork(RUN_ID, run_id="fork", decisions={wait.id: Approve(by="kim")})

    assert isinstance(runner.resume("fork"), Finished)
    assert PAID == sorted(effect_log.names())


def test_approved_call_that_did_not_begin_waits_again() -> None:
    """Two calls are approved; a pause comes before the second one begins."""
    turn = [call("pay", what="a"), call("pay", what="b")]
    script = {**SCRIPT, "C": [turn, "clerk done"]}
    runner = make_runner(script)
    runner.start("go", run_id=RUN_ID)
    for wait in runner.look(RUN_ID).waits:
        runner.decide(wait.id, Approve(by="kim"))
    pauses = iter([False])
    runner.resume(RUN_ID, should_pause=lambda: next(pauses, True))
    version = version_with(runner, "pay", "ready")

    runner.fork(RUN_ID, version, run_id="fork")

    done = len(effect_log.names())
    outcome = expect(runner.resume("fork"), Suspended)
    assert done == len(effect_log.names())
    assert ["approval", "approval"] == [each.kind for each in outcome.waits]
    assert all("valid in one run only" in str(each.note) for each in outcome.waits)


def test_no_grant_is_copied() -> None:
    """A grant of the source covers no call of the fork."""
    turns = [
        [call("pay", what="a")],
        [call("choose", what="colour")],
        [call("pay", what="b")],
        "clerk done",
    ]
    runner = make_runner({**SCRIPT, "C": turns})
    runner.start("go", run_id=RUN_ID)
    granted = Approve(by="kim", remember=Grant("pay"))
    runner.decide(only_wait(runner).id, granted)
    (question,) = resume_until_waits(runner, RUN_ID)

    runner.fork(RUN_ID, run_id="fork", decisions={question.id: Answer("red")})

    assert [] == list(runner.grants("fork"))
    (wait,) = resume_until_waits(runner, "fork")
    assert ("approval", {"what": "b"}) == (wait.kind, wait.arguments)
    assert ["pay a", "choose colour"] == effect_log.names()
    # In the source the grant counts
    runner.decide(question.id, Answer("blue"))
    assert isinstance(runner.resume(RUN_ID), Finished)


# What a fork changes ---------------------------------------------------------------


def test_result_of_a_call_is_replaced_and_its_tool_does_not_run() -> None:
    """The approval is not needed any more, in the deepest frame."""
    runner = make_runner()
    runner.start("go", run_id=RUN_ID)
    wait = only_wait(runner)

    runner.fork(RUN_ID, run_id="fork", results={wait.call_id: {"paid": "by hand"}})

    assert () == runner.look("fork").waits
    assert isinstance(runner.resume("fork"), Finished)
    assert '{"paid":"by hand"}' in answers_of(runner, "fork")
    assert "pay rent" not in effect_log.names()


def test_result_of_an_agent_ends_everything_below_it() -> None:
    runner = make_runner()
    runner.start("go", run_id=RUN_ID)
    (office,) = runner.look(RUN_ID).root.calls

    runner.fork(RUN_ID, run_id="fork", results={office.id: "nothing to do"})

    shown = runner.look("fork")
    assert () == shown.waits
    assert 1 == len(shown.run_state.frames)
    assert isinstance(runner.resume("fork"), Finished)
    assert "pay rent" not in effect_log.names()
    # And the first run still waits
    assert [only_wait(runner).id] == [each.id for each in runner.waiting()]


def test_messages_of_any_frame_are_added_or_replaced() -> None:
    runner = make_runner()
    runner.start("go", run_id=RUN_ID)
    source = runner.look(RUN_ID)
    (office,) = source.root.calls
    assert office.frame is not None
    (clerk,) = office.frame.calls
    assert clerk.frame is not None
    messages = clerk.frame.messages
    changed = [{"role": "system", "content": "Be kind."}, *messages]
    changed[-1] = messages[-1]

    runner.fork(RUN_ID, run_id="fork", messages={clerk.frame.id: changed})

    (fork_office,) = runner.look("fork").root.calls
    assert fork_office.frame is not None
    (fork_clerk,) = fork_office.frame.calls
    assert fork_clerk.frame is not None
    assert changed == fork_clerk.frame.messages
    assert messages == clerk.frame.messages


def test_message_continues_a_conversation_of_a_thread_without_its_key() -> None:
    """A fork of a thread is a run: it has no key and no inbox."""
    model = ScriptedModel(lambda request: f"reply {len(request.messages)}")
    runner = Runner(Agent("support", model=model), store=MemoryStore())
    thread = runner.thread("support", key="customer 42")
    first = expect(thread.send("Where is it?"), Replied)
    thread.send("Thanks")

    fork = runner.fork(first.run_id, run_id="fork", messages={"f1": "And now?"})
    outcome = expect(runner.resume(fork), Finished)

    row = outcome.continuation.run_state.run
    assert (None, 0) == (row.thread_key, row.last_inbox_number)
    assert "And now?" == outcome.continuation.root.messages[-2]["content"]
    # The thread goes on by itself
    assert isinstance(thread.send("Bye"), Replied)


def test_requester_of_the_fork_may_not_approve_it() -> None:
    """A rule for approvers names the requester of the fork, and counts at once."""
    runner = make_runner({**SCRIPT, "C": [[call("wire", what="x")], "done"]})
    runner.start("go", run_id=RUN_ID, by="jane")
    wait = only_wait(runner)
    approve = {wait.id: Approve(by="lee")}

    with pytest.raises(DecisionRefused, match="lee requested the run"):
        runner.fork(RUN_ID, run_id="fork", by="lee", decisions=approve)
    with pytest.raises(RunNotFound):
        runner.look("fork")
    runner.fork(RUN_ID, run_id="fork", by="ann", decisions=approve)

    again = runner.wait(only_wait(runner, "fork").id)
    assert ["lee"] == [vote.by for vote in again.votes]


def test_fork_remembers_its_origin_and_has_a_nonce_of_its_own() -> None:
    runner = make_runner()
    runner.start("go", run_id=RUN_ID, labels={"team": "a"}, title="Pay")

    runner.fork(RUN_ID, 2, run_id="fork")

    source, fork = runner.look(RUN_ID), runner.look("fork")
    assert f"{RUN_ID}@2" == fork.run_state.run.forked_from
    assert source.run_state.run.run_nonce != fork.run_state.run.run_nonce
    assert None is source.run_state.run.forked_from
    assert {"fork", RUN_ID} == {row.run_id for row in runner.runs(label="team=a")}


def test_messages_to_the_source_are_not_read_by_the_fork() -> None:
    """The inbox starts at 0, so the first message of the fork is read."""
    runner = make_runner({"go": ["one", "two"]})
    runner.start("go", run_id=RUN_ID, work=False)
    runner.send(RUN_ID, "first")
    runner.send(RUN_ID, "second")
    runner.resume(RUN_ID)
    version = max(v.number for v in runner.history(RUN_ID) if v.status == "running")

    runner.fork(RUN_ID, version, run_id="fork")
    assert 1 == runner.send("fork", "to the fork")
    outcome = runner.resume("fork")

    texts = [each["content"] for each in outcome.continuation.root.messages]
    assert "to the fork" in texts


def test_operator_can_pause_a_fork_of_a_paused_run() -> None:
    """The requests of operators are numbered anew, as the fork's inbox is."""
    runner = make_runner()
    runner.start("go", run_id=RUN_ID)
    runner.pause(RUN_ID)
    runner.resume(RUN_ID)
    runner.unpause(RUN_ID)
    runner.resume(RUN_ID)

    runner.fork(RUN_ID, run_id="fork")
    runner.pause("fork", reason="audit")
    outcome = expect(runner.resume("fork"), Suspended)

    assert ("audit",) == outcome.reasons


# Errors ------------------------------------------------------------------------


def test_wrong_arguments_write_nothing() -> None:
    runner = finished_run()
    newest = runner.look(RUN_ID).version
    version = version_with(runner, "pay", "waiting")
    wait = runner.look(RUN_ID, version=version).waits[0]
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"version": newest}, InvalidInput, "it is finished in version"),
        ({"version": 99}, RunNotFound, "no version 99"),
        ({"version": "2"}, InvalidInput, "version must be an integer"),
        ({"decisions": {"approval-x": Deny()}}, InvalidInput, "no open wait"),
        ({"decisions": [wait.id]}, InvalidInput, "decisions must be a dict"),
        ({"decisions": {wait.id: Answer(7)}, "version": 1}, InvalidInput, "open wait"),
        ({"decisions": {wait.id: True}}, DecisionRefused, "got bool"),
        ({"results": {"c99": "x"}}, InvalidInput, "which is no call"),
        ({"results": {wait.call_id: {1: object()}}}, InvalidInput, "cannot be stored"),
        ({"messages": {"f99": "x"}}, InvalidInput, "which is no frame"),
        ({"messages": {"f1": "x"}}, InvalidInput, "has open calls"),
        ({"messages": {"f1": []}}, InvalidInput, "open calls"),
        ({"messages": {"f1": [{"role": "x"}]}}, InvalidInput, "open calls"),
        ({"messages": {"f1": [{}]}, "version": 1}, InvalidInput, "invalid"),
        ({"by": ""}, InvalidInput, "by"),
        (
            {"decisions": {wait.id: Deny()}, "results": {wait.call_id: "x"}},
            InvalidInput,
            "no open wait",
        ),
    ]
    for arguments, error, text in cases:
        given: dict[str, Any] = {"version": version, **arguments}
        with pytest.raises(error, match=text):
            runner.fork(RUN_ID, run_id="fork", **given)
    with pytest.raises(RunNotFound):
        runner.fork("other")
    with pytest.raises(InvalidId):
        runner.fork(RUN_ID, version, run_id="a/b")
    with pytest.raises(RunNotFound):
        runner.look("fork")
    assert [] == [row for row in runner.runs() if row.run_id == "fork"]


def test_resting_thread_needs_a_message() -> None:
    model = ScriptedModel(lambda _: "reply")
    runner = Runner(Agent("support", model=model), store=MemoryStore())
    reply = runner.thread("support", key="k").send("hi")

    with pytest.raises(InvalidInput, match="the thread rests in version"):
        runner.fork(reply.run_id, run_id="fork")


def test_repeat_is_the_same_fork_and_other_arguments_are_refused() -> None:
    runner = finished_run()
    version = version_with(runner, "pay", "waiting")
    (wait,) = runner.look(RUN_ID, version=version).waits
    deny = {wait.id: Deny(by="lee")}

    first = runner.fork(RUN_ID, version, run_id="fork", decisions=deny)
    waits = runner.look("fork").waits
    assert first == runner.fork(RUN_ID, version, run_id="fork", decisions=deny)
    assert waits == runner.look("fork").waits
    assert 1 == len(runner.audit("fork", past=False))
    others: tuple[dict[str, Any], ...] = (
        {"decisions": {wait.id: Approve(by="lee")}},
        {},
        {"results": {wait.call_id: "x"}},
    )
    for other in others:
        with pytest.raises(RunExists, match="no equal fork"):
            runner.fork(RUN_ID, version, run_id="fork", **other)
    with pytest.raises(RunExists):
        runner.fork(RUN_ID, version, run_id=RUN_ID)
    with pytest.raises(RunExists):
        runner.start("go", run_id="fork")
    # A repeat after the fork went on is still the same
    resume_until_waits(runner, "fork")
    assert first == runner.fork(RUN_ID, version, run_id="fork", decisions=deny)


def test_repeat_reports_a_decision_that_somebody_else_made(store: MemoryStore) -> None:
    """After a crash before its decision, a person decided the wait of the fork."""
    runner = make_runner(store=store)
    runner.start("go", run_id=RUN_ID)
    wait = only_wait(runner)
    deny = {wait.id: Deny(by="lee")}
    for point in every_crash("after", more_than=3):
        name = f"fork-{point.number}"
        with point.process(store) as dying:
            make_runner(store=dying).fork(RUN_ID, run_id=name, decisions=deny)
        runner.sweep()
        waits = [each for each in runner.waiting() if each.run_id == name]
        if not waits:
            continue
        runner.decide(waits[0].id, Approve(by="kim"))
        with pytest.raises(AlreadyDecided):
            runner.fork(RUN_ID, run_id=name, decisions=deny)


# Processes and crashes --------------------------------------------------------------


def test_crash_at_each_operation_of_a_fork_is_completed_by_a_repeat(
    environment: RunEnvironment,
) -> None:
    """One fork with one wait, one decision, and nothing that was approved repeats."""
    for point in every_crash("before", "after", more_than=12, step=3):
        (environment.folder / "effects").unlink(missing_ok=True)
        clock = ManualClock()
        store = MemoryStore(clock.now)
        runner = finished_run(store=store, clock=clock)
        version = version_with(runner, "pay", "waiting")
        (wait,) = runner.look(RUN_ID, version=version).waits
        deny = {wait.id: Deny(by="lee")}
        with point.process(store) as dying:
            make_runner(store=dying, clock=clock).fork(
                RUN_ID, version, run_id="fork", decisions=deny
            )
        clock.seconds += 120
        runner.sweep()

        runner.fork(RUN_ID, version, run_id="fork", decisions=deny)

        (line,) = runner.audit("fork", past=False)
        assert ("deny", "lee") == (line.verdict, line.by)
        outcome = expect(runner.resume("fork"), Suspended)
        assert ["mail"] == [each.tool for each in outcome.waits]
        assert [outcome.waits[0].id] == [each.id for each in runner.waiting()]
        assert PAID == sorted(environment.effect_names())
        runner.decide(outcome.waits[0].id, Deny())
        assert isinstance(runner.resume("fork"), Finished)
        for _ in range(2):
            clock.seconds += 120
            assert {} == runner.sweep().errors
        assert [] == asyncio.run(store.keys("markers/"))
        assert [] == asyncio.run(store.keys("waits/"))


def test_process_without_agents_forks_too() -> None:
    runner = finished_run()
    version = version_with(runner, "pay", "waiting")

    Runner([], store=runner.store).fork(RUN_ID, version, run_id="fork")

    runner.decide(only_wait(runner, "fork").id, Approve(by="kim"))
    (wait,) = resume_until_waits(runner, "fork")
    assert "mail" == wait.tool
    assert sorted([*PAID, "pay rent"]) == sorted(effect_log.names())


async def test_async_runner_forks() -> None:
    runner = AsyncRunner(three_deep(), store="memory:")
    await runner.start("go", run_id=RUN_ID)
    assert RUN_ID != (await runner.fork(RUN_ID))


@pytest.mark.fresh_interpreters
def test_forks_and_resumes_in_fresh_interpreters_repeat_nothing(
    environment: RunEnvironment,
) -> None:
    """Three levels of agents, three generations of forks, one process for each step."""
    settings = {"app": "tests.engine.past_agents:agents", "script": SCRIPT}
    environment.run("start", RUN_ID, "go", **settings)
    runner = Runner([], store=environment.store)
    runner.decide(only_wait(runner).id, Approve(by="kim"))
    environment.run("resume", RUN_ID, **settings)
    assert PAID == sorted(environment.effect_names())
    source = RUN_ID
    for generation in range(3):
        fork = f"fork-{generation}"
        version = version_with(runner, "pay", "waiting", source)
        environment.run("fork", source, str(version), fork, **settings)
        # Nothing runs until a person decides
        environment.run("resume", fork, **settings)
        assert PAID == sorted(environment.effect_names())
        wait = only_wait(runner, fork)
        assert ("approval", ("boss", "office", "clerk", "pay")) == (
            wait.kind,
            wait.path,
        )
        runner.decide(wait.id, Deny(by="lee"))
        found = environment.run("resume", fork, **settings)
        assert ["mail"] == [each["tool"] for each in found["waits"]]
        runner.decide(found["waits"][0]["id"], Deny(by="lee"))
        ended = environment.run("resume", fork, **settings)
        assert "Finished" == ended["kind"]
        source = fork
    assert PAID == sorted(environment.effect_names())


def test_call_of_a_live_worker_is_not_approved_before_its_claim_ends() -> None:
    """The worker of the source may still run the call."""
    script = {**SCRIPT, "C": [[call("mail", what="x")], "clerk done"]}
    runner = make_runner(script)
    runner.start("go", run_id=RUN_ID)
    version = version_with(runner, "mail", "started")

    fork = runner.fork(RUN_ID, version)

    wait = only_wait(runner, fork)
    assert wait.kind == "unknown"
    assert wait.approve_after is not None
    with pytest.raises(DecisionRefused):
        runner.decide(wait.id, Approve(by="kim"))


# Open waits -------------------------------------------------------------------


APP = "tests.engine.waits_of_all_kinds:agents"


def described(wait: Wait) -> dict[str, Any]:
    """Return what a wait asks, without its id, run and time."""
    return {
        "kind": wait.kind,
        "path": wait.path,
        "call": wait.call_id,
        "frame": wait.frame_id,
        "tool": wait.tool,
        "arguments": wait.arguments,
    }


def by_subject(waits: tuple[Wait, ...]) -> list[dict[str, Any]]:
    """Return the descriptions of waits in a fixed order."""
    return sorted(map(described, waits), key=str)


def test_fork_has_an_open_wait_of_each_kind_that_its_source_has(
    environment: RunEnvironment,
) -> None:
    """A call that is not approved or answered by a person waits in the fork too."""
    environment.start({}, app=APP, ahead="0", limited="429")
    runner = Runner([], store=environment.store)
    source = runner.look("r1")
    before = environment.objects()

    runner.fork("r1", source.version, run_id="fork")
    fork = runner.look("fork")

    kinds = {wait.kind for wait in fork.waits}
    assert WAIT_KINDS - {"input", "output"} == kinds
    assert len(source.waits) == len(fork.waits)
    assert {wait.id for wait in source.waits}.isdisjoint(w.id for w in fork.waits)
    assert by_subject(source.waits) == by_subject(fork.waits)
    # The frames, the calls and every message are those of the source
    ours, theirs = fork.run_state, source.run_state
    assert ours.frames.keys() == theirs.frames.keys()
    assert ours.calls.keys() == theirs.calls.keys()
    for frame_id, log in theirs.logs.items():
        texts = [message.text for message in ours.logs[frame_id].messages]
        assert [message.text for message in log.messages] == texts
    # Nothing of the source changed
    after = environment.objects()
    assert before == {key: after[key] for key in before}


@tool(approval=ApprovalPolicy(approvers=["kim", "lee"], votes=2))
def spend(what: str) -> str:
    """Spend; two persons must approve."""
    return f"spent {what}"


def voting_runner(store: Any, clock: ManualClock) -> Runner:
    """Return a runner whose agent spends once."""
    model = ScriptedModel([ToolCall("spend", {"what": "x"}), "done"])
    return Runner(Agent("boss", tools=[spend], model=model), store=store, clock=clock)


def half_approved() -> tuple[MemoryStore, ManualClock, Runner]:
    """Return a run whose wait has one vote of two."""
    clock = ManualClock()
    store = MemoryStore(clock.now)
    runner = voting_runner(store, clock)
    runner.start("go", run_id="r1")
    (wait,) = runner.look("r1").waits
    runner.decide(wait.id, Approve(by="kim"))
    return store, clock, runner


def test_vote_does_not_move_to_a_fork() -> None:
    """Both persons vote again: a vote is for one digest in one run."""
    _, _, runner = half_approved()
    runner.fork("r1", run_id="fork")
    (wait,) = runner.look("fork").waits

    runner.decide(wait.id, Approve(by="lee"))

    assert isinstance(runner.resume("fork"), Suspended)
    (again,) = runner.look("fork").waits
    assert ("approval", "fork") == (again.kind, again.run_id)
    assert [] == [x for x in runner.audit("fork", past=False) if x.by == "kim"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_erase_of_a_source_that_dies_at_any_operation_leaves_its_fork_whole(
    moment: Any,
) -> None:
    """A repeat completes the erasure, and the fork comes to its end."""
    for point in every_crash(moment, more_than=8):
        store, clock, runner = half_approved()
        runner.fork("r1", run_id="fork")
        before = runner.look("fork").run_state
        with point.process(store) as dying:
            Runner([], store=dying, clock=clock).erase("r1")
        clock.seconds += 120
        runner.erase("r1")

        assert before == runner.look("fork").run_state, point
        (wait,) = runner.look("fork").waits
        assert [wait.id] == [each.id for each in runner.waiting()], point
        for person in ("kim", "lee"):
            runner.decide(wait.id, Approve(by=person))
        runner.resume("fork")
        assert "done" == runner.look("fork").output, point
