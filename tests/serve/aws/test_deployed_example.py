"""`examples/lambda_app/`, deployed: its template, in an emulator that enforces IAM.

Roles, queues, secrets, the Function URL and the event source mapping are those of the
template, made by CloudFormation; the handler is the example's own. Only the agents are
the tests', because a script says what their model says and a ledger what they did.
"""

from __future__ import annotations

import io
import json
import re
import time
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode, urlsplit

import pytest

from continuations import Approve, Runner
from continuations_storage.s3 import S3Store
from examples import local_cloud
from tests import effect_log
from tests.serve.aws import expand_sam
from tests.serve.aws.lambda_cloud import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.scripts import Script

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
    """The stack of the example, in an account of its own."""

    url: str
    folder: Path
    outputs: dict[str, str]
    token: str
    bucket: str
    mails: str

    def client(self, service: str) -> Any:
        """Return a client of the account's owner."""
        return client(self.url, service)

    def http_request(
        self,
        method: str,
        path: str,
        body: object = None,
        host: str | None = None,
        **headers: str,
    ) -> tuple[int, str]:
        """Ask the desk, or the function of another host, through its Function URL."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 -- our own loopback
            self.url + path,
            data=None if body is None else data,
            method=method,
            headers={
                "host": host or urlsplit(self.outputs["DeskUrl"]).netloc,
                "content-type": "application/json",
                **headers,
            },
        )
        try:
            with urllib.request.urlopen(request) as answer:  # noqa: S310
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def api_request(
        self, method: str, path: str, body: object = None
    ) -> tuple[int, Any]:
        """Ask the desk as a program that has the token."""
        bearer = {"authorization": f"Bearer {self.token}"}
        status, text = self.http_request(method, path, body, **bearer)
        return status, json.loads(text)

    def start(self, run_id: str) -> None:
        """Start a run without waiting for it."""
        event = {"start": {"input": "go", "run_id": run_id}}
        self.client("lambda").invoke(
            FunctionName=self.outputs["WorkerName"],
            InvocationType="Event",
            Payload=json.dumps(event).encode(),
        )

    def wait_for_open_wait(self, run_id: str) -> dict[str, Any]:
        """Return what a run waits for, as soon as it does."""

        def found() -> dict[str, Any] | None:
            _, listed = self.api_request("GET", "/waits")
            waits: list[dict[str, Any]] = listed["waits"]
            return next((each for each in waits if each["run_id"] == run_id), None)

        return wait_for_value(found)

    def wait_until_finished(self, run_id: str) -> bool:
        """Wait until a run came to its end."""
        path = f"/runs/{run_id}"
        return wait_for_value(
            lambda: bool(self.api_request("GET", path)[1].get("output") == "all done")
        )

    def effects(self) -> list[tuple[str, str]]:
        """Return what the tools did, by run."""
        lines = effect_log.read_lines(self.folder / "effects")
        return [(line["run"], f"{line['tool']} {line['what']}") for line in lines]


def wait_for_value(read_value: Callable[[], T | None]) -> T:
    """Return what is true at last."""
    until = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < until:
        if value := read_value():
            return value
        time.sleep(0.1)
    raise AssertionError(f"not within {TIMEOUT_SECONDS} s")


def client(url: str, service: str) -> Any:
    """Return a client of boto3's."""
    boto3: Any = import_module("boto3")  # its stub knows only what the SDK uses
    session = boto3.Session(
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - nobody's
        region_name="us-east-1",
    )
    return session.client(service, endpoint_url=url)


def zip_source(files: dict[str, str]) -> bytes:
    """Return the code of a function."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def deploy(url: str) -> dict[str, str]:
    """Make the stack; returns its outputs."""
    handler = (expand_sam.TEMPLATE.parent / "handler.py").read_text()
    code = zip_source({"handler.py": handler, "agents.py": AGENTS_SOURCE})
    s3 = client(url, "s3")
    s3.create_bucket(Bucket="code")
    s3.put_object(Bucket="code", Key="lambda_app.zip", Body=code)
    secrets = client(url, "secretsmanager")
    secrets.create_secret(Name="model-key", SecretString="sk-test")
    template = json.loads(expand_sam.EXPANDED.read_text())["template"]
    # It lets nobody in without TLS, which loopback does not speak.
    del template["Resources"]["BucketPolicy"]
    text = json.dumps(template)
    # The emulator does not turn a parameter of type Number into one.
    text = text.replace('{"Ref": "MostRunsAtOnce"}', "10")
    given = {"ApproverEmail": "kim@example.com", "ModelKeySecret": "model-key"}
    cloudformation = client(url, "cloudformation")
    cloudformation.create_stack(
        StackName="demo",
        TemplateBody=text,
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[
            {"ParameterKey": key, "ParameterValue": value}
            for key, value in given.items()
        ],
    )

    def made() -> dict[str, Any] | None:
        [stack] = cloudformation.describe_stacks(StackName="demo")["Stacks"]
        return None if stack["StackStatus"].endswith("IN_PROGRESS") else stack

    stack = wait_for_value(made)
    assert "CREATE_COMPLETE" == stack["StackStatus"], stack
    return {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}


def subscribe_mail_queue(url: str) -> str:
    """Have the mails to the approver come to a queue as well; returns its URL."""
    sqs, sns = client(url, "sqs"), client(url, "sns")
    queue: str = sqs.create_queue(QueueName="mails")["QueueUrl"]
    [topic] = sns.list_topics()["Topics"]
    name = {"QueueUrl": queue, "AttributeNames": ["QueueArn"]}
    arn = sqs.get_queue_attributes(**name)["Attributes"]["QueueArn"]
    allowed = {
        "Version": "2012-10-17",
        "Statement": {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": arn,
        },
    }
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(allowed)})
    sns.subscribe(TopicArn=topic["TopicArn"], Protocol="sqs", Endpoint=arn)
    return queue


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedStack]:
    """The example in an emulator of its own."""
    pytest.importorskip("ministack")
    folder = tmp_path_factory.mktemp("deployed")
    ours = {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'storage'}",
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
    with local_cloud.serving(folder, services, **ours) as url:
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
    """SL-11, SL-13, R-F1: the whole way, with no right but those in the template."""
    deployed.start("r-1")
    wait = deployed.wait_for_open_wait("r-1")
    assert [] == deployed.effects()

    path = f"/waits/{wait['id']}/decision"
    status, answer = deployed.api_request("POST", path, {"decision": "approve"})

    assert (200, True, "api") == (status, answer["woken"], answer["decision"]["by"])
    assert deployed.wait_until_finished("r-1")
    assert ("r-1", "pay x") in deployed.effects()


def test_request_without_the_token_is_rejected(deployed: DeployedStack) -> None:
    for path in ("/waits", "/runs/r-1", "/openapi.json"):
        status, _ = deployed.http_request("GET", path)
        assert 401 == status
    assert 200 == deployed.http_request("GET", "/healthz")[0]


def test_link_in_the_mail_decides_once(deployed: DeployedStack) -> None:
    """R-F1, R-G1, R-G3: sent once the wait is durable; looking decides nothing."""
    deployed.start("r-2")
    sqs = deployed.client("sqs")

    def link() -> str | None:
        got = sqs.receive_message(QueueUrl=deployed.mails, WaitTimeSeconds=1)
        for message in got.get("Messages", []):
            found = re.search(r"/d/[A-Za-z0-9_-]+", message["Body"])
            sqs.delete_message(
                QueueUrl=deployed.mails, ReceiptHandle=message["ReceiptHandle"]
            )
            if found is not None and "r-2" in deployed.http_request("GET", found[0])[1]:
                return found[0]
        return None

    path = wait_for_value(link)
    for _ in range(2):
        assert 200 == deployed.http_request("GET", path)[0]
    assert ("r-2", "pay x") not in deployed.effects()

    form = urlencode({"decision": "approve"}).encode()
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert 200 == deployed.http_request("POST", path, form, **kind)[0]
    assert deployed.wait_until_finished("r-2")
    # Once more, as browsers do; and otherwise, as people do
    assert 200 == deployed.http_request("POST", path, form, **kind)[0]
    other = urlencode({"decision": "deny"}).encode()
    assert 409 == deployed.http_request("POST", path, other, **kind)[0]
    assert 1 == deployed.effects().count(("r-2", "pay x"))


def test_scheduled_sweep_resumes_a_decided_run(deployed: DeployedStack) -> None:
    """R-F3: decided by another program, beside the desk."""
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
    """Make a function that may invoke itself and nothing else; returns its ARN."""
    arn = f"arn:aws:lambda:us-east-1:000000000000:function:{name}"
    bucket = f"arn:aws:s3:::{deployed.bucket}"
    rights = {
        f"{bucket}/{name}/*": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
        bucket: ["s3:ListBucket"],
        arn: ["lambda:InvokeFunction"],
    }
    allowed = [
        {"Effect": "Allow", "Action": actions, "Resource": resource}
        for resource, actions in rights.items()
    ]
    policy = {"Version": "2012-10-17", "Statement": allowed}
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
    """R-F8: by asynchronous invocation, in some invocations of eight seconds."""
    event = {"start": {"input": "go", "run_id": "r-4"}}
    begun = deployed.client("lambda").invoke(
        FunctionName=create_self_invoking_function(deployed, "itself", LONG),
        Payload=json.dumps(event).encode(),
    )
    told = json.loads(begun["Payload"].read())
    assert ("suspended", True) == (told["status"], told["paused"])

    store = S3Store(deployed.bucket, "itself", client=deployed.client("s3"))
    desk = Runner([], store=store)
    wait_for_value(lambda: desk.look("r-4").status == "finished")

    done = [effect for run, effect in deployed.effects() if run == "r-4"]
    assert [f"act {number}" for number in range(6)] == done


def test_start_and_decision_delivered_twice_run_once(deployed: DeployedStack) -> None:
    """SL-11, R-G3: one function does it all, and wakes itself after the decision."""
    script: Script = {"go": [[["pay", {"what": "x"}]], "all done"]}
    name = create_self_invoking_function(deployed, "door", script)
    config = deployed.client("lambda").create_function_url_config(
        FunctionName=name, AuthType="NONE"
    )
    host: str = urlsplit(str(config["FunctionUrl"])).netloc

    def asked(method: str, path: str, body: object = None) -> tuple[int, Any]:
        who = {"x-who": "kim"}
        status, text = deployed.http_request(method, path, body, host, **who)
        return status, json.loads(text)

    # Given a run that was begun by a request, delivered twice
    begin = {"input": "go", "run_id": "r-5"}
    begun = [asked("POST", "/runs", begin) for _ in range(2)]
    assert ["suspended"] * 2 == [told["status"] for _, told in begun]
    assert 401 == deployed.http_request("POST", "/runs", begin, host)[0]
    [wait] = begun[0][1]["waits"]

    # When its decision is delivered twice
    path = f"/waits/{wait['id']}/decision"
    answers = [asked("POST", path, {"decision": "approve"}) for _ in range(2)]

    # Then it ends, and the call ran once
    assert [200, 200] == [status for status, _ in answers]
    wait_for_value(lambda: asked("GET", "/runs/r-5")[1].get("output") == "all done")
    assert ["pay x"] == [effect for run, effect in deployed.effects() if run == "r-5"]
