"""`examples/lambda_app/`, deployed to an emulator that enforces IAM.

CloudFormation creates the roles, queues, secrets, Function URL and event source mapping
of the template, and the handler is that of the example. Only the agents are those of
the sample application, with scripted models and recorded effects.
"""

from __future__ import annotations

import io
import json
import re
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import pytest

from continuations import Approve, Runner
from continuations_storage.s3 import S3Store
from examples import local_cloud
from tests import effect_log
from tests.python_path import python_path
from tests.scripts import Script
from tests.serve.aws import expand_sam
from tests.serve.aws.lambda_cloud import ROOT

SCRIPT: Script = {
    "go": [[["left", {"input": "A"}]], "all done"],
    "A": [[["pay", {"what": "x"}]], "A done"],
}
AGENTS_SOURCE = "from tests.sample_app import agents as hr\n"
HANDLER_SOURCE = "from tests.serve.aws.deployed_handler import handle\n"
TIMEOUT_SECONDS = 60
T = TypeVar("T")


@dataclass(frozen=True)
class DeployedStack:
    """The deployed stack of the example."""

    url: str
    folder: Path
    outputs: dict[str, str]
    token: str
    bucket: str
    mails: str

    def client(self, service: str) -> Any:
        """Return a boto3 client of the account's owner."""
        return client(self.url, service)

    def http_request(
        self,
        method: str,
        path: str,
        body: object = None,
        host: str | None = None,
        **headers: str,
    ) -> tuple[int, str]:
        """Send a request to a Function URL, by default that of the API function."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 -- our own loopback
            self.url + path,
            data=None if body is None else data,
            method=method,
            headers={
                "host": host or urlsplit(self.outputs["ApiUrl"]).netloc,
                "content-type": "application/json",
                **headers,
            },
        )
        try:
            with urllib.request.urlopen(request) as response:  # noqa: S310
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def api_request(
        self, method: str, path: str, body: object = None
    ) -> tuple[int, Any]:
        """Send a request to the API function with the token."""
        bearer = {"authorization": f"Bearer {self.token}"}
        status, text = self.http_request(method, path, body, **bearer)
        return status, json.loads(text)

    def start(self, run_id: str) -> None:
        """Start a run with an asynchronous invocation."""
        event = {"start": {"input": "go", "run_id": run_id}}
        self.client("lambda").invoke(
            FunctionName=self.outputs["WorkerName"],
            InvocationType="Event",
            Payload=json.dumps(event).encode(),
        )

    def wait_for_open_wait(self, run_id: str) -> dict[str, Any]:
        def find_wait() -> dict[str, Any] | None:
            _, listed = self.api_request("GET", "/waits")
            waits: list[dict[str, Any]] = listed["waits"]
            return next((each for each in waits if each["run_id"] == run_id), None)

        return wait_for_value(find_wait)

    def wait_until_finished(self, run_id: str) -> bool:
        path = f"/runs/{run_id}"
        return wait_for_value(
            lambda: bool(self.api_request("GET", path)[1].get("output") == "all done")
        )

    def effects(self) -> list[tuple[str, str]]:
        """Return the effects of the tools, with their runs."""
        lines = effect_log.read_lines(self.folder / "effects")
        return [(line["run"], f"{line['tool']} {line['what']}") for line in lines]


def wait_for_value(read_value: Callable[[], T | None]) -> T:
    """Return the first true value."""
    until = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < until:
        if value := read_value():
            return value
        time.sleep(0.1)
    raise AssertionError(f"no value within {TIMEOUT_SECONDS} s")


def client(url: str, service: str) -> Any:
    """Return a boto3 client."""
    boto3: Any = import_module("boto3")  # the stub has only the names of the SDK
    session = boto3.Session(
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - for the emulator
        region_name="us-east-1",
    )
    return session.client(service, endpoint_url=url)


def zip_source(files: dict[str, str]) -> bytes:
    """Return the zip file of a function."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def deploy(url: str) -> dict[str, str]:
    """Create the stack; return its outputs."""
    handler = (expand_sam.TEMPLATE.parent / "handler.py").read_text()
    code = zip_source({"handler.py": handler, "agents.py": AGENTS_SOURCE})
    s3 = client(url, "s3")
    s3.create_bucket(Bucket="code")
    s3.put_object(Bucket="code", Key="lambda_app.zip", Body=code)
    secrets = client(url, "secretsmanager")
    secrets.create_secret(Name="model-key", SecretString="sk-test")
    template = json.loads(expand_sam.EXPANDED.read_text())["template"]
    # It requires TLS, which the emulator does not offer.
    del template["Resources"]["BucketPolicy"]
    text = json.dumps(template)
    # The emulator passes a parameter of type Number as a string.
    text = text.replace('{"Ref": "MaxConcurrentRuns"}', "10")
    parameters = {"ApproverEmail": "kim@example.com", "ModelKeySecret": "model-key"}
    cloudformation = client(url, "cloudformation")
    cloudformation.create_stack(
        StackName="demo",
        TemplateBody=text,
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[
            {"ParameterKey": key, "ParameterValue": value}
            for key, value in parameters.items()
        ],
    )

    def find_stack() -> dict[str, Any] | None:
        [stack] = cloudformation.describe_stacks(StackName="demo")["Stacks"]
        return None if stack["StackStatus"].endswith("IN_PROGRESS") else stack

    stack = wait_for_value(find_stack)
    assert "CREATE_COMPLETE" == stack["StackStatus"], stack
    return {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}


def subscribe_mail_queue(url: str) -> str:
    """Subscribe a queue to the mails of the approver; return its URL."""
    sqs, sns = client(url, "sqs"), client(url, "sns")
    queue: str = sqs.create_queue(QueueName="mails")["QueueUrl"]
    [topic] = sns.list_topics()["Topics"]
    name = {"QueueUrl": queue, "AttributeNames": ["QueueArn"]}
    arn = sqs.get_queue_attributes(**name)["Attributes"]["QueueArn"]
    policy = {
        "Version": "2012-10-17",
        "Statement": {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": arn,
        },
    }
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(policy)})
    sns.subscribe(TopicArn=topic["TopicArn"], Protocol="sqs", Endpoint=arn)
    return queue


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedStack]:
    """Deploy the example to an emulator of its own."""
    pytest.importorskip("ministack")
    folder = tmp_path_factory.mktemp("deployed")
    settings = {
        "PYTHONPATH": python_path(ROOT, ROOT / "storage"),
        "AUTH": "true",  # IAM is enforced
        "TEST_SCRIPT": json.dumps(SCRIPT),
        "TEST_FOLDER": str(folder),
        effect_log.EFFECTS_VARIABLE: str(folder / "effects"),
        effect_log.TURNS_VARIABLE: str(folder / "turns"),
        **local_cloud.CREDENTIALS,
    }
    services = (
        "s3,sqs,sns,lambda,iam,sts,secretsmanager,cloudformation,events,scheduler,logs"
    )
    with local_cloud.serving(folder, services, **settings) as url:
        outputs = deploy(url)
        secrets = client(url, "secretsmanager")
        secret = {"SecretId": outputs["ApiTokenSecret"]}
        token = secrets.get_secret_value(**secret)["SecretString"]
        buckets = client(url, "s3").list_buckets()["Buckets"]
        [bucket] = [each["Name"] for each in buckets if each["Name"] != "code"]
        yield DeployedStack(
            url, folder, outputs, token, bucket, subscribe_mail_queue(url)
        )


def test_run_is_started_decided_and_resumed_through_the_queue(
    deployed: DeployedStack,
) -> None:
    """Every step works with the rights of the template."""
    deployed.start("r-1")
    wait = deployed.wait_for_open_wait("r-1")
    assert ("r-1", "pay x") not in deployed.effects()

    path = f"/waits/{wait['id']}/decision"
    status, recorded = deployed.api_request("POST", path, {"decision": "approve"})

    assert (200, True, "api") == (
        status,
        recorded["woken"],
        recorded["decision"]["by"],
    )
    assert deployed.wait_until_finished("r-1")
    assert ("r-1", "pay x") in deployed.effects()


def test_request_without_the_token_is_rejected(deployed: DeployedStack) -> None:
    for path in ("/waits", "/runs/r-1", "/openapi.json"):
        status, _ = deployed.http_request("GET", path)
        assert 401 == status
    assert 200 == deployed.http_request("GET", "/healthz")[0]


def test_link_in_the_mail_decides_once(deployed: DeployedStack) -> None:
    """Opening the link decides nothing; only the first decision is recorded."""
    deployed.start("r-2")
    sqs = deployed.client("sqs")

    def link() -> str | None:
        received = sqs.receive_message(QueueUrl=deployed.mails, WaitTimeSeconds=1)
        for message in received.get("Messages", []):
            path = re.search(r"/d/[A-Za-z0-9_-]+", message["Body"])
            sqs.delete_message(
                QueueUrl=deployed.mails, ReceiptHandle=message["ReceiptHandle"]
            )
            if path is not None and "r-2" in deployed.http_request("GET", path[0])[1]:
                return path[0]
        return None

    path = wait_for_value(link)
    for _ in range(2):
        assert 200 == deployed.http_request("GET", path)[0]
    assert ("r-2", "pay x") not in deployed.effects()

    page = deployed.http_request("GET", path)[1]
    shown = page.partition('name="shown" value="')[2].partition('"')[0]
    form = urlencode({"decision": "approve", "shown": shown}).encode()
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert 200 == deployed.http_request("POST", path, form, **kind)[0]
    assert deployed.wait_until_finished("r-2")
    # The same form again, and then another decision
    assert 200 == deployed.http_request("POST", path, form, **kind)[0]
    other = urlencode({"decision": "deny", "shown": shown}).encode()
    assert 409 == deployed.http_request("POST", path, other, **kind)[0]
    assert 1 == deployed.effects().count(("r-2", "pay x"))


def test_scheduled_sweep_resumes_a_decided_run(deployed: DeployedStack) -> None:
    """Another program decided the wait in the store."""
    deployed.start("r-3")
    wait = deployed.wait_for_open_wait("r-3")
    store = S3Store(deployed.bucket, "runs", client=deployed.client("s3"))
    Runner([], store=store).decide(wait["id"], Approve(by="kim"))

    target = deployed.client("lambda").get_function(
        FunctionName=deployed.outputs["WorkerName"]
    )["Configuration"]["FunctionArn"]
    deployed.client("scheduler").create_schedule(
        Name="now",
        ScheduleExpression=f"at({datetime.now(UTC):%Y-%m-%dT%H:%M:%S})",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={
            "Arn": target,
            "RoleArn": "arn:aws:iam::000000000000:role/owner",
            "Input": '{"sweep": true}',
        },
    )

    assert deployed.wait_until_finished("r-3")
    assert ("r-3", "pay x") in deployed.effects()


# A function that wakes itself ---------------------------------------------------

LONG: Script = {
    "go": [
        *([["act", {"what": str(number), "then": "sleep:0.8"}]] for number in range(6)),
        "all done",
    ]
}
TRUST = {
    "Version": "2012-10-17",
    "Statement": {
        "Effect": "Allow",
        "Principal": {"Service": "lambda.amazonaws.com"},
        "Action": "sts:AssumeRole",
    },
}


def create_self_invoking_function(
    deployed: DeployedStack, name: str, script: Script
) -> str:
    """Create a function that may invoke only itself; return its ARN."""
    arn = f"arn:aws:lambda:us-east-1:000000000000:function:{name}"
    bucket = f"arn:aws:s3:::{deployed.bucket}"
    actions_by_resource = {
        f"{bucket}/{name}/*": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
        bucket: ["s3:ListBucket"],
        arn: ["lambda:InvokeFunction"],
    }
    statements = [
        {"Effect": "Allow", "Action": actions, "Resource": resource}
        for resource, actions in actions_by_resource.items()
    ]
    policy = {"Version": "2012-10-17", "Statement": statements}
    iam = deployed.client("iam")
    trust = json.dumps(TRUST)
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)
    document = json.dumps(policy)
    iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=document)
    environment = {
        "STORE": f"s3://{deployed.bucket}/{name}",
        "WAKE": "invoke",
        "MARGIN": "4",
        "TEST_SCRIPT": json.dumps(script),
    }
    deployed.client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.13",
        Role=role["Role"]["Arn"],
        Handler="index.handle",
        Timeout=8,
        Environment={"Variables": environment},
        Code={"ZipFile": zip_source({"index.py": HANDLER_SOURCE})},
    )
    return arn


def test_function_invokes_itself_until_a_long_run_has_ended(
    deployed: DeployedStack,
) -> None:
    """Each invocation has eight seconds; the run needs several of them."""
    event = {"start": {"input": "go", "run_id": "r-4"}}
    response = deployed.client("lambda").invoke(
        FunctionName=create_self_invoking_function(deployed, "self-invoking", LONG),
        Payload=json.dumps(event).encode(),
    )
    outcome = json.loads(response["Payload"].read())
    assert ("suspended", True) == (outcome["status"], outcome["paused"])

    store = S3Store(deployed.bucket, "self-invoking", client=deployed.client("s3"))
    reader = Runner([], store=store)
    wait_for_value(lambda: reader.look("r-4").status == "finished")

    effects = [effect for run, effect in deployed.effects() if run == "r-4"]
    assert [f"act {number}" for number in range(6)] == effects


def test_start_and_decision_delivered_twice_run_once(deployed: DeployedStack) -> None:
    """One function starts, decides and resumes by invoking itself."""
    script: Script = {"go": [[["pay", {"what": "x"}]], "all done"]}
    name = create_self_invoking_function(deployed, "all-in-one", script)
    config = deployed.client("lambda").create_function_url_config(
        FunctionName=name, AuthType="NONE"
    )
    host: str = urlsplit(str(config["FunctionUrl"])).netloc

    def request(method: str, path: str, body: object = None) -> tuple[int, Any]:
        identity = {"x-who": "kim"}
        status, text = deployed.http_request(method, path, body, host, **identity)
        return status, json.loads(text)

    # Given a run that was started by a repeated request
    start = {"input": "go", "run_id": "r-5"}
    started = [request("POST", "/runs", start) for _ in range(2)]
    assert ["suspended"] * 2 == [outcome["status"] for _, outcome in started]
    assert 401 == deployed.http_request("POST", "/runs", start, host)[0]
    [wait] = started[0][1]["waits"]

    # When its decision is repeated
    path = f"/waits/{wait['id']}/decision"
    responses = [request("POST", path, {"decision": "approve"}) for _ in range(2)]

    # Then the run ends, and the call ran once
    assert [200, 200] == [status for status, _ in responses]
    wait_for_value(lambda: request("GET", "/runs/r-5")[1].get("output") == "all done")
    assert ["pay x"] == [effect for run, effect in deployed.effects() if run == "r-5"]
