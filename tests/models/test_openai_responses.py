"""The adapter for the Responses API, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    Finished,
    Runner,
    Suspended,
    resume,
    run,
    tool,
)
from continuations.core.messages import user_message
from continuations.core.usage import Usage
from continuations.errors import InvalidInput, ModelError
from continuations.events import LiveTranscript
from continuations.models.interface import Model, ModelDelta, ModelReply, ModelRequest
from continuations.models.openai_chat import OpenAIChat
from continuations.models.openai_responses import OpenAIResponses
from continuations.models.responses_items import ITEMS_FIELD
from tests.clocks import ManualClock
from tests.model_server import ModelServer, Script
from tests.models.response_calls import (
    HELLO,
    error_of,
    reply_to,
    responses_model,
    sent_for,
)
from tests.outcomes import single_wait
from tests.responses_server import (
    ResponsesServer,
    call,
    dump,
    events_of,
    reasoning,
    response,
    text,
)

# The request ------------------------------------------------------------------


def test_request_asks_the_provider_to_store_nothing() -> None:
    assert {
        "model": "gpt-5-mini",
        "input": [{"role": "user", "content": "hello"}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    } == sent_for(HELLO)


def test_settings_are_passed_on_and_win() -> None:
    settings = {
        "store": True,
        "include": ["file_search_call.results"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low"},
    }

    sent = sent_for(ModelRequest(messages=[user_message("a")], settings=settings))

    expected_include = ["file_search_call.results", "reasoning.encrypted_content"]
    assert {**settings, "include": expected_include} == {
        name: sent[name] for name in settings
    }


@pytest.mark.parametrize("settings", [{"x": {1}}, {"text": "short"}])
def test_settings_of_a_wrong_type_are_an_error(settings: dict[str, Any]) -> None:
    request = replace(
        HELLO,
        settings=settings,
        output_schema=Agent("a", output_type=Trip).output_schema,
    )

    assert "settings" in str(error_of({}, request))


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("required", "required"),
        (
            {"type": "function", "function": {"name": "pay"}},
            {"type": "function", "name": "pay"},
        ),
        ({"type": "function", "name": "pay"}, {"type": "function", "name": "pay"}),
        ({"type": "web_search"}, {"type": "web_search"}),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "pay"}}],
                },
            },
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "pay"}],
            },
        ),
    ],
)
def test_tool_choice_of_chat_completions_is_translated(
    choice: object, expected: object
) -> None:
    request = ModelRequest(
        messages=[user_message("a")], settings={"tool_choice": choice}
    )

    assert expected == sent_for(request)["tool_choice"]


@dataclass
class Trip:
    city: str


def test_output_type_and_tools_are_sent_in_the_form_of_this_api() -> None:
    @tool
    def pay(cents: int, note: str = "") -> str:
        """Pay an amount."""
        return f"{cents} {note}"

    with ResponsesServer([response(text('{"city":"Oslo"}'))]) as server:
        model = responses_model(server, hosted_tools=[{"type": "web_search"}])
        agent = Agent("a", model=model, tools=[pay], output_type=Trip)
        outcome = run(agent, "Where to?")

    assert isinstance(outcome, Finished)
    assert Trip("Oslo") == outcome.output
    [request] = server.requests
    text_format = request["text"]["format"]
    assert {"type": "json_schema", "name": "Trip", "strict": True} == {
        name: text_format[name] for name in ("type", "name", "strict")
    }
    assert ["city"] == text_format["schema"]["required"]
    [function, hosted] = request["tools"]
    assert ("function", "pay", "Pay an amount.", False) == (
        function["type"],
        function["name"],
        function["description"],
        function["strict"],
    )
    assert ["cents"] == function["parameters"]["required"]
    assert {"type": "web_search"} == hosted


@pytest.mark.parametrize(
    ("refused", "asked_in_vain"),
    [
        ("Encrypted content is not supported with this model.", "include"),
        ("Invalid schema for response_format 'Trip': strict mode", "strict"),
    ],
)
def test_form_that_the_provider_refuses_is_left_out_and_remembered(
    refused: str, asked_in_vain: str
) -> None:
    def rule(request: Mapping[str, Any]) -> Mapping[str, Any]:
        is_strict = request["text"]["format"]["strict"]
        if "include" in request if asked_in_vain == "include" else is_strict:
            return {"status_code": 400, "body": {"error": {"message": refused}}}
        return response(text('{"city":"Oslo"}'))

    with ResponsesServer(rule) as server:
        agent = Agent("a", model=responses_model(server), output_type=Trip)
        for _ in range(2):
            assert isinstance(run(agent, "Where to?"), Finished)

    assert 3 == len(server.requests)


def test_reasoning_of_another_provider_is_left_out_when_it_is_refused() -> None:
    items = [reasoning(), text("Hm.")]
    reply = reply_to(response(*items))
    refusal = {
        "message": "The encrypted content gAAA could not be verified.",
        "code": "invalid_encrypted_content",
    }

    def rule(request: Mapping[str, Any]) -> Mapping[str, Any]:
        if any(item.get("type") == "reasoning" for item in request["input"]):
            return {"status_code": 400, "body": {"error": refusal}}
        return response(text("Yes."))

    with ResponsesServer(rule) as server:
        messages = [user_message("a"), reply.message, user_message("b")]
        request = ModelRequest(messages=messages)
        asyncio.run(responses_model(server).reply(request))

    first, second = server.requests
    assert items == first["input"][1:3]
    assert {"role": "assistant", "content": "Hm."} == second["input"][1]
    assert first["include"] == second["include"]


# The reply --------------------------------------------------------------------


def test_usage_includes_cached_and_reasoning_tokens() -> None:
    reply = reply_to(response(text("Yes.")))

    assert (
        Usage(
            requests=1,
            input_tokens=30,
            output_tokens=9,
            cached_tokens=20,
            reasoning_tokens=4,
        )
        == reply.usage
    )


@pytest.mark.parametrize("usage", [None, [], {"input_tokens": "30"}])
def test_missing_usage_counts_as_one_request(usage: Any) -> None:
    assert Usage(requests=1) == reply_to(response(text("a"), usage=usage)).usage


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("max_output_tokens", "length"),
        ("content_filter", "content_filter"),
        ("steered", "steered"),
        (None, "incomplete"),
    ],
)
def test_incomplete_response_has_the_finish_reason_of_chat_completions(
    reason: str | None, finish: str
) -> None:
    details = {"reason": reason}
    reply = reply_to(
        response(text("Half"), status="incomplete", incomplete_details=details)
    )

    assert (finish, "Half") == (reply.finish_reason, reply.message.content)


@pytest.mark.parametrize(
    ("reply", "retryable", "expected"),
    [
        ({"raw": "<html>"}, True, "the response is not JSON"),
        ({"raw": "[]"}, True, "not an object of the Responses API"),
        ({"raw": "{}"}, True, "the response has no output"),
        (response(output=[1]), True, "an item of the output is no object"),
        (response(status="in_progress"), True, "the response is in_progress"),
        (
            response(
                {"type": "function_call", "call_id": "c", "name": 1, "arguments": []}
            ),
            True,
            "the output is not valid",
        ),
        (
            response({"type": "mcp_approval_request", "id": "mcpr_1", "name": "roll"}),
            False,
            "the output asks for a mcp_approval_request",
        ),
        (
            response(
                status="failed",
                error={"code": "server_error", "message": "The model failed."},
            ),
            True,
            "server_error: The model failed",
        ),
        (
            response(
                status="failed",
                error={"code": "rate_limit_exceeded", "message": "Slow down."},
            ),
            True,
            "Slow down",
        ),
        (
            response(
                status="failed",
                error={"code": "invalid_prompt", "message": "Not allowed."},
            ),
            False,
            "Not allowed",
        ),
    ],
)
def test_unusable_response_is_an_error(
    reply: Mapping[str, Any], retryable: bool, expected: str
) -> None:
    error = error_of(reply)

    assert expected in str(error)
    assert retryable == error.retryable
    assert isinstance(error.usage, Usage)


def test_shell_that_the_provider_runs_is_a_reply() -> None:
    shell = {"type": "shell_call", "call_id": "sh_1", "action": {"commands": ["ls"]}}
    output: dict[str, Any] = {"type": "shell_call_output", "call_id": "sh_1"}

    assert "ok" == reply_to(response(shell, output, text("ok"))).message.content


_NO_CREDIT = {"code": "insufficient_quota", "message": "You exceeded your quota."}


def test_account_without_credit_is_not_retryable() -> None:
    error = error_of({"status_code": 429, "body": {"error": _NO_CREDIT}})

    assert (429, False) == (error.status, error.retryable)
    assert "Add credit or raise the limit at the provider" in str(error)


@pytest.mark.parametrize(
    "events",
    [
        [{"type": "error", **_NO_CREDIT}],
        [{"type": "error", "error": _NO_CREDIT}],
        events_of(response(status="failed", error=_NO_CREDIT)),
    ],
    ids=["fields", "error", "failed"],
)
def test_stream_of_an_account_without_credit_is_not_retryable(
    events: list[Any],
) -> None:
    with (
        ResponsesServer([{"events": events}]) as server,
        pytest.raises(ModelError) as caught,
    ):
        asyncio.run(_streamed(server))

    assert (429, False) == (caught.value.status, caught.value.retryable)
    assert "Add credit or raise the limit at the provider" in str(caught.value)


def test_error_does_not_contain_stored_reasoning() -> None:
    secret = "the patient's diagnosis is secret"
    item = reasoning(summary=[{"type": "summary_text", "text": secret}])
    message = reply_to(response(item, text("Hm."))).message
    body = {
        "error": {"message": f"Invalid input: {secret} {item['encrypted_content']}"}
    }

    error = error_of(
        lambda _: {"status_code": 422, "body": body},
        ModelRequest(messages=[user_message("a"), message, user_message("b")]),
    )

    assert "diagnosis" not in str(error)


# Streaming --------------------------------------------------------------------


async def _streamed(server: ResponsesServer) -> tuple[list[ModelDelta], ModelReply]:
    deltas: list[ModelDelta] = []

    async def keep(delta: ModelDelta) -> None:
        deltas.append(delta)

    request = ModelRequest(messages=[user_message("a")], on_delta=keep)
    reply = await responses_model(server).reply(request)
    assert isinstance(reply, ModelReply)
    return deltas, reply


def test_stream_hands_on_each_part_and_ends_with_the_same_reply() -> None:
    final = response(reasoning(), text("Good day."))
    with ResponsesServer([final]) as server:
        deltas, reply = asyncio.run(_streamed(server))
        assert reply_to(final) == reply

    assert "I look it up." == "".join(d.text for d in deltas if d.kind == "reasoning")
    assert "Good day." == "".join(d.text for d in deltas if d.kind == "text")
    assert 4 == len(deltas)
    assert server.requests[0]["stream"] is True


def test_thoughts_are_handed_on_as_they_are_stored() -> None:
    """A client that reads the stored message shows the same reasoning."""
    parts = [{"type": "summary_text", "text": text} for text in ("First.", "Then.")]
    final = response(reasoning(summary=parts), reasoning(id="rs_2"), text("Yes."))
    with ResponsesServer([final]) as server:
        deltas, reply = asyncio.run(_streamed(server))

    thoughts = "".join(delta.text for delta in deltas if delta.kind == "reasoning")
    assert "First.\n\nThen.\n\nI look it up." == thoughts
    assert thoughts == reply.message.data["reasoning_content"]


def test_client_of_a_run_sees_reasoning_and_text() -> None:
    final = response(reasoning(), text("Good day."))
    with ResponsesServer([final]) as server:
        agent = Agent("a", model=responses_model(server))
        runner = Runner(agent, store="memory:")
        live, stored = LiveTranscript(), LiveTranscript()
        events = list(runner.stream("Hello.", run_id="r1"))
        for event in events:
            live.add(event)
        for event in runner.events("r1"):
            stored.add(event)

    assert {"TextDelta", "ReasoningDelta"} <= {type(each).__name__ for each in events}
    shown = [(each.role, each.reasoning, each.text) for each in live.texts]
    assert ("assistant", "I look it up.", "Good day.") in shown
    assert stored.texts == live.texts


def test_request_without_a_listener_is_no_stream() -> None:
    assert "stream" not in sent_for(HELLO)


def test_items_that_came_only_in_their_own_events_are_kept() -> None:
    events = events_of(response(reasoning(), text("Good day.")))
    events[-1]["response"] = response()
    with ResponsesServer([{"events": events}]) as server:
        _, reply = asyncio.run(_streamed(server))

    assert [reasoning(), text("Good day.")] == reply.message.data[ITEMS_FIELD]


@pytest.mark.parametrize(
    ("events", "retryable", "expected"),
    [
        (
            events_of(response(text("Good day.")))[:-1],
            True,
            "the stream ended before the response was complete",
        ),
        ([], True, "the stream ended before"),
        (
            [{"type": "error", "code": "server_error", "message": "Sorry."}],
            True,
            "server_error: Sorry",
        ),
        (
            [{"type": "error", "error": {"code": "invalid_prompt", "message": "No."}}],
            False,
            "invalid_prompt: No",
        ),
        (
            events_of(
                response(
                    status="failed",
                    error={"code": "server_error", "message": "Broken."},
                )
            ),
            True,
            "Broken",
        ),
        ([{"type": "response.completed", "response": 7}], True, "not an object"),
        (
            [{"type": ["error"]}, {"type": {"a": 1}, "part": 7}, 5],
            True,
            "the stream ended",
        ),
    ],
)
def test_stream_without_a_whole_response_is_an_error(
    events: list[Any], retryable: bool, expected: str
) -> None:
    with (
        ResponsesServer([{"events": events}]) as server,
        pytest.raises(ModelError) as caught,
    ):
        asyncio.run(_streamed(server))

    assert expected in str(caught.value)
    assert retryable == caught.value.retryable


def test_stream_whose_connection_ends_is_a_retryable_error() -> None:
    events = events_of(response(text("Good day.")))[:-1]
    with (
        ResponsesServer([{"cut_events": events}]) as server,
        pytest.raises(ModelError, match="no connection") as caught,
    ):
        asyncio.run(_streamed(server))

    assert caught.value.retryable


def test_server_that_does_not_stream_is_read() -> None:
    with ResponsesServer([{"raw": dump(response(text("Good day.")))}]) as server:
        deltas, reply = asyncio.run(_streamed(server))

    assert ("Good day.", []) == (reply.message.content, deltas)


# Whole runs -------------------------------------------------------------------

_PROGRAM = """
import os, sys
from continuations import Agent, Approve, Runner, tool
from continuations.models.openai_responses import OpenAIResponses

@tool(approval=True)
def pay(cents: int) -> str:
    return f"paid {cents}"

model = OpenAIResponses("gpt-5-mini")
agent = Agent("clerk", tools=[pay], model=model, instructions="Be brief.")
runner = Runner(agent, store=sys.argv[1])
if sys.argv[2] == "start":
    runner.start("Pay 5 cents.", run_id="r1")
elif sys.argv[2] == "approve":
    decider = Runner([], store=sys.argv[1])
    [wait] = decider.waiting()
    decider.decide(wait.id, Approve(by="jane"))
else:
    print(runner.resume("r1").output)
"""


def test_items_go_back_unchanged_from_a_fresh_process(tmp_path: Path) -> None:
    """Three interpreters: one asks, one approves, one goes on."""
    first = [reasoning("gAAA+/é\u2028"), text("I pay."), call("pay", '{"cents": 5}')]
    script = [response(*first), response(text("Done."))]
    with ResponsesServer(script) as server:
        environment = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": server.key}
        for step in ("start", "approve", "resume"):
            done = subprocess.run(
                [sys.executable, "-c", _PROGRAM, f"file:{tmp_path}/runs", step],
                capture_output=True,
                text=True,
                check=True,
                env=environment,
                timeout=60,
            )

    assert "Done.\n" == done.stdout
    assert 2 == len(server.bodies)
    assert dump(first)[1:-1].encode() in server.bodies[1]
    output = {"type": "function_call_output", "call_id": "call_1", "output": "paid 5"}
    assert [output] == server.requests[1]["input"][5:]


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay an amount."""
    return f"paid {cents}"


def _approved(first: Model, second: Model) -> Finished[Any]:
    """Return the end of a run that begins on one model and ends on another."""
    runner = Runner(Agent("a", tools=[pay], model=first), store="memory:")
    wait = single_wait(runner.start("Pay.", run_id="r1"))
    runner.decide(wait.id, Approve(by="jane"))
    agent = Agent("a", tools=[pay], model=second)
    ended = Runner(agent, store=runner.store).resume("r1")
    assert isinstance(ended, Finished)
    return ended


def test_conversation_moves_from_chat_completions_to_responses_and_back() -> None:
    """A fallback model may speak the other API."""
    chat_call = {"name": "pay", "arguments": '{"cents":5}'}
    chat_script: Script = {"": [{"tool_calls": [chat_call]}, {"content": "Done."}]}
    items = [reasoning(), call("pay", '{"cents":5}')]
    with (
        ModelServer(chat_script) as chat_server,
        ResponsesServer([response(*items), response(text("Done."))]) as server,
    ):
        chat = OpenAIChat("m", base_url=chat_server.url, api_key=chat_server.key)
        responses = responses_model(server)

        assert "Done." == _approved(chat, responses).output
        assert "Done." == _approved(responses, chat).output

    assert ["function_call", "function_call_output"] == [
        item.get("type") for item in server.requests[0]["input"][1:]
    ]
    sent_back = json.dumps(chat_server.requests[1])
    assert ITEMS_FIELD not in sent_back
    assert "reasoning_content" not in sent_back


def test_items_and_a_background_reply_survive_without_a_store() -> None:
    items = [reasoning(), call("pay", '{"cents":5}')]
    script = [response(*items), response(status="queued", usage=None)]
    with ResponsesServer(script) as server:

        def agent(**options: Any) -> Agent[Any]:
            return Agent("a", tools=[pay], model=responses_model(server, **options))

        clock = ManualClock()
        outcome = run(agent(), "Pay.", clock=clock)
        assert isinstance(outcome, Suspended)
        answers = {outcome.waits[0].id: Approve(by="jane")}
        data = outcome.continuation.to_bytes()
        later = resume(data, agent(background=True), answers=answers, clock=clock)
        assert isinstance(later, Suspended)
        assert ["model"] == [wait.kind for wait in later.waits]
        server.stored["resp_1"] |= response(text("Done."))
        clock.seconds += 60
        data = later.continuation.to_bytes()
        ended = resume(data, agent(background=True), clock=clock)

    assert isinstance(ended, Finished)
    assert "Done." == ended.output
    assert dump(items)[1:-1].encode() in server.bodies[1]


# The adapter ------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"hosted_tools": ["web_search"]},
        {"hosted_tools": {"type": "web_search"}},
        {"background": 1},
        {"background": True, "batch": True},
        {"poll_after": 5},
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        OpenAIResponses("m", **options)
