"""Runs in AWS Lambda: every event in a cold process of AWS's own runtime client.

The store is an S3, the queue an SQS. What happened outside is told by ledgers in files.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from examples import local_cloud
from examples.local_cloud import FunctionError, FunctionTimedOut, queue_event, url_event
from tests.present.schema_check import assert_matches_schema
from tests.serve.aws.lambda_cloud import (
    REPORTING_HANDLER,
    LambdaTestCloud,
    make_bucket,
    serve_invocation_api,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.scripts import Script

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
    """S3 with a bucket, and SQS; their URL."""
    pytest.importorskip("ministack")
    pytest.importorskip("awslambdaric")
    with local_cloud.serving(tmp_path_factory.mktemp("ministack")) as url:
        make_bucket(url)
        yield url


@pytest.fixture
def cloud(aws: str, tmp_path: Path) -> LambdaTestCloud:
    """A store and functions of their own."""
    return LambdaTestCloud(aws, tmp_path).with_settings(script=NESTED)


def is_finished(cloud: LambdaTestCloud) -> bool:
    """Tell whether the run came to its end, from a cold function."""
    status, run = cloud.http_request("GET", "/runs/r-1")
    return (200, "finished", "all done") == (status, run["status"], run["output"])


# A run's life -------------------------------------------------------------------


def test_run_is_started_decided_and_resumed_in_cold_processes(
    cloud: LambdaTestCloud,
) -> None:
    """SL-11, SL-12, SL-13, SL-19, R-F3: the store is all that there is in between."""
    cloud = cloud.with_queue()

    # Given a run that waits for a person, three agents deep
    [wait] = cloud.start()
    assert ["boss", "left", "clerk", "pay"] == wait["path"]
    status, listed = cloud.http_request("GET", "/waits")
    assert (200, [wait["id"]]) == (status, [each["id"] for each in listed["waits"]])

    # When the webhook decides it, nothing runs but a wake-up is under way
    status, answer = cloud.approve(wait)
    assert (200, True) == (status, answer["woken"])
    assert "kim" == answer["decision"]["by"]
    assert [] == cloud.effects()
    [message] = cloud.receive_messages()

    # Then whoever takes that resumes the run
    assert {"batchItemFailures": []} == cloud.invoke(queue_event(message))
    assert is_finished(cloud)
    assert ["pay x"] == cloud.effects()
    assert len(cloud.turns()) == len(set(cloud.turns())) == 6


def test_inline_wake_resumes_in_the_same_invocation(cloud: LambdaTestCloud) -> None:
    [wait] = cloud.start()

    status, answer = cloud.approve(wait)

    assert (200, True) == (status, answer["woken"])
    assert ["pay x"] == cloud.effects()
    assert is_finished(cloud)


def test_invoke_wake_resumes_by_invoking_itself(cloud: LambdaTestCloud) -> None:
    """The function is named by its ARN, so that an alias stays an alias."""
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
    swept = cloud.invoke({"source": "aws.events", "detail-type": "Scheduled Event"})
    assert {} == swept["failed"]
    assert_matches_schema("sweep_result", swept)
    assert [] == cloud.effects()


def test_start_without_run_id_is_idempotent(
    cloud: LambdaTestCloud,
) -> None:
    """R-G3: an invocation that nobody waits for is repeated under the same id."""
    event = {"start": {"input": "go"}}
    for _ in range(2):
        with cloud.start_environment() as environment:
            environment.send_event(event, request_id="11111111-2222")
            told = environment.result()
        assert ("11111111-2222", 1) == (told["run_id"], len(told["waits"]))
        assert_matches_schema("outcome", told)

    assert 1 == len(cloud.http_request("GET", "/waits")[1]["waits"])


# Cold ---------------------------------------------------------------------------


def imported_modules(cloud: LambdaTestCloud, event: object) -> set[str]:
    """Return what a cold function imported to answer an event."""
    told = cloud.invoke(event, handler=REPORTING_HANDLER)
    assert "statusCode" not in told["answer"] or told["answer"]["statusCode"] == 200
    return set(told["modules"])


def test_deciding_imports_neither_openai_nor_the_application(
    cloud: LambdaTestCloud,
) -> None:
    """R-G2: a wake-up by a queue costs no more than the client that sends it."""
    cloud = cloud.with_queue()
    [wait] = cloud.start()
    path = f"/waits/{wait['id']}/decision"
    body = {"decision": "approve"}

    modules = imported_modules(cloud, url_event("POST", path, body, **{"x-who": "kim"}))

    heavy = {"openai", "pydantic", "boto3", "httpx2"}
    assert set() == modules & heavy
    assert "tests.sample_app" not in modules
    assert "continuations.authoring.agent" not in modules
    assert "tests.sample_app" in imported_modules(cloud, queue_event(WAKE_UP))
    assert ["pay x"] == cloud.effects()


def test_deciding_on_files_imports_no_client(
    cloud: LambdaTestCloud,
) -> None:
    cloud = cloud.with_settings(
        STORE=f"file:{cloud.folder / 'store'}", AGENTS="nowhere:at_all"
    )
    path = "/waits/approval-01m7z8mgzx2yn0x7x9gkpfj8nc@r-1/decision"
    told = cloud.invoke(
        url_event("POST", path, {"decision": "approve"}, **{"x-who": "kim"}),
        handler=REPORTING_HANDLER,
    )

    assert 404 == told["answer"]["statusCode"]
    assert set() == {"botocore", "boto3", "openai", "pydantic"} & set(told["modules"])


DECIDING_PROGRAM = """
import sys
from examples.local_cloud import url_event
from tests.serve.aws.deployed_handler import handle

class Context:
    aws_request_id, invoked_function_arn = "1", "arn"
    def get_remaining_time_in_millis(self):
        return 60_000

event = url_event("POST", sys.argv[1], {"decision": "approve"}, **{"x-who": "kim"})
assert handle(event, Context())["statusCode"] == 200
"""


def shortest_duration(command: list[str], environment: dict[str, str]) -> float:
    """Return how long a cold process takes at least."""
    taken: list[float] = []
    for _ in range(3):
        begun = time.monotonic()
        done = [sys.executable, "-c", *command]
        subprocess.run(done, env=environment, check=True, capture_output=True)
        taken.append(time.monotonic() - begun)
    return min(taken)


def test_a_cold_decision_on_files_is_cheaper_than_the_models_client(
    cloud: LambdaTestCloud,
) -> None:
    """R-G2, as a ratio in one run. A third where nothing else runs, as measured."""
    cloud = cloud.with_settings(STORE=f"file:{cloud.folder / 'store'}")
    [wait] = cloud.start()
    # The code is not there, so nobody is woken; to say yes again is no dearer.
    alone = cloud.with_settings(AGENTS="nowhere:at_all").environment
    path = f"/waits/{wait['id']}/decision"

    decision = shortest_duration([DECIDING_PROGRAM, path], alone)
    openai = shortest_duration(["import openai"], alone)

    assert decision < openai / 2


# Broken off and delivered twice -------------------------------------------------


@pytest.mark.parametrize("tool", ["act", "push"])
def test_killed_call_is_unknown_or_repeated(cloud: LambdaTestCloud, tool: str) -> None:
    """R-F8, R-A6: the outcome is unknown, or the call is repeated, as was declared."""
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

    # When it is delivered again too early, and then swept when the claim is over
    again = cloud.invoke(queue_event(message))
    assert {"batchItemFailures": [{"itemIdentifier": "m-0"}]} == again
    time.sleep(LEASE)
    [told] = cloud.invoke({"sweep": True})["resumed"]

    # Then
    if tool == "push":
        assert "finished" == told["status"]
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
    """R-F8: no margin helps a tool that is longer than it; a person is asked."""
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
    """R-G3: in one batch, at the same time, and after the end: one resume counts."""
    cloud = cloud.with_queue()
    [wait] = cloud.start()
    cloud.approve(wait)

    twice = queue_event(WAKE_UP, WAKE_UP)
    with ThreadPoolExecutor(3) as pool:
        told = list(pool.map(cloud.invoke, [twice, twice, twice]))

    assert {"batchItemFailures": []} in told
    assert {"batchItemFailures": []} == cloud.invoke(twice)
    assert ["pay x"] == cloud.effects()
    assert len(cloud.turns()) == len(set(cloud.turns()))
    assert is_finished(cloud)


def test_decision_delivered_twice_is_recorded_once(cloud: LambdaTestCloud) -> None:
    """R-G3: the same answer at the same time, later, and after the end."""
    cloud = cloud.with_queue()
    [wait] = cloud.start()
    with ThreadPoolExecutor(3) as pool:
        told = list(pool.map(cloud.approve, [wait] * 3))
    told.append(cloud.approve(wait))
    for message in cloud.receive_messages():
        cloud.invoke(queue_event(message))
    told.append(cloud.approve(wait))

    assert [200] * 5 == [status for status, _ in told]
    assert 1 == len({answer["decision"]["id"] for _, answer in told})
    assert ["pay x"] == cloud.effects()
    status, problem = cloud.decide(wait, {"decision": "deny"})
    assert (409, "approve") == (status, problem["decision"]["kind"])


def test_decision_is_recorded_if_the_wake_fails(cloud: LambdaTestCloud) -> None:
    """R-F2's like: the queue is gone, the decision stands, the sweep finds it."""
    [wait] = cloud.start()
    lost = cloud.with_settings(WAKE=f"sqs:{cloud.url}/000000000000/no-such-queue")

    status, answer = lost.approve(wait)

    assert (200, False) == (status, answer["woken"])
    assert "was not resumed" in cloud.log()
    [told] = lost.invoke({"sweep": True})["resumed"]
    assert "finished" == told["status"]
    assert ["pay x"] == cloud.effects()


def test_unusable_messages_are_not_retried(cloud: LambdaTestCloud) -> None:
    """Only what may do better later; a message that names nothing spoils no batch."""
    event = queue_event(
        WAKE_UP, '{"resume": "no-such-run"}', '{"resume": 1}', "hunter2"
    )
    cloud.start()

    assert {"batchItemFailures": []} == cloud.invoke(event)

    assert "hunter2" not in cloud.log()


def test_agents_import_error_fails_the_invocation(cloud: LambdaTestCloud) -> None:
    """Every message of the batch comes again then, until the code is mended."""
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
    """R-F8: shortly before its time is up it suspends and wakes itself."""
    cloud = cloud.with_settings(script=LONG, MARGIN="3").with_queue()
    event: dict[str, Any] = {"start": {"input": "go", "run_id": "r-1"}}
    invoked = 0
    while event:
        answer = cloud.invoke(event, timeout=6.0)
        invoked += 1
        assert answer.get("status", "suspended") in {"suspended", "finished"}
        assert [] == answer.get("batchItemFailures", [])
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
    told = cloud.invoke({"start": {"input": "go", "run_id": "r-1"}}, timeout=6.0)
    assert (True, []) == (told["paused"], told["waits"])

    swept = cloud.invoke({"sweep": True})

    assert ["finished"] == [each["status"] for each in swept["resumed"]]
    assert [f"act {number}" for number in range(6)] == cloud.effects()


def test_margin_above_the_timeout_still_makes_progress(cloud: LambdaTestCloud) -> None:
    """Each invocation uses half of its time at least: waking itself costs money."""
    cloud = cloud.with_settings(script=LONG, MARGIN="900")

    cloud.invoke({"start": {"input": "go", "run_id": "r-1"}}, timeout=10.0)

    assert [] != cloud.effects()


# One environment, many events ---------------------------------------------------


def test_frozen_environment_continues_after_the_thaw(cloud: LambdaTestCloud) -> None:
    """Clients and loop are kept; a connection that was closed meanwhile is replaced."""
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
        [wait] = first["answer"]["waits"]
        path = f"/waits/{wait['id']}/decision"
        body = {"decision": "approve"}
        environment.send_event(url_event("POST", path, body, **{"x-who": "kim"}))
        second = environment.result()
        environment.send_event(queue_event(*cloud.receive_messages()))
        third = environment.result()

    assert first["pid"] == second["pid"] == third["pid"]
    assert 200 == second["answer"]["statusCode"]
    assert is_finished(cloud)
    proxy.close()


# Nothing but errors with a name -------------------------------------------------


def test_a_broken_request_is_answered_and_an_unknown_event_is_refused(
    cloud: LambdaTestCloud,
) -> None:
    """R-G4: 4xx and never a traceback."""
    with cloud.start_environment() as environment:
        environment.send_event({"requestContext": {}, "body": "hunter2"})
        answer = environment.result()
        assert 400 == answer["statusCode"]
        assert "malformed" in json.loads(answer["body"])["type"]
        environment.send_event({"hunter2": 1})
        with pytest.raises(FunctionError) as unknown:
            environment.result()
        assert "UnknownEvent" == unknown.value.error_type
        environment.send_event({"resume": "no-such-run"})
        with pytest.raises(FunctionError) as missing:
            environment.result()
        assert "RunNotFound" == missing.value.error_type

    assert "hunter2" not in cloud.log()
