"""A repeated message of a thread costs few requests at every door."""

from __future__ import annotations

import asyncio
import json
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import pytest

from continuations import Agent, AsyncRunner, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.api import HttpApi, Request
from tests.clocks import ManualClock
from tests.engine.test_thread_cost import CountingStore
from tests.serve.http.api_fixture import verify_bearer

if TYPE_CHECKING:
    from continuations.models.interface import ModelRequest

_MESSAGES = 60
# A state is rebuilt from at most log2(versions) objects, which are among the requests.
_MOST_REQUESTS = 12


@tool
def note(what: str) -> str:
    """Write something down."""
    return what


def _reply(request: ModelRequest) -> str | ToolCall:
    """Call a tool 12 times for a message that begins with `work`."""
    messages = [message.data for message in request.messages]
    asked = max(n for n, each in enumerate(messages) if each["role"] == "user")
    text = str(messages[asked]["content"])
    calls = len(messages) - asked - 1
    if text.startswith("work") and calls < 24:
        return ToolCall("note", {"what": text})
    return f"done: {text}"


def _agent() -> Agent[str]:
    return Agent("support", tools=[note], model=ScriptedModel(_reply))


def _text(number: int, *, uneven: bool) -> str:
    return f"{'work' if uneven and number % 10 == 0 else 'hello'} {number}"


@lru_cache(maxsize=2)
def _thread(*, uneven: bool) -> tuple[CountingStore, Runner]:
    """Return a thread in which each message has its reply."""
    store = CountingStore()
    runner = Runner(_agent(), store=store, clock=ManualClock())
    thread = runner.thread(key="k")
    for number in range(1, _MESSAGES + 1):
        thread.send(_text(number, uneven=uneven), by="ann", id=f"m{number}")
    return store, runner


def _arguments(number: int, *, uneven: bool) -> dict[str, Any]:
    text = _text(number, uneven=uneven)
    return {"text": text, "by": "ann", "id": f"m{number}"}


def _fresh(earlier: Runner) -> Runner:
    return Runner(_agent(), store=earlier.store, clock=ManualClock())


def _send(runner: Runner, number: int, *, uneven: bool) -> str:
    return str(runner.thread(key="k").send(**_arguments(number, uneven=uneven)).output)


def _stream(runner: Runner, number: int, *, uneven: bool) -> str:
    stream = runner.thread(key="k").stream(**_arguments(number, uneven=uneven))
    assert [] == list(stream)
    return str(stream.outcome.output)


def _ticket(runner: Runner, number: int, *, uneven: bool) -> str:
    del uneven
    ticket = runner.thread(key="k").ticket(number)
    assert ticket is not None
    return str(ticket.reply().output)


def _http(runner: Runner, number: int, *, uneven: bool, accept: str) -> str:
    async def request() -> str:
        other = AsyncRunner(_agent(), store=runner.store, clock=ManualClock())
        api = HttpApi(other, verify=verify_bearer)
        fields = _arguments(number, uneven=uneven)
        response = await api.handle(
            Request(
                method="POST",
                path="/threads/support/k/messages",
                headers={
                    "authorization": "Bearer ann",
                    "accept": accept,
                    "content-type": "application/json",
                },
                body=json.dumps({"text": fields["text"], "id": fields["id"]}).encode(),
                can_stream=True,
            )
        )
        assert 200 == response.status, response.body
        if response.chunks is None:
            return response.body
        return "".join([str(chunk) async for chunk in response.chunks])

    return asyncio.run(request())


def _send_fresh(runner: Any, n: Any, uneven: Any) -> Any:
    return _send(_fresh(runner), n, uneven=uneven)


DOORS: dict[str, Any] = {
    "warm": _send,
    "fresh": _send_fresh,
    "stream": _stream,
    "ticket": _ticket,
    "http": partial(_http, accept="application/json"),
    "http stream": partial(_http, accept="text/event-stream"),
}


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("door", DOORS)
def test_a_repeat_finds_its_reply_with_few_requests(door: str, *, uneven: bool) -> None:
    """The sizes of the turns do not matter, only the versions behind a state do."""
    store, runner = _thread(uneven=uneven)
    costs: dict[int, int] = {}
    for number in range(1, _MESSAGES + 1):
        store.reset()
        reply = DOORS[door](runner, number, uneven=uneven)
        assert f"done: {_text(number, uneven=uneven)}" in reply
        costs[number] = store.requests.total()
    assert max(costs.values()) <= _MOST_REQUESTS
