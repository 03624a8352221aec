"""`Fallback` asks the next model after some errors, and records who replied."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from continuations import Fallback
from continuations.core.messages import user_message
from continuations.errors import InvalidInput, ModelError
from continuations.models.interface import (
    LostReply,
    Message,
    Model,
    ModelDelta,
    ModelReply,
    ModelRequest,
    PendingReply,
)
from continuations.models.openai_chat import OpenAIChat
from continuations.models.scripted import LaterReply, ScriptedModel
from continuations.prices import Price, Prices, Usage
from tests.model_server import ModelServer
from tests.models.model_calls import KEY

REQUEST = ModelRequest(messages=[user_message("hello")], run_id="r1")
LIMITED = ModelError("limited", status=429, retryable=True, retry_after=7)
DOWN = ModelError("down", status=503, retryable=True)
INVALID = ModelError("invalid", status=400)
NO_KEY = ModelError("no key", status=401)
TIMEOUT = ModelError("no reply in time", retryable=True)


def scripted(reply: Any, name: str) -> ScriptedModel:
    return ScriptedModel([reply], name)


def ask(model: Model, request: ModelRequest = REQUEST) -> ModelReply:
    reply = asyncio.run(model.reply(request))
    assert isinstance(reply, ModelReply)
    return reply


def error_of(model: Model, request: ModelRequest = REQUEST) -> ModelError:
    with pytest.raises(ModelError) as caught:
        asyncio.run(model.reply(request))
    return caught.value


def test_the_first_model_that_replies_is_recorded() -> None:
    first, second = scripted("one", "a"), scripted("two", "b")

    reply = ask(Fallback([first, second]))

    assert ("one", {"model": "a"}) == (reply.message.content, reply.message.metadata)
    assert [] == second.requests


def test_failures_before_the_reply_are_recorded_and_not_sent() -> None:
    models = [scripted(LIMITED, "a"), scripted(TIMEOUT, "b"), scripted("three", "c")]

    message = ask(Fallback(models)).message

    assert {
        "model": "c",
        "failed": [
            {"model": "a", "status": 429, "error": "limited"},
            {"model": "b", "error": "no reply in time"},
        ],
    } == message.metadata
    assert {"role": "assistant", "content": "three"} == message.data


@pytest.mark.parametrize(
    ("kind", "covered"),
    [
        ("retryable", {LIMITED, DOWN, TIMEOUT}),
        ("rate_limit", {LIMITED}),
        ("server_error", {DOWN}),
        ("no_response", {TIMEOUT}),
        ("credentials", {NO_KEY}),
        ("invalid_request", {INVALID}),
        ("not_found", set[ModelError]()),
    ],
)
def test_errors_of_the_named_kinds_lead_to_the_next_model(
    kind: Any, covered: set[ModelError]
) -> None:
    for error in (LIMITED, DOWN, INVALID, NO_KEY, TIMEOUT):
        second = scripted("two", "b")
        fallback = Fallback([scripted(error, "a"), second], on=[kind])
        if error in covered:
            assert "two" == ask(fallback).message.content
        else:
            assert error is error_of(fallback)
            assert [] == second.requests


def test_a_function_may_decide() -> None:
    def is_quota(error: ModelError) -> bool:
        return "quota" in str(error)

    quota = ModelError("quota used up", status=403)
    assert (
        "two"
        == ask(
            Fallback([scripted(quota, "a"), scripted("two", "b")], on=is_quota)
        ).message.content
    )
    assert DOWN is error_of(
        Fallback([scripted(DOWN, "a"), scripted("two", "b")], on=is_quota)
    )


def withheld() -> ModelReply:
    message = Message.from_mapping({"role": "assistant", "content": ""})
    return ModelReply(message=message, finish_reason="content_filter")


def test_a_withheld_reply_leads_on_only_if_that_is_wanted() -> None:
    models = [scripted(withheld(), "a"), scripted("two", "b")]

    assert "content_filter" == ask(Fallback(models)).finish_reason
    reply = ask(Fallback(models, on=["retryable", "content_filter"]))

    assert "two" == reply.message.content
    assert 2 == reply.usage.requests  # the withheld reply cost, too
    # The last model's reply is the reply, withheld or not.
    last = Fallback([scripted(DOWN, "a"), scripted(withheld(), "b")])
    assert "content_filter" == ask(last).finish_reason


def test_error_of_all_models_names_each_and_may_be_retried() -> None:
    models = [scripted(LIMITED, "a"), scripted(DOWN, "b"), scripted(NO_KEY, "c")]

    error = error_of(Fallback(models))

    assert "a: limited; b: down; c: no key" in str(error)
    assert (True, None, 401) == (error.retryable, error.retry_after, error.status)
    only_limited = Fallback([scripted(LIMITED, "a"), scripted(NO_KEY, "b")])
    assert 7 == error_of(only_limited).retry_after
    no_retry = Fallback(
        [scripted(NO_KEY, "a"), scripted(INVALID, "b")], on=["credentials"]
    )
    assert not error_of(no_retry).retryable


def test_each_attempt_costs_by_the_price_of_its_model() -> None:
    prices = Prices(
        {"a": Price(input=1_000_000, output=0), "b": Price(input=10_000_000, output=0)}
    )
    spent = Usage(requests=1, input_tokens=1)
    failed = ModelError("unusable", retryable=True, usage=spent)
    message = Message.from_mapping({"role": "assistant", "content": "two"})
    replied = ModelReply(message=message, usage=spent)
    request = ModelRequest(messages=REQUEST.messages, prices=prices)

    reply = ask(Fallback([scripted(failed, "a"), scripted(replied, "b")]), request)
    assert (2, Decimal(11)) == (reply.usage.requests, reply.usage.cost)

    failed = ModelError("unusable", retryable=True, usage=spent)
    error = error_of(Fallback([scripted(failed, "b"), scripted(DOWN, "a")]), request)
    assert Decimal(10) == error.usage.cost
    # A model without a price makes the cost unknown.
    failed = ModelError("unusable", retryable=True, usage=spent)
    unknown = ask(Fallback([scripted(failed, "x"), scripted(replied, "b")]), request)
    assert unknown.usage.cost is None


def test_pending_reply_is_polled_at_the_model_that_owns_it() -> None:
    """Another process has other objects and the same names."""
    later = [LaterReply("done", polls=2)]
    first = Fallback([scripted(LIMITED, "a"), ScriptedModel(later, "b")])
    pending = asyncio.run(first.reply(REQUEST))
    assert isinstance(pending, PendingReply)

    owner = ScriptedModel(later, "b")
    second = Fallback([ScriptedModel(later, "c"), owner, scripted("x", "a")])
    again = asyncio.run(second.poll(pending.id, REQUEST))
    assert isinstance(again, PendingReply)
    reply = asyncio.run(second.poll(again.id, REQUEST))

    assert isinstance(reply, ModelReply)
    failed = [{"model": "a", "status": 429}]
    assert {"model": "b", "failed": failed} == reply.message.metadata
    assert ["reply-0-0", "reply-0-1"] == owner.polls


@pytest.mark.parametrize("reply_id", ["reply-0-0", '["x","reply-0-0",[]]', "[1]", "{"])
def test_pending_reply_of_a_missing_model_is_an_error(reply_id: str) -> None:
    fallback = Fallback([ScriptedModel([LaterReply("x")], "a"), scripted("y", "b")])
    with pytest.raises(ModelError, match="Restore the model") as caught:
        asyncio.run(fallback.poll(reply_id, REQUEST))
    assert not caught.value.retryable


def test_lost_reply_is_returned() -> None:
    lost = [LaterReply(LostReply(reason="expired"))]
    fallback = Fallback([ScriptedModel(lost, "a"), scripted("y", "b")])
    pending = asyncio.run(fallback.reply(REQUEST))
    assert isinstance(pending, PendingReply)

    assert isinstance(asyncio.run(fallback.poll(pending.id, REQUEST)), LostReply)


def test_long_id_of_a_pending_reply_keeps_its_owner() -> None:
    class Batch:
        name = "batch"

        async def reply(self, request: ModelRequest) -> PendingReply:
            return PendingReply(id=f"{request.agent}{'x' * 400}")

        async def poll(self, reply_id: str, request: ModelRequest) -> LostReply:
            return LostReply(reason=f"{request.agent}{len(reply_id)}")

    names = [f"a-model-with-a-long-name-{number}" for number in range(9)]
    fallback = Fallback([*(scripted(DOWN, name) for name in names), Batch()])
    pending = asyncio.run(fallback.reply(REQUEST))
    assert isinstance(pending, PendingReply)
    assert len(pending.id) <= 500
    lost = asyncio.run(fallback.poll(pending.id, REQUEST))
    assert isinstance(lost, LostReply)
    assert "400" == lost.reason


def test_deltas_of_a_failed_model_are_void() -> None:
    class Breaks:
        name = "breaks"

        async def reply(self, request: ModelRequest) -> ModelReply:
            assert request.on_delta is not None
            await request.on_delta(ModelDelta(kind="text", text="half a"))
            raise DOWN

    heard: list[tuple[str, str]] = []

    async def listen(delta: ModelDelta) -> None:
        heard.append((delta.kind, delta.text))

    request = ModelRequest(messages=REQUEST.messages, on_delta=listen)
    ask(Fallback([Breaks(), scripted("two", "b")]), request)

    assert [("text", "half a"), ("restart", "")] == heard[:2]


def test_no_further_model_is_asked_once_the_worker_must_stop() -> None:
    second = scripted("two", "b")

    async def must_stop() -> bool:
        return False

    request = ModelRequest(messages=REQUEST.messages, may_ask_again=must_stop)
    error = error_of(
        Fallback([scripted(NO_KEY, "a"), second], on=["credentials"]), request
    )

    assert error.retryable  # the next worker begins with the first model
    assert [] == second.requests


def test_name_is_stable_and_names_the_models() -> None:
    fallback = Fallback([scripted("x", "a"), scripted("y", "a"), "gpt-5-mini"])
    assert "fallback(a, a#2, gpt-5-mini)" == fallback.name
    assert ("a", "gpt-5-mini") == fallback.priced_names
    assert isinstance(fallback.models[2], OpenAIChat)
    named = Fallback([scripted("x", "a"), scripted("y", "b")], name="main")
    assert "main" == named.name
    assert "Fallback('main')" == repr(named)


def test_fallbacks_may_be_nested() -> None:
    inner = Fallback([scripted(DOWN, "b"), scripted("three", "c")])
    outer = Fallback([scripted(LIMITED, "a"), inner])

    metadata = ask(outer).message.metadata

    assert metadata is not None
    assert "c" == metadata["model"]
    assert ["a", "b"] == [each["model"] for each in metadata["failed"]]
    assert ("a", "b", "c") == outer.priced_names


def test_servers_of_two_providers() -> None:
    """Over HTTP: the retries of the adapter come first, then the next provider."""
    error = {"error": {"message": "overloaded"}, "status": 503}
    with (
        ModelServer({"": [error] * 9}, key=KEY) as down,
        ModelServer({"": [{"content": "hello"}]}, key=KEY) as up,
    ):
        models = [
            OpenAIChat("gpt-5", base_url=url, api_key=KEY, max_retries=0)
            for url in (down.url, up.url)
        ]
        reply = ask(Fallback(models))
    assert "hello" == reply.message.content
    metadata = reply.message.metadata
    assert metadata is not None
    assert "gpt-5#2" == metadata["model"]
    assert ("gpt-5", 503) == (
        metadata["failed"][0]["model"],
        metadata["failed"][0]["status"],
    )


INVALID_MODELS: list[Any] = [[], ["a"], "gpt-5", None, ["a", 7], ["a", ScriptedModel]]


@pytest.mark.parametrize("models", INVALID_MODELS)
def test_invalid_models_are_refused(models: Any) -> None:
    with pytest.raises(InvalidInput, match="models"):
        Fallback(models)


@pytest.mark.parametrize("on", ["retryable", [], ["always"], 7, None])
def test_invalid_kinds_are_refused(on: Any) -> None:
    with pytest.raises(InvalidInput, match="on must be"):
        Fallback(["a", "b"], on=on)


@pytest.mark.parametrize("name", ["", 7])
def test_invalid_name_is_refused(name: Any) -> None:
    with pytest.raises(InvalidInput, match="name"):
        Fallback(["a", "b"], name=name)
