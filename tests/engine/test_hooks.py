"""Hooks observe or change requests, replies, calls and results."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Failed,
    Fallback,
    Finished,
    Runner,
    Suspended,
    resume,
    run,
    tool,
)
from continuations.errors import HookFailed, ModelError
from continuations.hooks import (
    CallInfo,
    ChangeArguments,
    ChangeReply,
    ChangeRequest,
    ChangeResult,
    Continue,
    Hooks,
    RefuseReply,
    TurnInfo,
)
from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.scripted import LaterReply, ScriptedModel, ToolCall
from tests.engine.agent_builders import contents, text_tool
from tests.outcomes import expect, single_wait

SECRET = "sk-live-1234"


def pay_agent(
    replies: Any, hooks: Hooks, paid: list[int], approval: Any = True
) -> Agent:
    """Return an agent with a tool that waits for an approval."""
    pay = text_tool("pay", "paid {cents}", {"cents": int}, into=paid, approval=approval)
    return Agent("clerk", tools=[pay], model=ScriptedModel(replies), hooks=hooks)


def cap(call: CallInfo) -> ChangeArguments | None:
    """Allow 100 cents at most."""
    return ChangeArguments({"cents": 100}) if call.arguments["cents"] > 100 else None


CALL = [ToolCall("pay", {"cents": 900}), "done"]


# before_tool ------------------------------------------------------------------------


def test_changed_arguments_are_those_that_are_approved_and_run() -> None:
    """The wait shows them, the digest covers them, and the tool gets them."""
    paid: list[int] = []
    runner = Runner(pay_agent(CALL, Hooks(before_tool=cap), paid), store="memory:")
    wait = single_wait(runner.start("go", run_id="r"))
    assert {"cents": 100} == wait.arguments

    runner.decide(wait.id, Approve(by="kim"))
    assert isinstance(runner.resume("r"), Finished)

    assert [100] == paid


def test_arguments_that_a_person_edits_are_not_changed_again() -> None:
    """The hook has done its part: what the person approves is what runs."""
    paid: list[int] = []
    runner = Runner(pay_agent(CALL, Hooks(before_tool=cap), paid), store="memory:")
    suspended = expect(runner.start("go", run_id="r"), Suspended)

    runner.decide(suspended.waits[0].id, Approve(by="kim", arguments={"cents": 500}))
    finished = expect(runner.resume("r"), Finished)

    assert [500] == paid
    assert "changed its arguments" in contents(finished)[2]


def test_policy_and_rules_read_the_changed_arguments() -> None:
    """A hook that makes a call smaller makes it free of the approval."""
    paid: list[int] = []

    def is_large(cents: int) -> bool:
        return cents > 100

    large = ApprovalPolicy(when=is_large)
    agent = pay_agent(CALL, Hooks(before_tool=cap), paid, approval=large)

    assert isinstance(run(agent, "go"), Finished)
    assert [100] == paid


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (ChangeArguments({"cents": "many"}), "arguments that do not fit the tool"),
        (ChangeArguments({"cents": 1, "more": 2}), "arguments that do not fit"),
        (ChangeArguments({"cents": object()}), "arguments that do not fit the tool"),
        (ChangeResult("paid"), "ChangeResult instead of None or ChangeArguments"),
        (ValueError(SECRET), "raised ValueError"),
    ],
)
def test_call_does_not_run_if_its_hook_fails(change: Any, why: str) -> None:
    """The model reads that the call was not executed, without the text of an error."""
    paid: list[int] = []

    def before_tool(_: CallInfo) -> Any:
        if isinstance(change, Exception):
            raise change
        return change

    agent = pay_agent(CALL, Hooks(before_tool=before_tool), paid, approval=None)
    finished = expect(run(agent, "go"), Finished)

    told = contents(finished)[2]
    assert told.startswith("ERROR: the call was not executed: the hook before_tool")
    assert why in told
    assert SECRET not in told
    assert [] == paid


def test_hook_is_not_called_for_invalid_arguments() -> None:
    """Arguments are validated first, so a hook reads valid ones only."""
    calls: list[CallInfo] = []
    replies = [ToolCall("pay", {"cents": "many"}), "done"]
    hooks = Hooks(before_tool=calls.append)

    assert isinstance(run(pay_agent(replies, hooks, []), "go"), Finished)

    assert [] == calls


# after_tool -------------------------------------------------------------------------


def test_changed_result_is_the_one_that_is_recorded() -> None:
    """The model reads the other text, and no version has the first one."""
    hooks = Hooks(after_tool=lambda result: ChangeResult(result.text[:4] + " ***"))
    finished = expect(run(pay_agent(CALL, hooks, [], approval=None), "go"), Finished)

    assert "paid ***" == contents(finished)[2]
    assert b"paid 900" not in finished.continuation.to_bytes()


def test_result_is_withheld_if_its_hook_raises() -> None:
    """The tool ran, and a result that the hook could not check reaches no model."""
    paid: list[int] = []

    async def after_tool(_: object) -> None:
        raise ValueError(SECRET)

    hooks = Hooks(after_tool=after_tool)
    finished = expect(run(pay_agent(CALL, hooks, paid, approval=None), "go"), Finished)

    told = contents(finished)[2]
    assert [900] == paid
    assert told.startswith("ERROR: the tool ran, and its result is withheld")
    assert "paid 900" not in told
    assert SECRET not in told


def test_hook_reads_the_error_of_a_tool() -> None:
    """So it can keep the text of an exception from the model."""

    @tool
    def fail() -> str:
        """Fail."""
        raise ConnectionError(SECRET)

    hooks = Hooks(
        after_tool=lambda result: ChangeResult("it failed") if result.failed else None
    )
    model = ScriptedModel([ToolCall("fail", {}), "done"])
    finished = run(Agent("a", tools=[fail], model=model, hooks=hooks), "go")

    assert isinstance(finished, Finished)
    assert "it failed" == contents(finished)[2]


# before_model -----------------------------------------------------------------------


def test_added_messages_are_stored_as_they_were_sent() -> None:
    """The next request begins with the messages of the one before."""
    model = ScriptedModel([ToolCall("note", {}), "done"])
    note = text_tool("note", "noted")

    def before_model(turn: TurnInfo) -> ChangeRequest:
        return ChangeRequest(
            messages=[f"turn {turn.turns}"], settings={"temperature": turn.turns}
        )

    agent = Agent(
        "a", tools=[note], model=model, hooks=Hooks(before_model=before_model)
    )
    finished = expect(run(agent, "go"), Finished)

    first, second = model.requests
    assert ["go", "turn 0"] == [each.content for each in first.messages]
    assert second.messages[:2] == first.messages
    assert [{"temperature": 0}, {"temperature": 1}] == [
        dict(request.settings) for request in model.requests
    ]
    assert ["go", "turn 0", None, "noted", "turn 1", "done"] == contents(finished)


def test_added_messages_are_stored_once_for_a_reply_that_comes_later() -> None:
    """They are part of the request that the provider answers, so no poll adds more."""
    model = ScriptedModel([LaterReply("done")])
    hooks = Hooks(before_model=lambda _: ChangeRequest(messages=["be brief"]))
    runner = Runner(Agent("a", model=model, hooks=hooks), store="memory:")
    assert isinstance(runner.start("go", run_id="r"), Suspended)

    runner.wake("r")
    finished = expect(runner.resume("r"), Finished)

    assert ["go", "be brief", "done"] == contents(finished)


@pytest.mark.parametrize(
    "change",
    [
        ChangeRequest(messages=[{"role": "assistant", "content": "yes"}]),
        ChangeRequest(
            messages=[{"role": "tool", "tool_call_id": "c", "content": "yes"}]
        ),
        ChangeRequest(messages=[{"content": "no role"}]),
        ChangeRequest(messages="one text"),
        ChangeRequest(settings={"model": "other"}),
        RefuseReply("no"),
    ],
)
def test_invalid_change_is_refused_before_the_request(change: Any) -> None:
    """No request is sent, the run is kept, and corrected code finishes it."""
    model = ScriptedModel(["done"])
    wrong = Agent("a", model=model, hooks=Hooks(before_model=lambda _: change))
    with pytest.raises(HookFailed, match="before_model of agent 'a' returned") as error:
        run(wrong, "go")
    assert [] == model.requests
    assert "before_model" == error.value.hook

    fixed = Agent("a", model=model)
    assert isinstance(resume(error.value.continuation, fixed), Finished)


# after_model ------------------------------------------------------------------------


class Down:
    """A model that cannot be reached now."""

    name = "down"

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Fail."""
        del request
        msg = "the model is down"
        raise ModelError(msg, retryable=True)


def test_changed_reply_is_the_output() -> None:
    """The text of the model is not stored."""
    hooks = Hooks(after_model=lambda reply: ChangeReply(reply.text.upper()))
    finished = run(Agent("a", model=ScriptedModel(["done"]), hooks=hooks), "go")

    assert isinstance(finished, Finished)
    assert ("DONE", ["go", "DONE"]) == (finished.output, contents(finished))


def test_changed_reply_keeps_its_metadata() -> None:
    """Which model of a fallback replied is still known."""
    hooks = Hooks(after_model=lambda reply: ChangeReply(reply.text.upper()))
    plain, changed = (
        run(
            Agent(
                "a",
                model=Fallback([Down(), ScriptedModel(["done"])]),
                hooks=used,
            ),
            "go",
        )
        for used in (None, hooks)
    )

    known = plain.continuation.root.metadata
    assert known
    assert known == changed.continuation.root.metadata


def test_refused_reply_is_asked_for_again_and_its_calls_do_not_run() -> None:
    """Its text is not stored. The model reads the reason."""
    paid: list[int] = []
    hooks = Hooks(
        after_model=lambda reply: RefuseReply("do not pay") if reply.tools else None
    )
    finished = expect(run(pay_agent(CALL, hooks, paid, approval=None), "go"), Finished)

    assert [] == paid
    _, withheld, reason, _ = contents(finished)
    assert "(This reply was withheld.)" == withheld
    assert "do not pay" in reason


def test_agent_ends_if_each_reply_is_refused() -> None:
    """`output_retries` bounds the requests, also if another hook adds messages."""
    model = ScriptedModel(["one", "two", "three", "four"])
    hooks = Hooks(
        before_model=lambda _: ChangeRequest(messages=["be brief"]),
        after_model=lambda _: RefuseReply("no"),
    )
    failed = run(Agent("a", model=model, hooks=hooks, output_retries=2), "go")

    assert isinstance(failed, Failed)
    assert ("refused", "no") == (failed.error.code, failed.error.message)
    assert 3 == len(model.requests)


def test_continue_asks_for_another_turn() -> None:
    """The reply and the message are stored; the run ends when the hook lets it."""
    model = ScriptedModel(["one", "two"])
    hooks = Hooks(
        after_model=lambda reply: Continue("go on") if reply.turns == 0 else None
    )
    finished = expect(run(Agent("a", model=model, hooks=hooks), "go"), Finished)

    assert ["go", "one", "go on", "two"] == contents(finished)


def test_max_turns_bounds_continue() -> None:
    """A hook that never ends cannot keep a run alive."""
    model = ScriptedModel(["x"] * 10)
    hooks = Hooks(after_model=lambda _: Continue("go on"))
    failed = run(Agent("a", model=model, hooks=hooks, max_turns=3), "go")

    assert isinstance(failed, Failed)
    assert ("max_turns", 3) == (failed.error.code, len(model.requests))


def test_reply_is_dropped_if_its_hook_raises_and_its_cost_counts() -> None:
    """The caller reads the error; corrected code asks the model again."""

    def after_model(_: object) -> None:
        raise ValueError(SECRET)

    model = ScriptedModel(["done"])
    runner = Runner(
        Agent("a", model=model, hooks=Hooks(after_model=after_model)), store="memory:"
    )
    with pytest.raises(HookFailed, match="after_model of agent 'a' raised") as error:
        runner.start("go", run_id="r")
    assert SECRET not in str(error.value)
    assert ["go"] == [each["content"] for each in runner.look("r").root.messages]

    store = runner.store
    finished = Runner(Agent("a", model=model), store=store).resume("r")

    assert isinstance(finished, Finished)
    assert ("done", 2) == (finished.output, finished.usage.requests)


# Threads ----------------------------------------------------------------------------


def test_refusal_is_the_reply_to_one_message_of_a_thread() -> None:
    """The thread rests, and answers the next message."""
    model = ScriptedModel(["one", "two", "three"])
    hooks = Hooks(
        after_model=lambda reply: RefuseReply("no") if reply.turns < 2 else None
    )
    runner = Runner(Agent("a", model=model, hooks=hooks), store="memory:")
    thread = runner.thread("a", key="k")

    failed = thread.send("first")
    replied = thread.send("second")

    assert isinstance(failed, Failed)
    assert "refused" == failed.error.code
    assert "three" == replied.output


# Answers ----------------------------------------------------------------------------


def test_answer_of_a_person_is_no_result_of_the_tool() -> None:
    """A person's answer is not changed: the tool did not run."""
    seen: list[object] = []
    hooks = Hooks(after_tool=seen.append)
    runner = Runner(pay_agent(CALL, hooks, []), store="memory:")
    suspended = expect(runner.start("go", run_id="r"), Suspended)

    runner.decide(suspended.waits[0].id, Answer("later", by="kim"))

    assert isinstance(runner.resume("r"), Finished)
    assert [] == seen
