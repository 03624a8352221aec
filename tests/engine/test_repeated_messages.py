"""A repeated message of a thread costs few requests at every door."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from functools import lru_cache, partial
from typing import Any

import pytest

from continuations import Agent, AsyncRunner, Replied, Runner
from continuations.cli import main
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.aws_lambda import handler
from continuations.serve.http.api import HttpApi, Request
from tests.clocks import ManualClock
from tests.engine.agent_builders import text_tool
from tests.engine.test_thread_cost import CountingStore
from tests.outcomes import expect, present
from tests.serve.aws.test_handler_options import Context
from tests.serve.http.api_fixture import verify_bearer

_MESSAGES = 60
# A state is rebuilt from at most log2(versions) objects, which are among the requests.
_MOST_REQUESTS = 12
_OTHER_REQUESTS = 6
note = text_tool("note", "{what}", {"what": str})


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


@lru_cache(maxsize=2 * _MESSAGES)
def _version_of_reply(number: int, *, uneven: bool) -> int:
    ticket = present(_thread(uneven=uneven)[1].thread(key="k").ticket(number))
    reply = expect(ticket.reply(), Replied)
    return reply.continuation.version


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
    ticket = present(runner.thread(key="k").ticket(number))
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


def _command(runner: Runner, number: int, *, uneven: bool, name: str) -> str:
    """Run a command with the runner of a new process, which `--app` names."""
    globals()["application"] = _fresh(runner)
    text, out = _text(number, uneven=uneven), io.StringIO()
    given = [text] if name == "post" else ["--message", text]
    options = ["--key=k", f"--id=m{number}", "--by=ann"]
    with contextlib.redirect_stdout(out):
        code = main(
            [name, "support", *given, *options, f"--app={__name__}:application"]
        )
    assert 0 == code, out.getvalue()
    return out.getvalue()


def _lambda_event(runner: Runner, number: int, *, uneven: bool) -> str:
    handle = handler(store=runner.store, agents=_agent)
    fields = _arguments(number, uneven=uneven)
    message = {"agent": "support", "key": "k", "message": fields.pop("text"), **fields}
    reply = handle({"thread": message}, Context())
    handle.close()
    return json.dumps(reply)


def _send_fresh(runner: Any, n: Any, uneven: Any) -> Any:
    return _send(_fresh(runner), n, uneven=uneven)


DOORS: dict[str, Any] = {
    "warm": _send,
    "fresh": _send_fresh,
    "stream": _stream,
    "ticket": _ticket,
    "http": partial(_http, accept="application/json"),
    "http stream": partial(_http, accept="text/event-stream"),
    "chat command": partial(_command, name="chat"),
    "lambda": _lambda_event,
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
        assert not store.requests["create"] + store.requests["delete"]
        # The id, the message, the newest version, a listing and one step of a table.
        versions = _version_of_reply(number, uneven=uneven).bit_count()
        assert costs[number] <= versions + _OTHER_REQUESTS
    assert max(costs.values()) <= _MOST_REQUESTS


def test_a_repeated_post_command_costs_the_same_for_every_message() -> None:
    """It waits for no reply, so nothing is rebuilt."""
    store, runner = _thread(uneven=False)
    for number in (1, 31, _MESSAGES):
        store.reset()
        out = _command(runner, number, uneven=False, name="post")
        assert f"message {number}" in out
        assert 5 == store.requests.total()
