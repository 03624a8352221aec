"""The OpenAI adapter: what goes wrong, and whose client it is."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI

from continuations.core.messages import user
from continuations.errors import ModelError
from continuations.models.contract import ModelRequest, Reply
from continuations.models.openai_chat import OpenAIChat
from tests.model_server import ModelServer
from tests.models.asking import HELLO, KEY, ask, chat, failure

if TYPE_CHECKING:
    from collections.abc import Mapping

# What goes wrong --------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        *((status, False) for status in (400, 401, 403, 404, 413, 422)),
        *((status, True) for status in (408, 409, 429, 500, 502, 503, 529)),
    ],
)
def test_a_status_says_whether_to_ask_again(status: int, *, retryable: bool) -> None:
    error = failure({"": [{"status": status, "body": "no"}]})

    assert (status, retryable) == (error.status, error.retryable)


def test_an_error_says_what_happened_and_what_to_do() -> None:
    body = {"message": "You have  no\nquota.", "type": "quota", "code": "quota"}
    reply = {
        "status": 429,
        "body": {"error": body},
        "headers": {"x-request-id": "req_1"},
    }

    error = failure({"": [reply]}, ModelRequest(messages=[user("a")], run_id="jane-1"))

    assert (
        "Run jane-1, model gpt-5-mini: 127.0.0.1 answered 429 (quota: You have no"
        " quota). Check the account's limits and credit, then resume the run. Its id"
        " there is 'req_1'."
    ) == str(error)
    assert "jane-1" == error.run_id


def test_what_the_client_asks_again_for_is_not_an_error() -> None:
    # Given a server that has one bad moment
    answers = iter([{"status": 503, "headers": {"retry-after-ms": "1"}}])

    def rule(_messages: Any, _model: str) -> Mapping[str, Any]:
        return next(answers, {"content": "ok"})

    with ModelServer(rule) as server:
        reply = ask(chat(server, max_retries=2))

    assert "ok" == reply.message.content
    assert 2 == len(server.requests)


def test_no_server_is_retryable() -> None:
    model = OpenAIChat(
        "m", base_url="http://127.0.0.1:9/v1", api_key=KEY, max_retries=0
    )

    with pytest.raises(ModelError, match="no connection to 127") as caught:
        ask(model)

    assert (None, True) == (caught.value.status, caught.value.retryable)


def test_a_connection_that_breaks_is_retryable() -> None:
    assert failure({"": [{"hang_up": True}]}).retryable


def test_an_answer_that_does_not_come_is_retryable() -> None:
    with ModelServer({"": [{"content": "late", "delay": 30}]}) as server:
        model = OpenAIChat(
            "m", base_url=server.url, api_key=server.key, timeout=0.2, max_retries=0
        )
        with pytest.raises(ModelError, match="did not answer in time") as caught:
            ask(model)

    assert caught.value.retryable


def test_the_key_is_not_told() -> None:
    """R-I5."""
    # Given a provider that repeats the key, whole and in parts
    said = f"Incorrect API key provided: {KEY}, sk-proj-0*********ghij, {KEY[-4:]}."
    body = {"error": {"message": said, "code": "invalid_api_key"}}

    error = failure({"": [{"status": 401, "body": body}]})

    assert "0123" not in str(error)
    assert "ghij" not in str(error)
    assert "Check OPENAI_API_KEY" in str(error)


def test_the_conversation_is_not_told() -> None:
    # Given a provider that repeats what it could not use
    salary = "Jane earns 93,000 a year"
    body = {"detail": f"Input should be a string, input_value='{salary[:18]}...'"}

    error = failure(
        {"": [{"status": 422, "body": body}]},
        ModelRequest(messages=[user(f"Listen: {salary}!")]),
    )

    assert "Jane earns" not in str(error)
    assert "Input should be a string" in str(error)


def test_no_error_hangs_on_to_the_request() -> None:
    """R-I5."""
    # Errors of openai hold the request, and with it the key.
    error = failure({"": [{"status": 401}]})

    assert (None, None) == (error.__cause__, error.__context__)


def test_a_key_that_no_header_can_hold_is_an_error_without_it() -> None:
    model = OpenAIChat("m", base_url="http://127.0.0.1:9/v1", api_key="sk-…geheim")

    with pytest.raises(ModelError) as caught:
        ask(model)

    assert "geheim" not in str(caught.value)
    assert (None, None) == (caught.value.__cause__, caught.value.__context__)


def test_a_missing_key_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(ModelError, match="Set OPENAI_API_KEY"):
        ask(OpenAIChat("gpt-5-mini"))


def test_settings_that_no_client_takes_are_an_error() -> None:
    with pytest.raises(ModelError, match="openai takes no such settings"):
        ask(OpenAIChat("gpt-5-mini", api_key=KEY, base_url="http://[::"))


def test_a_missing_openai_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)

    with pytest.raises(ModelError, match="pip install 'openai>=3'"):
        ask(OpenAIChat("gpt-5-mini", api_key=KEY))


# The client -------------------------------------------------------------------


def test_the_environment_says_where_and_with_what_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ModelServer({"gpt-5-mini": [{"content": "ok"}]}, key=KEY) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        reply = ask(OpenAIChat("gpt-5-mini"))

    assert "ok" == reply.message.content


def test_one_model_serves_many_loops_and_threads() -> None:
    # Given one model
    with ModelServer({"": [{"content": "ok"}]}) as server:
        model = chat(server)

        async def both() -> list[Reply]:
            return list(await asyncio.gather(*(model.reply(HELLO) for _ in range(3))))

        # When loops come and go, one after the other and side by side
        for _ in range(3):
            asyncio.run(both())
        threads = [threading.Thread(target=asyncio.run, args=(both(),)) for _ in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        # Then each had its answers, and no connection is left open (a warning of
        # that is an error here)
        gc.collect()
        assert 7 * 3 == len(server.requests)


def test_a_loop_keeps_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a count of the clients that are made
    made: list[weakref.ref[AsyncOpenAI]] = []
    make = AsyncOpenAI.__init__

    def counted(client: AsyncOpenAI, **settings: Any) -> None:
        made.append(weakref.ref(client))
        make(client, **settings)

    monkeypatch.setattr(AsyncOpenAI, "__init__", counted)
    with ModelServer({"": [{"content": "ok"}]}) as server:
        model = chat(server)

        async def twice() -> None:
            await model.reply(HELLO)
            await model.reply(HELLO)

        # When two loops ask twice each
        asyncio.run(twice())
        asyncio.run(twice())

    # Then each had one client, and the one of the loop that is gone is gone too
    gc.collect()
    assert [True, False] == [client() is None for client in made]


def test_a_client_of_ones_own_is_used_and_left_open() -> None:
    async def given(server: ModelServer) -> bool:
        async with AsyncOpenAI(base_url=server.url, api_key=server.key) as client:
            await OpenAIChat("gpt-5-mini", client=client).reply(HELLO)
            return client.is_closed()

    with ModelServer({"": [{"content": "ok"}]}) as server:
        assert not asyncio.run(given(server))


def test_it_shows_its_name_only() -> None:
    model = OpenAIChat("gpt-5-mini", api_key=KEY, base_url="https://u:p@h/v1")

    assert "OpenAIChat('gpt-5-mini')" == repr(model)
    assert "gpt-5-mini" == model.name


def test_importing_it_does_not_load_openai() -> None:
    code = (
        "import sys, continuations.models.scripted;"
        "from continuations.models.openai_chat import OpenAIChat;"
        "OpenAIChat('m');"
        "print(sorted({'openai', 'httpx2', 'httpx', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert "[]\n" == done.stdout
