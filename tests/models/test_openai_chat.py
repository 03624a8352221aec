"""The OpenAI adapter: its errors and its clients."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import weakref
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from openai import AsyncOpenAI

from continuations.core.messages import user_message
from continuations.errors import ModelError
from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.openai_chat import OpenAIChat
from tests.model_server import ModelServer
from tests.models.model_calls import (
    HELLO_REQUEST,
    KEY,
    adapter_error,
    call_model,
    chat_model,
    without_port,
)

# Errors -----------------------------------------------------------------------


def test_status_error_says_the_cause_and_the_remedy() -> None:
    body = {"message": "You have  no\nquota.", "type": "quota", "code": "quota"}
    reply = {
        "status": 429,
        "body": {"error": body},
        "headers": {"x-request-id": "req_1"},
    }

    error = adapter_error(
        {"": [reply]}, ModelRequest(messages=[user_message("a")], run_id="jane-1")
    )

    assert (
        "run jane-1, model gpt-5-mini: 127.0.0.1:PORT returned status 429 (quota: You"
        " have no quota). Check the limits and the credit of the account. The request"
        " id is 'req_1'."
    ) == without_port(error)
    assert "jane-1" == error.run_id


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Mon, 01 Jan 2024 00:00:00 +99999999999999"}, None),
        ({}, None),
    ],
)
def test_error_has_the_wait_that_the_provider_asks_for(
    headers: dict[str, str], seconds: float | None
) -> None:
    error = adapter_error({"": [{"status": 429, "headers": headers}]})

    assert seconds == error.retry_after


def test_wait_until_a_date_is_converted_to_seconds() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(minutes=1), usegmt=True)

    error = adapter_error({"": [{"status": 503, "headers": {"retry-after": later}}]})

    assert error.retry_after is not None
    assert 50 < error.retry_after <= 60


def test_error_that_the_client_retries_is_not_raised() -> None:
    # Given a server that fails once
    replies = iter([{"status": 503, "headers": {"retry-after-ms": "1"}}])

    def rule(_messages: Any, _model: str) -> Mapping[str, Any]:
        return next(replies, {"content": "ok"})

    with ModelServer(rule) as server:
        reply = call_model(chat_model(server, max_retries=2))

    assert "ok" == reply.message.content
    assert 2 == len(server.requests)


NO_CREDIT = {
    "message": "You exceeded your current quota.",
    "type": "insufficient_quota",
    "code": "insufficient_quota",
}


@pytest.mark.parametrize(
    "reply",
    [
        {"status": 429, "body": {"error": NO_CREDIT}, "headers": {"retry-after": "9"}},
        {"raw": json.dumps({"error": NO_CREDIT})},
        {"raw": f"data: {json.dumps({'error': NO_CREDIT})}\n\n"},
    ],
    ids=["status", "body", "stream"],
)
def test_account_without_credit_is_not_retryable(reply: Mapping[str, Any]) -> None:
    error = adapter_error({"": [reply]})

    assert (429, False, None) == (error.status, error.retryable, error.retry_after)
    assert "insufficient_quota: You exceeded your current quota" in str(error)
    assert "Add credit or raise the limit at the provider, then resume" in str(error)


def test_refused_connection_is_retryable() -> None:
    model = OpenAIChat(
        "m", base_url="http://127.0.0.1:9/v1", api_key=KEY, max_retries=0
    )

    with pytest.raises(ModelError, match="no connection to 127") as caught:
        call_model(model)

    error = caught.value
    assert (None, True, True) == (error.status, error.retryable, error.unreachable)
    assert "no connection to 127.0.0.1:9 (the connection was refused)" in str(error)


def test_unknown_host_is_named_without_password_and_query() -> None:
    url = "https://kim:geheim@nowhere.invalid/v1?token=versteckt"
    model = OpenAIChat("m", base_url=url, api_key=KEY, max_retries=0)

    with pytest.raises(ModelError) as caught:
        call_model(model)

    assert caught.value.unreachable
    text = str(caught.value)
    assert "no connection to nowhere.invalid (its name is not known)" in text
    assert not [each for each in ("kim", "geheim", "versteckt") if each in text]


def test_server_without_tls_is_not_reached() -> None:
    with ModelServer({"": [{"content": "ok"}]}) as server:
        url = server.url.replace("http:", "https:")
        model = OpenAIChat("m", base_url=url, api_key=KEY, max_retries=0)
        with pytest.raises(ModelError, match="no TLS connection") as caught:
            call_model(model)

    assert caught.value.unreachable


def test_broken_connection_is_retryable() -> None:
    error = adapter_error({"": [{"hang_up": True}]})

    assert (True, False) == (error.retryable, error.unreachable)


def test_timeout_is_retryable() -> None:
    with ModelServer({"": [{"content": "late", "delay": 30}]}) as server:
        model = OpenAIChat(
            "m", base_url=server.url, api_key=server.key, timeout=0.2, max_retries=0
        )
        with pytest.raises(ModelError, match="did not reply in time") as caught:
            call_model(model)

    assert caught.value.retryable


def test_error_does_not_contain_the_api_key() -> None:
    # Given a provider that repeats the key, whole and in parts
    quote = f"Incorrect API key provided: {KEY}, sk-proj-0*********ghij, {KEY[-4:]}."
    body = {"error": {"message": quote, "code": "invalid_api_key"}}

    error = adapter_error({"": [{"status": 401, "body": body}]})

    assert "0123" not in str(error)
    assert "ghij" not in str(error)
    assert "Check OPENAI_API_KEY" in str(error)


def test_error_does_not_contain_what_the_client_sends_of_its_own() -> None:
    """Headers, query parameters and the password of the URL may all be secrets."""
    quote = "wrong: hunter2-header, hunter2-query, hunter2-url of 2024-06-01"
    reply = {"status": 400, "body": {"error": {"message": quote}}}

    async def ask(server: ModelServer) -> None:
        url = server.url.replace("//", "//user:hunter2-url@")
        async with AsyncOpenAI(
            base_url=url,
            api_key=KEY,
            default_headers={"x-gateway": "Token hunter2-header"},
            default_query={"key": "hunter2-query", "api-version": "2024-06-01"},
        ) as client:
            await OpenAIChat("gpt-5-mini", client=client).reply(HELLO_REQUEST)

    def rule(_messages: Any, _model: str) -> Mapping[str, Any]:
        return reply

    with (
        # The client sends the password of the URL in place of the key.
        ModelServer(rule, key="Basic dXNlcjpodW50ZXIyLXVybA==") as server,
        pytest.raises(ModelError) as caught,
    ):
        asyncio.run(ask(server))

    assert "wrong: [hidden], [hidden], [hidden] of 2024-06-01" in str(caught.value)


def test_error_does_not_contain_the_conversation() -> None:
    # Given a provider that repeats the invalid input
    salary = "Jane earns 93,000 a year"
    body = {"detail": f"Input should be a string, input_value='{salary[:18]}...'"}

    error = adapter_error(
        {"": [{"status": 422, "body": body}]},
        ModelRequest(messages=[user_message(f"Listen: {salary}!")]),
    )

    assert "Jane earns" not in str(error)
    assert "Input should be a string" in str(error)


@pytest.mark.parametrize(
    "retry_after", ["7", "Mon, 01 Jan 2024 00:00:00 +99999999999999", "x" * 300]
)
def test_error_keeps_no_reference_to_the_request(retry_after: str) -> None:
    # An error of openai holds the request, and so the key.
    error = adapter_error(
        {"": [{"status": 429, "headers": {"retry-after": retry_after}}]}
    )

    assert (None, None) == (error.__cause__, error.__context__)


def test_failure_of_the_error_itself_keeps_no_reference_to_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_args: object) -> object:
        raise OverflowError

    monkeypatch.setattr("continuations.models.chat_errors._retry_after", fail)

    with (
        ModelServer({"": [{"status": 429}]}, key=KEY) as server,
        pytest.raises(OverflowError) as caught,
    ):
        call_model(chat_model(server))

    assert (None, None) == (caught.value.__cause__, caught.value.__context__)


def test_invalid_api_key_error_does_not_contain_the_key() -> None:
    model = OpenAIChat("m", base_url="http://127.0.0.1:9/v1", api_key="sk-…geheim")

    with pytest.raises(ModelError) as caught:
        call_model(model)

    assert "geheim" not in str(caught.value)
    assert (None, None) == (caught.value.__cause__, caught.value.__context__)


def test_missing_key_error_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(ModelError, match="Set OPENAI_API_KEY"):
        call_model(OpenAIChat("gpt-5-mini"))


def test_invalid_client_settings_are_an_error() -> None:
    with pytest.raises(ModelError, match="the client cannot be made"):
        call_model(OpenAIChat("gpt-5-mini", api_key=KEY, base_url="http://[::"))


def test_missing_openai_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)

    with pytest.raises(ModelError, match="pip install 'openai>=3'"):
        call_model(OpenAIChat("gpt-5-mini", api_key=KEY))


# The client -------------------------------------------------------------------


def test_base_url_and_key_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ModelServer({"gpt-5-mini": [{"content": "ok"}]}, key=KEY) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        reply = call_model(OpenAIChat("gpt-5-mini"))

    assert "ok" == reply.message.content


def test_model_works_in_many_loops_and_threads() -> None:
    # Given one model
    with ModelServer({"": [{"content": "ok"}]}) as server:
        model = chat_model(server)

        async def both() -> list[ModelReply]:
            return list(
                await asyncio.gather(*(model.reply(HELLO_REQUEST) for _ in range(3)))
            )

        # When loops use it one after the other and at the same time
        for _ in range(3):
            asyncio.run(both())
        threads = [threading.Thread(target=asyncio.run, args=(both(),)) for _ in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        # Then each loop got its replies, and no connection is left open (the warning
        # about an open connection would be an error here)
        gc.collect()
        assert 7 * 3 == len(server.requests)


def test_one_client_is_kept_per_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a list of the clients that are made
    made: list[weakref.ref[AsyncOpenAI]] = []
    make = AsyncOpenAI.__init__

    def counted(client: AsyncOpenAI, **settings: Any) -> None:
        made.append(weakref.ref(client))
        make(client, **settings)

    monkeypatch.setattr(AsyncOpenAI, "__init__", counted)
    with ModelServer({"": [{"content": "ok"}]}) as server:
        model = chat_model(server)

        async def twice() -> None:
            await model.reply(HELLO_REQUEST)
            await model.reply(HELLO_REQUEST)

        # When two loops send two requests each
        asyncio.run(twice())
        asyncio.run(twice())

    # Then each loop had one client, and the client of the first loop is collected
    gc.collect()
    assert [True, False] == [client() is None for client in made]


def test_client_of_the_application_is_used_and_not_closed() -> None:
    async def is_closed_after_use(server: ModelServer) -> bool:
        async with AsyncOpenAI(base_url=server.url, api_key=server.key) as client:
            await OpenAIChat("gpt-5-mini", client=client).reply(HELLO_REQUEST)
            return client.is_closed()

    with ModelServer({"": [{"content": "ok"}]}) as server:
        assert not asyncio.run(is_closed_after_use(server))
