"""An agent shortens its history before its model is asked: `Agent(compaction=…)`."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    Budget,
    Compaction,
    Deny,
    Failed,
    Finished,
    Outcome,
    Replied,
    Runner,
    Suspended,
    resume,
    run,
    tool,
)
from continuations.core.messages import Message, find_violation
from continuations.errors import CompactionFailed, ModelError
from continuations.events import Compacted, MessageAdded
from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.scripted import LaterReply, ScriptedModel, ToolCall
from continuations.prices import Usage
from continuations.threads import Thread, Ticket
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import text_tool
from tests.engine.compacted_agents import (
    PADDING,
    last_step,
    pay,
    step,
    steps,
    summary_of,
    worker,
)
from tests.engine.test_thread_cost import CountingStore
from tests.outcomes import expect, single_wait
from tests.run_environment import RunEnvironment
from tests.stores import OneByOneStore

pytestmark = pytest.mark.usefixtures("environment")

SHORT = "short summary: step {} done"


def empty_summary(messages: list[dict[str, Any]]) -> str:
    del messages
    return ""


def short_summary(messages: list[dict[str, Any]]) -> str:
    """Return a summary that names the last step of the replaced messages."""
    done = [each for each in messages if each["role"] == "tool"]
    return SHORT.format(len(done))


def effects(environment: RunEnvironment, name: str) -> list[Any]:
    return [int(each["what"]) for each in environment.effects() if each["tool"] == name]


def compactions(runner: Runner, run_id: str = "r") -> list[Compacted]:
    return [each for each in runner.events(run_id) if isinstance(each, Compacted)]


def model_of(agent: Agent) -> ScriptedModel:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


def turns_of(agent: Agent) -> list[ModelRequest]:
    """Return the requests of the agent's own turns."""
    requests = model_of(agent).requests
    return [each for each in requests if not each.agent.endswith("/summary")]


def test_summary_takes_the_place_of_the_older_messages(
    environment: RunEnvironment,
) -> None:
    """The system message, the task and the newest messages stay as they are."""
    agent = worker(steps(12))
    runner = Runner(agent, store=MemoryStore())

    outcome = expect(runner.start("Make 12 steps.", run_id="r"), Finished)

    assert "all 12 steps are done" == outcome.output
    assert list(range(1, 13)) == effects(environment, "step")
    messages = outcome.continuation.root.messages
    roles = [each["role"] for each in messages[:4]]
    assert ["system", "user", "user", "assistant"] == roles
    assert "Make 12 steps." == messages[1]["content"]
    assert messages[2]["content"].startswith("Summary of the earlier conversation.")
    assert len(compactions(runner)) >= 2
    assert all(len(each.messages) < 16 for each in model_of(agent).requests)


def test_every_request_is_valid_and_equals_what_is_stored() -> None:
    """The messages that are sent are those of the newest version at that moment."""
    agent = worker(steps(12))
    runner = Runner(agent, store=MemoryStore())

    runner.start("go", run_id="r")

    stored = _messages_of_all_versions(runner)
    for request in turns_of(agent):
        assert find_violation(request.messages) is None
        assert [each.data for each in request.messages] in stored


def _messages_of_all_versions(runner: Runner) -> list[list[dict[str, Any]]]:
    newest = runner.look("r").version
    assert newest is not None
    versions = range(1, newest + 1)
    return [runner.look("r", version=each).root.messages for each in versions]


def test_events_report_each_message_once() -> None:
    runner = Runner(worker(steps(12)), store=MemoryStore())
    runner.start("go", run_id="r")

    events = [*runner.events("r")]

    added = [each.message for each in events if isinstance(each, MessageAdded)]
    results = [each["tool_call_id"] for each in added if each["role"] == "tool"]
    assert [f"s{number}" for number in range(1, 13)] == results
    # Two first messages, twelve rounds, and the last reply.
    assert 2 + 24 + 1 == len(added)
    first, *_ = [each for each in events if isinstance(each, Compacted)]
    assert first.tokens_before > 800 > first.tokens_after
    assert first.replaced > 0
    assert "step" in str(first.summary)
    assert ("worker",) == first.path
    assert "f1" == first.frame


def test_older_versions_keep_the_replaced_messages() -> None:
    runner = Runner(worker(steps(12)), store=MemoryStore())
    runner.start("go", run_id="r")

    cursor = compactions(runner)[0].cursor
    version = int(cursor.partition(".")[0])

    before = runner.look("r", version=version - 1).root.messages
    after = runner.look("r", version=version).root.messages
    assert "s1" in [each.get("tool_call_id") for each in before]
    assert "s1" not in [each.get("tool_call_id") for each in after]


def test_second_summary_contains_the_first_one() -> None:
    agent = worker(steps(16))
    Runner(agent, store=MemoryStore()).start("go", run_id="r")

    requests = [each for each in model_of(agent).requests if "/" in each.agent]

    assert len(requests) >= 2
    assert "The agent made its steps" in requests[1].messages[-1].content
    assert () == requests[0].tools
    assert "shorten the history" in requests[0].messages[0].content


def test_summary_counts_in_usage_and_budget() -> None:
    """A limit of requests is reached by a summary as by a turn."""
    agent = worker(steps(12))
    runner = Runner(agent, store=MemoryStore())

    outcome = runner.start("go", run_id="r")
    assert len(model_of(agent).requests) == outcome.continuation.usage.requests

    limited = runner.start("go", run_id="r2", budget=Budget(requests=10))
    assert isinstance(limited, Failed)
    assert "budget" == limited.error.code
    assert 10 == limited.continuation.usage.requests


def test_failed_summary_changes_nothing_and_is_not_tried_in_each_turn(
    environment: RunEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent goes on above the soft budget, and the attempts are few."""
    tried: list[int] = []

    def summarize(messages: list[dict[str, Any]]) -> str:
        tried.append(len(messages))
        raise LookupError(messages[0]["content"])

    compaction = Compaction(soft=800, hard=100_000, keep_last=4, summarize=summarize)
    runner = Runner(worker(steps(20), compaction=compaction), store=MemoryStore())

    with caplog.at_level(logging.WARNING):
        outcome = runner.start("go", run_id="r")

    assert isinstance(outcome, Finished)
    assert 2 + 40 + 1 == len(outcome.continuation.root.messages)
    assert [] == compactions(runner)
    # One for each tenth of `soft`; a step has more tokens than that, so fewer.
    assert 2 <= len(tried) <= 20
    assert "LookupError" in caplog.text
    assert "step 1 done" not in caplog.text
    assert list(range(1, 21)) == effects(environment, "step")


def test_attempts_after_a_failure_come_after_a_tenth_of_soft() -> None:
    """A process that resumes the run does not begin to count anew."""
    tried: list[int] = []

    def summarize(messages: list[dict[str, Any]]) -> str:
        tried.append(len(messages))
        return ""

    def count(messages: list[dict[str, Any]]) -> int:
        return 10 * len(messages)

    ask = text_tool("ask", "step {number} done", {"number": int}, approval=True)

    def script(request: ModelRequest) -> Any:
        done = last_step(request.messages)
        return ToolCall("ask", {"number": done + 1}) if done < 30 else "end"

    compaction = Compaction(
        soft=200, hard=10_000, keep_last=4, summarize=summarize, count_tokens=count
    )
    agent = worker(script, tools=[ask], compaction=compaction)
    store = MemoryStore()
    outcome = Runner(agent, store=store).start("go", run_id="r")
    while isinstance(outcome, Suspended):
        fresh = Runner(agent, store=store)
        fresh.decide(outcome.waits[0].id, Approve(by="kim"))
        outcome = fresh.resume("r")

    # From 200 to 620 tokens, each attempt 30 tokens after the one before at least.
    assert isinstance(outcome, Finished)
    assert 10 <= len(tried) <= 21


def test_history_above_hard_ends_the_turn_and_the_run_can_be_resumed(
    environment: RunEnvironment, store: MemoryStore
) -> None:
    def agent(summarize: Any) -> Agent:
        compaction = Compaction(soft=800, hard=900, keep_last=4, summarize=summarize)
        return worker(steps(8), compaction=compaction)

    broken = agent(empty_summary)

    with pytest.raises(CompactionFailed, match="more than hard=900") as raised:
        Runner(broken, store=store).start("go", run_id="r")

    assert isinstance(raised.value, ModelError)
    runner = Runner(agent(short_summary), store=store)
    frame = runner.look("r").root
    assert "was not shortened" in str(frame.model_error)
    before = frame.messages
    with pytest.raises(CompactionFailed):
        Runner(broken, store=store).resume("r")
    assert before == runner.look("r").root.messages
    assert isinstance(runner.resume("r"), Finished)
    assert list(range(1, 9)) == effects(environment, "step")


def test_hopeless_history_costs_no_summary() -> None:
    """If the messages that stay are above hard, no model is asked."""
    agent = worker(steps(1), compaction=Compaction(soft=5, hard=10))

    with pytest.raises(CompactionFailed, match="stay as they are"):
        Runner(agent, store=MemoryStore()).start("go on and on " * 9, run_id="r")

    assert [] == model_of(agent).requests


def test_rate_limited_summary_above_hard_suspends_the_frame(
    environment: RunEnvironment, clock: ManualClock
) -> None:
    """The frame waits as it does for its own model, and nothing is asked twice."""
    limited = [True]

    def script(request: ModelRequest) -> Any:
        if request.agent.endswith("/summary") and limited[0]:
            raise ModelError("the provider is busy", status=429, retryable=True)
        return steps(8)(request)

    compaction = Compaction(soft=800, hard=900, keep_last=4)
    runner = Runner(
        worker(script, compaction=compaction),
        store=MemoryStore(clock.now),
        clock=clock,
        model_retry_time=timedelta(0),
    )

    outcome = expect(runner.start("go", run_id="r"), Suspended)

    assert ["model"] == [each.kind for each in outcome.waits]
    limited[0] = False
    clock.seconds += 120
    assert isinstance(runner.resume("r"), Finished)
    assert list(range(1, 9)) == effects(environment, "step")


def test_model_that_replies_later_writes_no_summary(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It counts as a failure, so the agent goes on, and polls nothing."""
    late = ScriptedModel([LaterReply("short")])
    writer = Agent("writer", model=late)
    compaction = Compaction(soft=800, hard=90_000, keep_last=4, summarize=writer)
    runner = Runner(worker(steps(8), compaction=compaction), store=MemoryStore())

    assert isinstance(runner.start("go", run_id="r"), Finished)

    assert [] == late.polls
    assert "replies later" in caplog.text


def test_agent_writes_the_summary_with_its_instructions() -> None:
    """Its model, instructions and settings are used, and its cost counts."""

    def reply(request: ModelRequest) -> ModelReply:
        text = f"step {last_step(request.messages)} done"
        data = {"role": "assistant", "content": text}
        usage = Usage(requests=1, input_tokens=50, output_tokens=7)
        return ModelReply(message=Message.from_mapping(data), usage=usage)

    model = ScriptedModel(reply)
    writer = Agent(
        "writer",
        instructions="Be brief.",
        model=model,
        settings={"temperature": 0, "tool_choice": "none"},
    )
    compaction = Compaction(soft=800, hard=1600, keep_last=4, summarize=writer)
    agent = worker(steps(8), compaction=compaction)

    outcome = Runner(agent, store=MemoryStore()).start("go", run_id="r")

    request = model.requests[0]
    assert "Be brief." == request.messages[0].content
    assert "writer" == request.agent
    assert {"temperature": 0} == request.settings
    assert 57 * len(model.requests) == outcome.continuation.usage.total_tokens


def test_agent_without_a_model_uses_that_of_the_shortened_agent() -> None:

    def script(request: ModelRequest) -> Any:
        return summary_of(request) if request.agent == "writer" else steps(8)(request)

    writer = Agent("writer", instructions="Be brief.")
    compaction = Compaction(soft=800, hard=1600, keep_last=4, summarize=writer)
    agent = worker(script, compaction=compaction)

    assert isinstance(run(agent, "go"), Finished)
    assert "writer" in [each.agent for each in model_of(agent).requests]


def test_async_function_writes_the_summary() -> None:
    """It reads the replaced messages, and its text takes their place."""
    read: list[list[dict[str, Any]]] = []

    async def summarize(messages: list[dict[str, Any]]) -> str:
        read.append(messages)
        done = [each for each in messages if each["role"] == "tool"]
        return SHORT.format(len(done))

    compaction = Compaction(soft=800, hard=1600, keep_last=4, summarize=summarize)
    agent = worker(steps(6), compaction=compaction)

    outcome = Runner(agent, store=MemoryStore()).start("go", run_id="r")

    assert isinstance(outcome, Finished)
    assert ["assistant", "tool"] == [each["role"] for each in read[0][:2]]
    texts = [str(each["content"]) for each in outcome.continuation.root.messages]
    assert any("short summary" in text for text in texts)
    assert all("short summary" not in text for text in texts[3:])


def test_provider_usage_counts_and_the_rest_is_estimated() -> None:
    """The tokens of the last reply count, not the length of the texts."""

    def script(request: ModelRequest) -> Any:
        if request.agent.endswith("/summary"):
            return summary_of(request)
        done = last_step(request.messages)
        made: Any = ToolCall("step", {"number": done + 1}) if done < 9 else "end"
        if made == "end":
            return made
        call = {"name": "step", "arguments": f'{{"number":{done + 1}}}'}
        item = {"id": f"s{done}", "type": "function", "function": call}
        data = {"role": "assistant", "content": None, "tool_calls": [item]}
        tokens = 5000 if done == 4 else 10
        usage = Usage(requests=1, input_tokens=tokens, output_tokens=5)
        return ModelReply(message=Message.from_mapping(data), usage=usage)

    compaction = Compaction(soft=2000, hard=9000, keep_last=2)
    runner = Runner(worker(script, compaction=compaction), store=MemoryStore())

    runner.start("go", run_id="r")

    (event,) = compactions(runner)
    assert 5005 < event.tokens_before < 5005 + 200
    assert "step 3 done" in str(event.summary)


def test_old_results_are_cut_before_a_summary_is_tried() -> None:
    """If that leaves enough room, no model is asked. Newest results stay whole."""

    @tool(read_only=True)
    def read(number: int) -> str:
        """Read a page."""
        return f"step {number} done " + "y" * 4000 + f" end of {number}"

    def script(request: ModelRequest) -> Any:
        assert not request.agent.endswith("/summary")
        done = last_step(request.messages)
        return ToolCall("read", {"number": done + 1}) if done < 5 else "end"

    compaction = Compaction(
        soft=4000, hard=9000, keep_last=2, shorten_results=300, max_result_chars=None
    )
    agent = worker(script, tools=[read], compaction=compaction)
    runner = Runner(agent, store=MemoryStore())

    outcome = runner.start("go", run_id="r")

    (event,) = compactions(runner)
    assert (0, None) == (event.replaced, event.summary)
    assert event.tokens_after <= 3000
    results = [
        str(each["content"])
        for each in outcome.continuation.root.messages
        if each["role"] == "tool"
    ]
    assert 5 == len(results)
    assert 300 == len(results[0])
    assert results[0].startswith("step 1 done")
    assert results[0].endswith("end of 1")
    assert "4021 characters; the middle was left out" in results[0]
    assert len(results[-1]) > 4000


def test_oversized_result_is_cut_before_it_is_stored() -> None:
    """An agent with a compaction reads the beginning and the end; others read all."""

    @tool(read_only=True)
    def read() -> str:
        """Read all."""
        return "begin " + "z" * 70_000 + " end"

    def agent(**options: Any) -> Agent:
        model = ScriptedModel([ToolCall("read"), "done"])
        return Agent("reader", tools=[read], model=model, **options)

    def result_of(agent: Agent) -> str:
        outcome = run(agent, "go")
        return str(outcome.continuation.root.messages[2]["content"])

    wide = Compaction(soft=90_000, hard=100_000)
    small = Compaction(soft=90_000, hard=100_000, max_result_chars=200)
    unlimited = Compaction(soft=90_000, hard=100_000, max_result_chars=None)

    assert 70_010 == len(result_of(agent()))
    assert 50_000 == len(result_of(agent(compaction=wide)))
    short = result_of(agent(compaction=small))
    assert 200 == len(short)
    assert short.startswith("begin")
    assert short.endswith("end")
    assert 70_010 == len(result_of(agent(compaction=unlimited)))


def test_works_without_a_store(environment: RunEnvironment) -> None:
    """A continuation carries the summary and what the provider counted."""
    then = ("pay", {"cents": 5})
    agent = worker(steps(8, then))

    outcome = expect(run(agent, "go"), Suspended)

    data = outcome.continuation.to_bytes()
    made = len(effects(environment, "summary"))
    answers = {outcome.waits[0].id: Approve(by="kim")}
    assert isinstance(resume(data, worker(steps(8, then)), answers=answers), Finished)
    assert [5] == effects(environment, "pay")
    assert made == len(effects(environment, "summary"))


def test_agent_without_compaction_stores_nothing_new() -> None:
    agent = Agent("plain", tools=[step], model=ScriptedModel(steps(3)))

    outcome = run(agent, "go")

    assert outcome.continuation.run_state.frames["f1"].history is None


def test_only_the_frame_of_the_agent_is_shortened(environment: RunEnvironment) -> None:
    """The history of the calling agent, and its open call, are as before."""
    inner = worker(steps(10), name="inner")
    model = ScriptedModel([ToolCall("inner", {"input": "Make 10 steps."}), "the end"])
    boss = Agent("boss", tools=[inner], model=model)
    runner = Runner(boss, store=MemoryStore())

    outcome = expect(runner.start("go", run_id="r"), Finished)

    paths = {each.path for each in compactions(runner)}
    assert {("boss", "inner")} == paths
    assert 4 == len(outcome.continuation.root.messages)
    assert list(range(1, 11)) == effects(environment, "step")


# Counters, waits, evidence and threads ----------------------------------------


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
    wait = single_wait(runner.start("go", run_id="r"))
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
    found = single_wait(runner.start("go", run_id="r")).evidence

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
    runner.decide(single_wait(held.reply()).id, Approve(by="kim"))

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
