"""Background responses and batches: the run waits without a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from continuations import Agent, Finished, Runner, Suspended
from continuations.core.messages import user_message
from continuations.errors import ModelError
from continuations.models.interface import (
    LostReply,
    ModelReply,
    ModelRequest,
    PendingReply,
)
from continuations.models.responses_items import ITEMS_FIELD
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.models.response_calls import HELLO, poll, responses_model
from tests.responses_server import (
    ResponsesServer,
    dump,
    finished_batch,
    reasoning,
    response,
    text,
)

_QUEUED = response(status="queued", usage=None)
_READY = response(reasoning(), text("Done."))
_ERROR = {"code": "server_error", "message": "The model failed on sk-test."}


def _suspended(runner: Runner) -> Suspended:
    outcome = runner.start("Think.", run_id="r1")
    assert isinstance(outcome, Suspended)
    assert ["model"] == [wait.kind for wait in outcome.waits]
    return outcome


def test_background_reply_is_polled_by_another_runner() -> None:
    with ResponsesServer([_QUEUED]) as server:
        model = responses_model(server, background=True)
        runner = Runner(Agent("a", model=model), store="memory:")
        outcome = _suspended(runner)
        server.stored["resp_1"] |= _READY

        other = responses_model(server, background=True)
        runner.wake(outcome.run_id)
        ended = Runner(Agent("a", model=other), store=runner.store).resume("r1")

    assert isinstance(ended, Finished)
    assert ("Done.", 1, 4) == (
        ended.output,
        ended.usage.requests,
        ended.usage.reasoning_tokens,
    )
    assert ["POST /responses", "GET /responses/resp_1"] == server.paths
    [request] = server.requests
    assert (True, True, {"continuations_run": "r1"}) == (
        request["background"],
        request["store"],
        request["metadata"],
    )


def test_poll_keeps_items_unchanged() -> None:
    with ResponsesServer([]) as server:
        server.stored["resp_1"] = _READY
        reply = poll(responses_model(server, background=True), "resp_1")

    assert isinstance(reply, ModelReply)
    assert dump(_READY["output"]) in reply.message.text
    assert [reasoning(), text("Done.")] == reply.message.data[ITEMS_FIELD]


def test_reply_that_is_not_ready_is_polled_again() -> None:
    with ResponsesServer([_QUEUED]) as server:
        model = responses_model(
            server, background=True, poll_after=timedelta(seconds=7)
        )
        pending = asyncio.run(model.reply(HELLO))
        assert pending == poll(model, "resp_1")

    assert PendingReply(id="resp_1", poll_after=timedelta(seconds=7)) == pending


def test_background_response_that_is_ready_at_once_is_a_reply() -> None:
    with ResponsesServer([_READY]) as server:
        reply = asyncio.run(responses_model(server, background=True).reply(HELLO))

    assert isinstance(reply, ModelReply)


def test_metadata_of_the_application_is_kept() -> None:
    settings = {"metadata": {"team": "billing"}, "store": True}
    request = ModelRequest(messages=[user_message("a")], settings=settings, run_id="r1")
    with ResponsesServer([_QUEUED]) as server:
        asyncio.run(responses_model(server, background=True).reply(request))

    expected = {"continuations_run": "r1", "team": "billing"}
    assert expected == server.requests[0]["metadata"]


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (
            response(status="failed", error=_ERROR),
            "the response is failed (server_error: The model failed on [key])",
        ),
        (response(status="cancelled"), "the response is cancelled"),
        (None, "the provider does not know the reply any more"),
    ],
)
def test_response_that_will_never_be_ready_is_lost(
    stored: Mapping[str, Any] | None, reason: str
) -> None:
    with ResponsesServer([]) as server:
        server.stored["resp_1"] = stored
        lost = poll(responses_model(server, background=True), "resp_1")

    assert isinstance(lost, LostReply)
    assert reason == lost.reason


def test_response_that_fails_for_want_of_credit_is_not_asked_again_by_itself() -> None:
    error = {"code": "insufficient_quota", "message": "You exceeded your quota."}
    with ResponsesServer([_QUEUED, _READY]) as server:
        model = responses_model(server, background=True)
        clock = ManualClock()
        store = MemoryStore(clock.now)
        runner = Runner(Agent("a", model=model), store=store, clock=clock)
        _suspended(runner)
        server.stored["resp_1"] |= response(status="failed", error=error)
        runner.wake("r1")

        with pytest.raises(ModelError, match="no credit") as caught:
            runner.resume("r1")

        assert not caught.value.retryable
        assert "insufficient_quota: You exceeded your quota" in str(caught.value)
        assert ["POST /responses", "GET /responses/resp_1"] == server.paths
        # After an operator has added credit, the turn is asked anew
        server.stored["resp_1"] = _READY
        runner.resume("r1")
        runner.wake("r1")
        ended = runner.resume("r1")

    assert isinstance(ended, Finished)
    assert 2 == len(server.requests)


def test_lost_response_is_asked_again_later_and_its_tokens_count() -> None:
    with ResponsesServer([_QUEUED]) as server:
        model = responses_model(server, background=True)
        clock = ManualClock()
        store = MemoryStore(clock.now)
        runner = Runner(Agent("a", model=model), store=store, clock=clock)
        _suspended(runner)
        server.stored["resp_1"] |= response(status="failed", error=_ERROR)
        runner.wake("r1")
        outcome = runner.resume("r1")
        assert isinstance(outcome, Suspended)
        assert "the pending reply is lost" in (outcome.waits[0].note or "")
        server.stored["resp_1"] = _READY
        clock.seconds += 3600
        asked_again = runner.resume("r1")
        assert isinstance(asked_again, Suspended)
        runner.wake("r1")
        ended = runner.resume("r1")

    assert isinstance(ended, Finished)
    assert 2 == len(server.requests)
    assert 2 * 30 == ended.usage.input_tokens


@pytest.mark.parametrize("reply_id", ["../files/f", "a b?c=1#d", "é", "/"])
def test_stored_id_cannot_change_the_path(reply_id: str) -> None:
    with ResponsesServer([]) as server:
        lost = poll(responses_model(server, background=True), reply_id)

    assert isinstance(lost, LostReply)
    [path] = server.paths
    assert path.startswith("GET /responses/")
    assert 2 == path.count("/")


# Batches ----------------------------------------------------------------------


def _line(**fields: Any) -> dict[str, Any]:
    ok = {"status_code": 200, "request_id": "req_1", "body": _READY}
    return {"custom_id": "reply", "response": ok, "error": None, **fields}


def test_batch_of_one_request_is_polled_until_its_output_is_there() -> None:
    with ResponsesServer([]) as server:
        model = responses_model(server, batch=True)
        runner = Runner(Agent("a", model=model), store="memory:")
        _suspended(runner)
        runner.wake("r1")
        assert isinstance(runner.resume("r1"), Suspended)
        server.stored["batch_1"] = finished_batch(server, _line())
        runner.wake("r1")
        ended = runner.resume("r1")

    assert isinstance(ended, Finished)
    assert ("Done.", 1) == (ended.output, ended.usage.requests)
    assert [
        "POST /files",
        "POST /batches",
        "GET /batches/batch_1",
        "GET /batches/batch_1",
        "GET /files/file-out/content",
    ] == server.paths
    assert {"continuations_run": "r1"} == server.stored["batch_1"]["metadata"]
    assert server.requests[0]["store"] is False
    assert "background" not in server.requests[0]


def _failed(server: ResponsesServer) -> dict[str, Any]:
    error = {"code": "invalid", "message": "The file is not valid."}
    errors = {"object": "list", "data": [error]}
    return {**server.stored["batch_1"], "status": "failed", "errors": errors}


def _expired(server: ResponsesServer) -> dict[str, Any]:
    return {**server.stored["batch_1"], "status": "expired"}


def _without_output(server: ResponsesServer) -> dict[str, Any]:
    return {**server.stored["batch_1"], "status": "completed"}


def _with_errors(server: ResponsesServer) -> dict[str, Any]:
    body = {"error": {"message": "No such model."}}
    line = _line(response={"status_code": 404, "body": body})
    batch = finished_batch(server, line)
    return {**batch, "output_file_id": None, "error_file_id": "file-out"}


def _with_error_of_the_line(server: ResponsesServer) -> dict[str, Any]:
    error = {"code": "batch_expired", "message": "Too late."}
    return finished_batch(server, _line(response=None, error=error))


def _forgotten(_server: ResponsesServer) -> None:
    return None


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (_failed, "the batch is failed: The file is not valid"),
        (_expired, "the batch is expired"),
        (_without_output, "the batch is completed, and has no output"),
        (_with_errors, "No such model"),
        (_with_error_of_the_line, "batch_expired: Too late"),
        (_forgotten, "the provider does not know the reply any more"),
    ],
)
def test_batch_without_a_reply_is_lost(
    end: Callable[[ResponsesServer], Any], reason: str
) -> None:
    with ResponsesServer([]) as server:
        model = responses_model(server, batch=True)
        pending = asyncio.run(model.reply(HELLO))
        assert isinstance(pending, PendingReply)
        server.stored["batch_1"] = end(server)
        lost = poll(model, pending.id)

    assert isinstance(lost, LostReply)
    assert reason in lost.reason


def _out_of_credit(server: ResponsesServer) -> dict[str, Any]:
    error = {"code": "billing_hard_limit_reached", "message": "Limit reached."}
    return {**_failed(server), "errors": {"object": "list", "data": [error]}}


def _out_of_credit_in_its_line(server: ResponsesServer) -> dict[str, Any]:
    body = {"error": {"code": "insufficient_quota", "message": "No quota."}}
    line = _line(response={"status_code": 429, "body": body})
    batch = finished_batch(server, line)
    return {**batch, "output_file_id": None, "error_file_id": "file-out"}


@pytest.mark.parametrize(
    ("end", "retryable"),
    [(_out_of_credit, False), (_out_of_credit_in_its_line, False), (_expired, True)],
)
def test_batch_without_credit_is_not_asked_again_by_itself(
    end: Callable[[ResponsesServer], Any], *, retryable: bool
) -> None:
    with ResponsesServer([]) as server:
        model = responses_model(server, batch=True)
        pending = asyncio.run(model.reply(HELLO))
        assert isinstance(pending, PendingReply)
        server.stored["batch_1"] = end(server)
        lost = poll(model, pending.id)

    assert isinstance(lost, LostReply)
    assert retryable == lost.retryable
    assert retryable != ("the account has no credit" in lost.reason)


def test_batch_without_a_run_has_no_metadata() -> None:
    with ResponsesServer([]) as server:
        asyncio.run(responses_model(server, batch=True).reply(HELLO))

    assert server.stored["batch_1"]["metadata"] is None


@pytest.mark.parametrize("options", [{"background": True}, {"batch": True}])
def test_provider_tells_the_run_of_a_reply(options: dict[str, Any]) -> None:
    request = ModelRequest(messages=[user_message("a")], run_id="r1")
    with ResponsesServer([_QUEUED]) as server:
        model = responses_model(server, **options)
        pending = asyncio.run(model.reply(request))
        assert isinstance(pending, PendingReply)
        assert "r1" == asyncio.run(model.find_run(pending.id))
        assert asyncio.run(model.find_run("resp_2")) is None
