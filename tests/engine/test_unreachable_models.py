"""Models that cannot be reached, or refuse: an error at once, or a wait."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pytest

from continuations import Agent, Fallback, Finished, Runner, Suspended, resume, run
from continuations.errors import ModelError
from continuations.guardrails import Guardrails
from continuations.models.interface import ModelReply, ModelRequest, PendingReply
from continuations.models.openai_chat import OpenAIChat
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests import scripts
from tests.clocks import ManualClock
from tests.engine.agent_builders import Opinion, text_tool
from tests.model_server import ModelServer
from tests.outcomes import expect, single_wait
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call

NO_CREDIT = {"code": "insufficient_quota", "message": "You exceeded your quota."}
NOT_REPEATED = "No model of this run has replied yet, so the request is not repeated."


def unused_port() -> int:
    with closing(socket.socket()) as used:
        used.bind(("127.0.0.1", 0))
        port: int = used.getsockname()[1]
        return port


def model_at(url: str) -> OpenAIChat:
    return OpenAIChat("gpt-5-mini", base_url=url, api_key="sk-test")


def refused() -> OpenAIChat:
    return model_at(f"http://127.0.0.1:{unused_port()}/v1")


def unreachable() -> ModelError:
    return ModelError("no connection to x.example.", retryable=True, unreachable=True)


def limited() -> ModelError:
    return ModelError("status 429", status=429, retryable=True)


def in_turn(*replies: Any) -> ScriptedModel:
    """Return a model that gives one reply after the other, to any agent."""
    left = iter(replies)
    return ScriptedModel(lambda _: next(left))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if each.levelno == logging.WARNING]


# The first request ------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (f"http://127.0.0.1:{unused_port()}/v1", "the connection was refused"),
        ("http://nowhere.invalid/v1", "its name is not known"),
    ],
    ids=["refused", "dns"],
)
def test_first_request_without_a_server_is_an_error_at_once(
    url: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    runner = Runner(Agent("support", model=model_at(url)), store="memory:")
    began = time.monotonic()

    with pytest.raises(ModelError, match="OPENAI_BASE_URL") as caught:
        runner.start("hello", run_id="m")

    assert time.monotonic() - began < 10
    address = url.removeprefix("http://").removesuffix("/v1")
    assert (
        f"run m, model gpt-5-mini: no connection to {address} ({reason}). Check "
        f"OPENAI_BASE_URL and the network. {NOT_REPEATED} Correct the cause, then "
        "resume the run."
    ) == str(caught.value)
    assert not caught.value.retryable
    assert [] == warnings(caplog)
    # The text stands in the run, and the run goes on with a right address
    shown = runner.look("m").root.model_error
    assert shown
    assert address in shown
    with ModelServer({"": [{"content": "done"}]}) as server:
        agent = Agent("support", model=model_at(server.url))
        ended = Runner(agent, store=runner.store).resume("m")
    assert isinstance(ended, Finished)


def test_first_request_without_a_store_is_an_error_at_once() -> None:
    with pytest.raises(ModelError, match="the connection was refused") as caught:
        run(Agent("support", model=refused()), "hello")

    assert caught.value.continuation is not None


@pytest.mark.parametrize("status", [401, 404])
def test_refusal_of_the_server_is_an_error_at_once(status: int) -> None:
    with ModelServer({"": [{"status": status, "body": "no"}]}) as server:
        runner = Runner(Agent("a", model=model_at(server.url)), store="memory:")
        with pytest.raises(ModelError, match=str(status)):
            runner.start("hello", run_id="m")

    assert 1 == len(server.requests)


@pytest.mark.parametrize(
    "reply",
    [
        {"status": 429, "body": {"error": NO_CREDIT}},
        {"raw": 'data: {"error": {"code": "insufficient_quota"}}\n\n'},
    ],
    ids=["status", "stream"],
)
def test_account_without_credit_is_asked_once(reply: Mapping[str, Any]) -> None:
    with ModelServer({"": [reply]}) as server:
        runner = Runner(Agent("a", model=model_at(server.url)), store="memory:")
        with pytest.raises(ModelError, match="Add credit or raise the limit"):
            list(runner.stream("hello", run_id="m"))

    # The server refuses two forms of a stream first
    statuses = [request["status"] for request in server.requests]
    assert 1 == len([each for each in statuses if each != 400])


def test_guardrail_that_is_an_agent_may_make_the_first_request() -> None:
    guard = Agent("guard", model=refused(), output_type=Opinion)
    agent = Agent(
        "a", model=ScriptedModel(["done"]), guardrails=Guardrails(input=[guard])
    )

    with pytest.raises(ModelError, match="not repeated"):
        Runner(agent, store="memory:").start("hello", run_id="m")


def test_fallback_asks_every_model_before_it_is_an_error() -> None:
    replies = ScriptedModel(["done"], "other")
    reached = Fallback([refused(), replies])
    ended = Runner(Agent("a", model=reached), store="memory:").start("hello")
    assert isinstance(ended, Finished)

    nobody = Fallback([refused(), ScriptedModel([unreachable()], "other")])
    with pytest.raises(ModelError, match="not repeated"):
        Runner(Agent("a", model=nobody), store="memory:").start("hello")

    # A model that is only limited may reply later
    one = Fallback([refused(), ScriptedModel([limited()], "other")])
    runner = Runner(Agent("a", model=one), store="memory:", model_retry_time=0)
    assert isinstance(runner.start("hello"), Suspended)


def test_fallback_goes_on_if_an_account_has_no_credit() -> None:
    with ModelServer({"": [{"status": 429, "body": {"error": NO_CREDIT}}]}) as server:
        both = Fallback([model_at(server.url), ScriptedModel(["done"], "other")])
        ended = Runner(Agent("a", model=both), store="memory:").start("hello")

    assert isinstance(ended, Finished)


# Outages ----------------------------------------------------------------------


note = text_tool("note", "{text}", {"text": str})


def test_outage_after_a_reply_of_the_run_is_a_wait(clock: ManualClock) -> None:
    """Also in a process whose model has replied to nothing."""
    model = in_turn(ToolCall("note", {"text": "a"}), limited())
    store = Runner(Agent("a", tools=[note], model=model), store="memory:").store
    first = Runner(
        Agent("a", tools=[note], model=model),
        store=store,
        model_retry_time=0,
        clock=clock,
    )
    assert isinstance(first.start("hello", run_id="m"), Suspended)
    second = Runner(
        Agent("a", tools=[note], model=refused()),
        store=store,
        model_retry_time=0,
        clock=clock,
    )
    clock.seconds += 100

    assert "Attempt 2 failed" in (single_wait(second.resume("m")).note or "")


def test_resume_of_a_run_that_waits_for_its_model_is_no_first_request() -> None:
    model = in_turn(limited(), unreachable(), "done")
    clock = ManualClock()
    agent = Agent("a", model=model)
    runner = Runner(agent, store="memory:", model_retry_time=0, clock=clock)
    assert isinstance(runner.start("hello", run_id="m"), Suspended)
    other = Runner(agent, store=runner.store, model_retry_time=0, clock=clock)
    clock.seconds += 100

    assert isinstance(other.resume("m"), Suspended)

    clock.seconds += 1000
    assert isinstance(other.resume("m"), Finished)


def test_model_that_answered_this_process_is_only_down() -> None:
    """A worker that has worked for a while does not refuse new runs in an outage."""
    model = in_turn("done", unreachable())
    runner = Runner(Agent("a", model=model), store="memory:", model_retry_time=0)
    runner.start("hello", run_id="r1")
    assert isinstance(runner.start("hello", run_id="r2"), Suspended)


def test_refused_connection_after_a_limited_request_is_repeated() -> None:
    """The server has answered: it is down for a moment."""
    model = in_turn(limited(), unreachable(), "done")
    runner = Runner(Agent("a", model=model), store="memory:", model_retry_time=30)

    assert isinstance(runner.start("hello"), Finished)


# The log ----------------------------------------------------------------------


class Down:
    """A model that fails some times with one text, then replies."""

    name = "down"

    def __init__(self, text: str, times: int) -> None:
        self._text = text
        self._left = times
        self._replies = ScriptedModel(["done"])

    async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
        if self._left:
            self._left -= 1
            raise ModelError(self._text, retryable=True)
        return await self._replies.reply(request)


def test_first_failure_of_a_request_is_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = "run m, model x: no\nconnection to x.example\x1b[31m."
    runner = Runner(Agent("support", model=Down(text, 2)), store="memory:")

    assert isinstance(runner.start("hello", run_id="m"), Finished)

    [line] = warnings(caplog)
    head = "run m, agent support: a request to the model failed and will be repeated: "
    assert r"model x: no\nconnection to x.example\u001b[31m." == line.removeprefix(head)


def test_each_attempt_of_a_run_that_waits_is_one_warning(
    caplog: pytest.LogCaptureFixture, clock: ManualClock
) -> None:
    agent = Agent("support", model=Down("x.example is down.", 2))
    runner = Runner(agent, store="memory:", model_retry_time=0, clock=clock)
    runner.start("hello", run_id="m")
    clock.seconds += 100
    runner.resume("m")
    clock.seconds += 1000
    assert isinstance(runner.resume("m"), Finished)

    assert 2 == len(warnings(caplog))


def test_error_that_stays_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    runner = Runner(
        Agent("a", model=ScriptedModel([ModelError("no", status=401)])), store="memory:"
    )
    with pytest.raises(ModelError):
        runner.start("hello")

    assert [] == warnings(caplog)


# Errors that stay -------------------------------------------------------------


NESTED: Script = {
    "go": [[call("left", input="A")], "end"],
    "A": [[call("clerk", input="C")], "A done"],
    "C": [[call("act", what="c")], "C done"],
}
# The model of the deepest agent replies with a message of a user, which is refused.
REFUSED: Script = {**NESTED, "C": [{"role": "user", "content": "x"}]}


def test_error_of_a_nested_model_is_stored_until_its_next_reply(
    environment: RunEnvironment,
) -> None:
    """Three agents deep: every process sees why the run has stopped."""
    raised = environment.start(REFUSED)
    assert "ModelError" == raised["raised"]

    look = Runner([], store=environment.store).look("r1")

    assert ("suspended", ()) == (look.status, tuple(look.waits))
    errors = [row.model_error for row in look.run_state.frames.values()]
    assert [None, None, raised["message"]] == errors
    frames = json.loads(look.to_json())["frames"]
    assert [raised["message"]] == [
        frame["model_error"] for frame in frames if "model_error" in frame
    ]

    # The same error again replaces the text, and a reply removes it.
    assert "ModelError" == environment.resume(REFUSED)["raised"]
    assert "end" == environment.resume(NESTED)["output"]
    versions = Runner([], store=environment.store)
    newest = versions.look("r1").version
    told = [
        any(row.model_error for row in state.frames.values())
        for state in (
            versions.look("r1", version=number).run_state
            for number in range(look.version, newest + 1)
        )
    ]
    assert told == sorted(told, reverse=True)
    assert (True, False) == (told[0], told[-1])
    assert ["act c"] == environment.effect_names()


def test_error_is_in_the_continuation_of_a_run_without_a_store() -> None:
    model = scripts.scripted_model({"go": [ModelError("no such model", status=404)]})

    with pytest.raises(ModelError) as caught:
        run(Agent("boss", model=model), "go")

    continuation = caught.value.continuation
    assert "no such model." == continuation.root.model_error
    works = Agent("boss", model=scripts.scripted_model({"go": ["end"]}))
    ended = expect(resume(continuation.to_bytes(), works), Finished)
    assert ended.continuation.root.model_error is None


def test_error_that_costs_nothing_adds_no_version(store: MemoryStore) -> None:
    """It is part of the version that releases the claim."""
    model = scripts.scripted_model({"go": [ModelError("unauthorized", status=401)]})

    with pytest.raises(ModelError):
        Runner(Agent("boss", model=model), store=store).start("go", run_id="r1")

    look = Runner([], store=store).look("r1")
    assert (2, "unauthorized.") == (look.version, look.root.model_error)
