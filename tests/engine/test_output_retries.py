"""A final reply that is no output: one more request, then a failure with the text."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel

from continuations import (
    Agent,
    AsyncRunner,
    Failed,
    Finished,
    Runner,
    Suspended,
    run,
    tool,
)
from continuations.core.messages import Message
from continuations.errors import ModelError, StoreError
from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from continuations_storage.faults import Fault, FaultyStore, Operation, refused
from tests.clocks import ManualClock
from tests.engine.agent_builders import root_tool_results, should_pause_after
from tests.model_server import ModelServer
from tests.models.model_calls import chat_model
from tests.outcomes import expect


class Receipt(BaseModel):
    """A typed output."""

    cents: int


GOOD = '{"cents": 5}'


def _agent(*replies: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    """Return an agent whose model gives one reply for each request."""
    left = list(replies)

    def next_reply(_request: ModelRequest) -> Any:
        return left.pop(0)

    model = ScriptedModel(next_reply)
    options = {"output_type": Receipt, **options}
    return Agent("clerk", model=model, **options), model


def _reply(message: Mapping[str, Any], finish_reason: str) -> ModelReply:
    data = {"role": "assistant", **message}
    return ModelReply(message=Message.from_mapping(data), finish_reason=finish_reason)


def _user_texts(model: ScriptedModel) -> list[str]:
    messages = model.requests[-1].messages
    return [each.content for each in messages if each.role == "user"]


def test_model_reads_why_its_reply_is_no_output() -> None:
    agent, model = _agent('{"cents": "five"}', GOOD)

    assert Receipt(cents=5) == run(agent, "go").result()
    task, question = _user_texts(model)
    assert "go" == task
    assert "cents: Input should be a valid integer" in question
    assert '{"cents": "five"}' == model.requests[-1].messages[-2].content


@pytest.mark.parametrize(("retries", "requests"), [(0, 1), (1, 2), (2, 3)])
def test_failure_after_the_last_retry_keeps_the_text(
    retries: int, requests: int
) -> None:
    agent, model = _agent(*["five"] * 5, output_retries=retries)

    outcome = expect(run(agent, "go"), Failed)

    assert "output" == outcome.error.code
    assert requests == len(model.requests)
    last = outcome.continuation.root.messages[-1]
    assert ("assistant", "five") == (last["role"], last["content"])


def test_retry_counts_as_a_turn() -> None:
    agent, model = _agent("five", GOOD, max_turns=1)

    outcome = expect(run(agent, "go"), Failed)

    assert "output" == outcome.error.code
    assert 1 == len(model.requests)


def test_retries_are_counted_in_the_transcript(store: MemoryStore) -> None:
    """A process that takes the run over does not start the count again."""
    first, _ = _agent("five")
    paused = Runner(first, store=store).start(
        "go", run_id="r1", should_pause=should_pause_after(2)
    )
    assert isinstance(paused, Suspended)
    assert paused.paused
    assert 3 == len(paused.continuation.root.messages)

    second, model = _agent("six", GOOD)
    outcome = expect(Runner(second, store=store).resume("r1"), Failed)

    assert "output" == outcome.error.code
    assert 1 == len(model.requests)


def test_failed_sub_agent_is_an_error_for_its_parent() -> None:
    """The text goes with the frame, so the parent reads it."""
    child, _ = _agent("five", "six")
    parent = ScriptedModel([ToolCall("clerk", {"input": "Book it."}), "It failed."])

    outcome = expect(run(Agent("boss", tools=[child], model=parent), "go"), Finished)

    [told] = root_tool_results(outcome)
    assert told.startswith(
        "ERROR: the agent clerk failed: The output is not valid JSON"
    )
    assert told.endswith("Its last reply was:\nsix")


# Replies without an end --------------------------------------------------------


@pytest.mark.parametrize("finish", ["length", "content_filter"])
@pytest.mark.parametrize("content", ["half", "", None, GOOD])
def test_cut_reply_ends_the_frame_without_another_request(
    finish: str, content: str | None
) -> None:
    reply = _reply({"content": content, "refusal": None}, finish)
    agent, model = _agent(reply, GOOD)

    outcome = expect(run(agent, "go"), Failed)

    assert finish == outcome.error.code
    assert 1 == len(model.requests)


@pytest.mark.parametrize("output_type", [None, Receipt])
@pytest.mark.parametrize("content", ["", None, []])
def test_empty_reply_is_asked_for_again(output_type: Any, content: Any) -> None:
    """The empty message is not sent back: providers refuse it in a transcript."""
    agent, model = _agent(
        _reply({"content": content}, "stop"), GOOD, output_type=output_type
    )

    assert isinstance(run(agent, "go"), Finished)

    assert ["user", "user"] == [each.role for each in model.requests[-1].messages]
    assert "empty" in _user_texts(model)[-1]


@pytest.mark.parametrize("content", ["", None])
def test_second_empty_reply_fails_the_run(content: str | None) -> None:
    empty = _reply({"content": content}, "stop")
    agent, model = _agent(empty, empty, GOOD, output_type=None)

    outcome = expect(run(agent, "go"), Failed)

    assert "empty" == outcome.error.code
    assert 2 == len(model.requests)


@pytest.mark.parametrize("content", [None, ""], ids=["null", "text"])
def test_empty_reply_of_a_server_is_asked_about_again(content: str | None) -> None:
    """Both forms cost one more request, with the reason in it, and no retry time."""
    replies: list[dict[str, Any]] = [{"content": content}, {"content": "done"}]
    with ModelServer(lambda messages, _model: replies[len(messages) - 1]) as server:
        outcome = run(Agent("a", model=chat_model(server)), "Task")

    assert isinstance(outcome, Finished)
    assert "done" == outcome.output
    assert ["user", "user"] == [m["role"] for m in server.requests[1]["messages"]]


def test_reply_with_audio_or_a_refusal_is_not_empty() -> None:
    for message in ({"audio": {"id": "a"}}, {"content": None, "refusal": "No."}):
        agent, _ = _agent(_reply(message, "stop"), output_type=None)

        assert isinstance(run(agent, "go"), Finished)


def test_call_that_was_cut_off_before_its_arguments_does_not_run() -> None:
    """Otherwise empty arguments mean `{}`."""
    ran: list[str] = []

    @tool
    def erase(folder: str = "/") -> str:
        """Erase a folder."""
        ran.append(folder)
        return "erased"

    def request(arguments: str) -> dict[str, Any]:
        function = {"name": "erase", "arguments": arguments}
        return {"id": f"call-{arguments}", "type": "function", "function": function}

    calls = [request('{"folder": "/home/a"}'), request('{"fol'), request("")]
    cut = _reply({"content": None, "tool_calls": calls}, "length")
    agent, model = _agent(cut, "Done.", output_type=None, tools=[erase])

    outcome = expect(run(agent, "go"), Finished)

    assert ["/home/a"] == ran
    results = root_tool_results(outcome)
    assert ["erased", "ERROR:", "ERROR:"] == [text.split()[0] for text in results]
    assert "cut off" in results[2]
    assert 2 == len(model.requests)


def test_model_error_in_a_retry_can_be_resumed() -> None:
    agent, _ = _agent("five", ModelError("down"), GOOD)
    runner = Runner(agent, store="memory:")
    with pytest.raises(ModelError):
        runner.start("go", run_id="r1")

    assert Receipt(cents=5) == runner.resume("r1").result()


# A wrong reply of a thread, while something else comes first --------------------------


class Outage:
    """While it lasts, each listing of the store fails."""

    def __init__(self) -> None:
        self.lasts = False

    def __call__(self, operation: Operation) -> Fault | None:
        fails = self.lasts and operation.verb == "keys"
        return refused() if fails else None


@pytest.mark.parametrize("event", ["pause", "outage"])
@pytest.mark.parametrize("reply", ["five", "cut", GOOD])
def test_wrong_reply_of_a_thread_is_never_confirmed(event: str, reply: str) -> None:
    """It fails the turn at once, as it does without the pause; a right one is kept."""
    outage = Outage()
    store = FaultyStore(MemoryStore(), outage)
    asked: list[str] = []

    async def script(request: ModelRequest) -> Any:
        asked.append(request.messages[-1].content)
        if len(asked) == 1 and event == "pause":
            await AsyncRunner([], store=store).pause(request.run_id)
        outage.lasts = len(asked) == 1 and event == "outage"
        if reply == "cut":
            return _reply({"content": GOOD}, "length")
        return reply

    agent = Agent(
        "clerk", model=ScriptedModel(script), output_type=Receipt, output_retries=0
    )
    runner = Runner(agent, store=store, clock=ManualClock())
    thread = runner.thread("clerk", key="k")
    run_id = thread.post("one", id="m1").run_id

    with suppress(StoreError):
        thread.send("one", id="m1")
    outage.lasts = False
    if event == "pause":
        runner.unpause(run_id)
    replies = [thread.send("one", id="m1"), thread.send("two", id="m2")]

    assert ["one", "two"] == asked
    if reply == GOOD:
        assert [Receipt(cents=5)] * 2 == [
            getattr(each, "output", 0) for each in replies
        ]
        return
    code = "length" if reply == "cut" else "output"
    assert [code, code] == [
        each.error.code for each in replies if isinstance(each, Failed)
    ]
