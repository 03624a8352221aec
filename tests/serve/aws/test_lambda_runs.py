"""Runs in AWS Lambda: every event in a cold process with the runtime client of AWS.

S3 and SQS are emulated. The tools and models record their calls in files.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from examples import local_cloud
from examples.local_cloud import FunctionError, FunctionTimedOut, queue_event, url_event
from tests.present.schema_check import assert_matches_schema
from tests.scripts import Script
from tests.serve.aws.lambda_cloud import (
    REPORTING_HANDLER,
    LambdaTestCloud,
    make_bucket,
    serve_invocation_api,
)

NESTED: Script = {
    "go": [[["left", {"input": "A"}]], "all done"],
    "A": [[["clerk", {"input": "C"}]], "A done"],
    "C": [[["pay", {"what": "x"}]], "C done"],
}
# S3 tells the time to the second, and a clock may be off by a quarter of a claim.
LEASE = 5.0
WAKE_UP = '{"resume": "r-1"}'


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve S3 with a bucket, and SQS; return their URL."""
    pytest.importorskip("ministack")
    pytest.importorskip("awslambdaric")
    with local_cloud.serving(tmp_path_factory.mktemp("ministack")) as url:
        make_bucket(url)
        yield url


@pytest.fixture
def cloud(aws: str, tmp_path: Path) -> LambdaTestCloud:
    """Return an account with a store of its own."""
    return LambdaTestCloud(aws, tmp_path).with_settings(script=NESTED)


def is_finished(cloud: LambdaTestCloud) -> bool:
    """Return whether the run is finished, from a cold function."""
    status, run = cloud.http_request("GET", "/runs/r-1")
    return (200, "finished", "all done") == (status, run["status"], run["output"])


# Start, decide, resume ----------------------------------------------------------


def test_run_is_started_decided_and_resumed_in_cold_processes(
    cloud: LambdaTestCloud,
) -> None:
    """Between the events the run is only in the store."""
    cloud = cloud.with_queue()

    # Given a run that waits for an approval, three agents deep
    [wait] = cloud.start()
    assert ["boss", "left", "clerk", "pay"] == wait["path"]
    status, listed = cloud.http_request("GET", "/waits")
    assert (200, [wait["id"]]) == (status, [each["id"] for each in listed["waits"]])

    # When the wait is decided over HTTP, nothing runs yet, but a message is sent
    status, recorded = cloud.approve(wait)
    assert (200, True) == (status, recorded["woken"])
    assert "kim" == recorded["decision"]["by"]
    assert [] == cloud.effects()
    [message] = cloud.receive_messages()

    # Then the function that gets the message resumes the run
    assert {"batchItemFailures": []} == cloud.invoke(queue_event(message))
    assert is_finished(cloud)
    assert ["pay x"] == cloud.effects()
    assert len(cloud.turns()) == len(set(cloud.turns())) == 6


def test_inline_wake_resumes_in_the_same_invocation(cloud: LambdaTestCloud) -> None:
    [wait] = cloud.start()

    status, recorded = cloud.approve(wait)

    assert (200, True) == (status, recorded["woken"])
    assert ["pay x"] == cloud.effects()
    assert is_finished(cloud)


def test_invoke_wake_resumes_by_invoking_itself(cloud: LambdaTestCloud) -> None:
    """The function's ARN contains its alias."""
    with serve_invocation_api() as api:
        cloud = cloud.with_settings(WAKE="invoke", AWS_ENDPOINT_URL_LAMBDA=api.url)
        [wait] = cloud.start()
        assert 200 == cloud.approve(wait)[0]

    [(function, kind, event)] = api.received
    arn = "arn:aws:lambda:us-east-1:000000000000:function:continuations"
    assert (arn, "Event", {"resume": "r-1"}) == (function, kind, event)
    assert [] == cloud.effects()
    assert "finished" == cloud.invoke(event)["status"]


def test_cancel_and_scheduled_sweep_events_are_handled(cloud: LambdaTestCloud) -> None:
    [wait] = cloud.start()
    event = {"cancel": {"run_id": "r-1", "by": "kim"}}
    cancelled = cloud.invoke(event)
    assert ("r-1", "cancelled") == (cancelled["run_id"], cancelled["status"])
    assert_matches_schema("run", cancelled)

    status, problem = cloud.approve(wait)
    assert (410, "cancelled") == (status, problem["type"].rpartition(":")[2])
    result = cloud.invoke({"source": "aws.events", "detail-type": "Scheduled Event"})
    assert {} == result["failed"]
    assert_matches_schema("sweep_result", result)
    assert [] == cloud.effects()


def test_start_without_run_id_is_idempotent(cloud: LambdaTestCloud) -> None:
    """Lambda retries an asynchronous invocation with the same request id."""
    event = {"start": {"input": "go"}}
    for _ in range(2):
        with cloud.start_environment() as environment:
            environment.send_event(event, request_id="11111111-2222")
            outcome = environment.result()
        assert ("11111111-2222", 1) == (outcome["run_id"], len(outcome["waits"]))
        assert_matches_schema("outcome", outcome)

    assert 1 == len(cloud.http_request("GET", "/waits")[1]["waits"])


# Imports ------------------------------------------------------------------------


def imported_modules(cloud: LambdaTestCloud, event: object) -> set[str]:
    """Return the modules that a cold function imported for an event."""
    report = cloud.invoke(event, handler=REPORTING_HANDLER)
    assert report["result"].get("statusCode", 200) == 200
    return set(report["modules"])


def test_deciding_imports_neither_openai_nor_the_application(
    cloud: LambdaTestCloud,
) -> None:
    """A message to a queue needs only the client that sends it."""
    cloud = cloud.with_queue()
    [wait] = cloud.start()
    path = f"/waits/{wait['id']}/decision"
    body = {"decision": "approve"}

    modules = imported_modules(cloud, url_event("POST", path, body, **{"x-who": "kim"}))

    heavy = {"openai", "pydantic", "boto3", "httpx2"}
    assert set() == modules & heavy
    assert "tests.sample_app" not in modules
    assert "continuations.authoring.agent.agent" not in modules
    assert "tests.sample_app" in imported_modules(cloud, queue_event(WAKE_UP))
    assert ["pay x"] == cloud.effects()


def test_deciding_on_files_imports_no_client(cloud: LambdaTestCloud) -> None:
    folder = cloud.folder / "store"
    folder.mkdir()
    cloud = cloud.with_settings(STORE=f"file:{folder}", AGENTS="nowhere:at_all")
    path = "/waits/approval-01m7z8mgzx2yn0x7x9gkpfj8nc@r-1/decision"
    report = cloud.invoke(
        url_event("POST", path, {"decision": "approve"}, **{"x-who": "kim"}),
        handler=REPORTING_HANDLER,
    )

    assert 404 == report["result"]["statusCode"]
    heavy = {"botocore", "boto3", "openai", "pydantic"}
    assert set() == heavy & set(report["modules"])


# Killed and delivered twice -----------------------------------------------------


@pytest.mark.parametrize("tool", ["act", "push"])
def test_killed_call_is_unknown_or_repeated(cloud: LambdaTestCloud, tool: str) -> None:
    """An idempotent call is repeated; the outcome of another call is unknown."""
    script: Script = {
        "go": [
            [["pay", {"what": "first"}]],
            [[tool, {"what": "x", "then": "die-once"}]],
            "all done",
        ]
    }
    cloud = cloud.with_settings(script=script, LEASE=str(LEASE)).with_queue()
    [wait] = cloud.start()
    cloud.approve(wait)
    [message] = cloud.receive_messages()
    with pytest.raises(FunctionError, match="-9"):
        cloud.invoke(queue_event(message))

    # When the message is delivered again too early, and the run is result later
    again = cloud.invoke(queue_event(message))
    assert {"batchItemFailures": [{"itemIdentifier": "m-0"}]} == again
    time.sleep(LEASE)
    [resumed] = cloud.invoke({"sweep": True})["resumed"]

    # Then
    if tool == "push":
        assert "finished" == resumed["status"]
        assert ["pay first", "push x", "push x"] == cloud.effects()
        return
    assert ["pay first", "act x"] == cloud.effects()
    [unknown] = cloud.http_request("GET", "/runs/r-1")[1]["waits"]
    assert "unknown" == unknown["kind"]
    cloud.decide(unknown, {"decision": "answer", "value": "It did happen."})
    cloud.invoke(queue_event(*cloud.receive_messages()))
    assert is_finished(cloud)
    assert ["pay first", "act x"] == cloud.effects()


def test_timed_out_invocation_leaves_an_unknown_call(cloud: LambdaTestCloud) -> None:
    """A call that is longer than the margin becomes an unknown outcome."""
    script: Script = {"go": [[["act", {"what": "x", "then": "sleep:60"}]], "all done"]}
    cloud = cloud.with_settings(script=script, LEASE=str(LEASE), MARGIN="0.5")
    with pytest.raises(FunctionTimedOut):
        cloud.invoke({"start": {"input": "go", "run_id": "r-1"}}, timeout=6.0)
    time.sleep(LEASE)

    [resumed] = cloud.invoke({"sweep": True})["resumed"]

    assert {"run_id": "r-1", "status": "suspended"} == resumed
    _, run = cloud.http_request("GET", "/runs/r-1")
    assert ["unknown"] == [wait["kind"] for wait in run["waits"]]
    assert ["act x"] == cloud.effects()


def test_message_delivered_twice_resumes_once(cloud: LambdaTestCloud) -> None:
    """In one batch, at the same time, and after the end: one resume makes progress."""
    cloud = cloud.with_queue()
    [wait] = cloud.start()
    cloud.approve(wait)

    twice = queue_event(WAKE_UP, WAKE_UP)
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(cloud.invoke, [twice, twice, twice]))

    assert {"batchItemFailures": []} in results
    assert {"batchItemFailures": []} == cloud.invoke(twice)
    assert ["pay x"] == cloud.effects()
    assert len(cloud.turns()) == len(set(cloud.turns()))
    assert is_finished(cloud)


def test_decision_delivered_twice_is_recorded_once(cloud: LambdaTestCloud) -> None:
    """At the same time, later, and after the end."""
    cloud = cloud.with_queue()
    [wait] = cloud.start()
    with ThreadPoolExecutor(3) as pool:
        responses = list(pool.map(cloud.approve, [wait] * 3))
    responses.append(cloud.approve(wait))
    for message in cloud.receive_messages():
        cloud.invoke(queue_event(message))
    responses.append(cloud.approve(wait))

    assert [200] * 5 == [status for status, _ in responses]
    assert 1 == len({body["decision"]["id"] for _, body in responses})
    assert ["pay x"] == cloud.effects()
    status, problem = cloud.decide(wait, {"decision": "deny"})
    assert (409, "approve") == (status, problem["decision"]["kind"])


def test_decision_is_recorded_if_the_wake_fails(cloud: LambdaTestCloud) -> None:
    """The queue does not exist; the next sweep resumes the run."""
    [wait] = cloud.start()
    lost = cloud.with_settings(WAKE=f"sqs:{cloud.url}/000000000000/no-such-queue")

    status, recorded = lost.approve(wait)

    assert (200, False) == (status, recorded["woken"])
    assert "was not resumed" in cloud.log()
    [resumed] = lost.invoke({"sweep": True})["resumed"]
    assert "finished" == resumed["status"]
    assert ["pay x"] == cloud.effects()


def test_unusable_messages_are_not_retried(cloud: LambdaTestCloud) -> None:
    """Only a message that can succeed later is delivered again."""
    event = queue_event(
        WAKE_UP, '{"resume": "no-such-run"}', '{"resume": 1}', "hunter2"
    )
    cloud.start()

    assert {"batchItemFailures": []} == cloud.invoke(event)

    assert "hunter2" not in cloud.log()


def test_agents_import_error_fails_the_invocation(cloud: LambdaTestCloud) -> None:
    """Every message of the batch is delivered again, until the code is corrected."""
    broken = cloud.with_settings(AGENTS="tests.sample_app:no_such_name")

    with pytest.raises(FunctionError, match="no_such_name"):
        broken.invoke(queue_event(WAKE_UP))


# Time ---------------------------------------------------------------------------

LONG: Script = {
    "go": [
        *([["act", {"what": str(number), "then": "sleep:0.8"}]] for number in range(6)),
        "all done",
    ]
}


def test_long_run_continues_in_several_invocations(cloud: LambdaTestCloud) -> None:
    """Before its time is up, the function pauses the run and sends a message."""
    cloud = cloud.with_settings(script=LONG, MARGIN="3").with_queue()
    event: dict[str, Any] = {"start": {"input": "go", "run_id": "r-1"}}
    invoked = 0
    while event:
        result = cloud.invoke(event, timeout=6.0)
        invoked += 1
        assert result.get("status", "suspended") in {"suspended", "finished"}
        assert [] == result.get("batchItemFailures", [])
        messages = cloud.receive_messages()
        assert len(messages) <= 1
        event = queue_event(*messages) if messages else {}

    assert is_finished(cloud)
    assert invoked >= 2
    assert len(set(cloud.worker_pids())) >= 2
    assert [f"act {number}" for number in range(6)] == cloud.effects()
    assert [("go", number) for number in range(7)] == cloud.turns()


def test_sweep_continues_a_paused_run(cloud: LambdaTestCloud) -> None:
    cloud = cloud.with_settings(script=LONG, MARGIN="3")
    outcome = cloud.invoke({"start": {"input": "go", "run_id": "r-1"}}, timeout=6.0)
    assert (True, []) == (outcome["paused"], outcome["waits"])

    result = cloud.invoke({"sweep": True})

    assert ["finished"] == [each["status"] for each in result["resumed"]]
    assert [f"act {number}" for number in range(6)] == cloud.effects()


def test_margin_above_the_timeout_still_makes_progress(cloud: LambdaTestCloud) -> None:
    """Each invocation uses at least half of its time."""
    cloud = cloud.with_settings(script=LONG, MARGIN="900")

    cloud.invoke({"start": {"input": "go", "run_id": "r-1"}}, timeout=10.0)

    assert [] != cloud.effects()


# Conversations ------------------------------------------------------------------

CHAT: Script = {
    "go": [
        "hello",
        [["pay", {"what": "x"}]],
        "I have paid",
        "at nine",
    ]
}


def message(text: str, **more: str) -> dict[str, Any]:
    """Return the event of a message to the conversation of customer 42."""
    return {"thread": {"key": "customer 42", "message": text, "by": "ann", **more}}


def test_messages_are_answered_by_cold_functions(cloud: LambdaTestCloud) -> None:
    """Between the messages, no process exists; an approval comes in the middle."""
    cloud = cloud.with_settings(script=CHAT).with_queue()

    first = cloud.invoke(message("go", id="m-1"))
    held = cloud.invoke(message("Pay, please.", id="m-2"))
    late = cloud.invoke(message("When do you open?", id="m-3"))

    for form in (first, held, late):
        assert_matches_schema("thread_reply", form)
    assert ("replied", 1, "hello") == (
        first["status"],
        first["number"],
        first["output"],
    )
    assert ["suspended", "queued"] == [held["status"], late["status"]]
    [wait] = held["waits"]
    assert "ann" == wait["requester"]

    # When the approval comes, the message of the queue resumes the conversation
    assert 200 == cloud.approve(wait)[0]
    cloud.invoke(queue_event(*cloud.receive_messages()))

    # Then each event, sent again, has the reply to its own message
    again = [
        cloud.invoke(message(text, id=f"m-{number}"))
        for number, text in enumerate(
            ("go", "Pay, please.", "When do you open?"), start=1
        )
    ]
    assert ["hello", "I have paid", "at nine"] == [each["output"] for each in again]
    assert [1, 2, 3] == [each["number"] for each in again]
    assert ["pay x"] == cloud.effects()
    assert len(cloud.turns()) == len(set(cloud.turns())) == 4


def test_message_without_an_id_has_that_of_the_request(cloud: LambdaTestCloud) -> None:
    """Lambda retries an asynchronous invocation with the same request id."""
    cloud = cloud.with_settings(script=CHAT)
    replies: list[dict[str, Any]] = []
    for _ in range(2):
        with cloud.start_environment() as environment:
            environment.send_event(message("go"), request_id="11111111-2222")
            replies.append(environment.result())

    assert replies[0] == replies[1]
    assert 1 == len(cloud.turns())


def test_reply_that_outlasts_the_function_goes_on_in_others(
    cloud: LambdaTestCloud,
) -> None:
    """The message is stored, and the queue gets the run to resume."""
    cloud = cloud.with_settings(script=LONG, MARGIN="3").with_queue()

    result = cloud.invoke(message("go", id="m-1"), timeout=6.0)
    # "queued" if the function was so slow that it did not begin.
    assert result["status"] in ("suspended", "queued")
    assert [] == result["waits"]
    resumed = 0
    while messages := cloud.receive_messages():
        cloud.invoke(queue_event(*messages), timeout=6.0)
        resumed += 1

    turns = cloud.turns()
    reply = cloud.invoke(message("go", id="m-1"))
    assert resumed >= 1
    assert turns == cloud.turns()
    assert ("replied", "all done") == (reply["status"], reply["output"])
    assert [f"act {number}" for number in range(6)] == cloud.effects()


def test_killed_function_loses_no_message(cloud: LambdaTestCloud) -> None:
    """A sweep after the claim reads the message, and asks about the call."""
    script: Script = {"go": [[["act", {"what": "x", "then": "die-once"}]], "all done"]}
    cloud = cloud.with_settings(script=script, LEASE=str(LEASE))
    with pytest.raises(FunctionError, match="-9"):
        cloud.invoke(message("go", id="m-1"))
    time.sleep(LEASE)
    cloud.invoke({"sweep": True})

    held = cloud.invoke(message("go", id="m-1"))
    [unknown] = held["waits"]
    assert ("suspended", "unknown") == (held["status"], unknown["kind"])
    cloud.decide(unknown, {"decision": "answer", "value": "It did happen."})
    reply = cloud.invoke(message("go", id="m-1"))

    assert ("replied", "all done") == (reply["status"], reply["output"])
    assert ["act x"] == cloud.effects()


# One environment, many events ---------------------------------------------------


def test_frozen_environment_continues_after_the_thaw(cloud: LambdaTestCloud) -> None:
    """Clients and the event loop are kept; closed connections are replaced."""
    cloud = cloud.with_queue()
    proxy = local_cloud.RequestCounter(cloud.url)
    cloud = cloud.with_settings(AWS_ENDPOINT_URL_S3=proxy.url)
    with cloud.start_environment(REPORTING_HANDLER) as environment:
        environment.send_event({"start": {"input": "go", "run_id": "r-1"}})
        first = environment.result()
        environment.freeze()
        proxy.close_connections()
        time.sleep(0.3)
        environment.thaw()
        [wait] = first["result"]["waits"]
        path = f"/waits/{wait['id']}/decision"
        body = {"decision": "approve"}
        environment.send_event(url_event("POST", path, body, **{"x-who": "kim"}))
        second = environment.result()
        environment.send_event(queue_event(*cloud.receive_messages()))
        third = environment.result()

    assert first["pid"] == second["pid"] == third["pid"]
    assert 200 == second["result"]["statusCode"]
    assert is_finished(cloud)
    proxy.close()


# Errors -------------------------------------------------------------------------


def test_malformed_request_gets_a_response_and_unknown_event_raises(
    cloud: LambdaTestCloud,
) -> None:
    """A malformed request gets a 4xx; an unknown event raises a typed error."""
    with cloud.start_environment() as environment:
        environment.send_event({"requestContext": {}, "body": "hunter2"})
        response = environment.result()
        assert 400 == response["statusCode"]
        assert "malformed" in json.loads(response["body"])["type"]
        environment.send_event({"hunter2": 1})
        with pytest.raises(FunctionError) as unknown:
            environment.result()
        assert "UnknownEvent" == unknown.value.error_type
        environment.send_event({"resume": "no-such-run"})
        with pytest.raises(FunctionError) as missing:
            environment.result()
        assert "RunNotFound" == missing.value.error_type

    assert "hunter2" not in cloud.log()
