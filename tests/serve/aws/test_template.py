"""The rights, resources and handler of `examples/lambda_app/template.yaml`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.serve.aws import expand_sam, s3_policy
from tests.serve.aws.lambda_cloud import ROOT

TEMPLATE = expand_sam.load_template()
RESOURCES: dict[str, Any] = TEMPLATE["Resources"]
EXAMPLE_FOLDER = expand_sam.TEMPLATE.parent


def properties(name: str) -> dict[str, Any]:
    """Return the properties of a resource."""
    found: dict[str, Any] = RESOURCES[name]["Properties"]
    return found


def statements(*documents: dict[str, Any]) -> dict[str, Any]:
    """Return statements by their name, without it."""
    return {
        each["Sid"]: {key: value for key, value in each.items() if key != "Sid"}
        for document in documents
        for each in document["Statement"]
    }


def allow(action: str | list[str], resource: Any, **more: Any) -> dict[str, Any]:
    """Return a statement that allows something."""
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def arn(name: str) -> dict[str, Any]:
    """Return the ARN of a resource."""
    return {"Fn::GetAtt": [name, "Arn"]}


LOG = ["logs:CreateLogStream", "logs:PutLogEvents"]


def objects(*prefixes: str) -> list[dict[str, str]]:
    """Return the ARNs of the objects with some prefixes."""
    return [{"Fn::Sub": f"${{Bucket.Arn}}/runs/{prefix}*"} for prefix in prefixes]


[ALL_OBJECTS] = objects("")
DELETED = ("markers/", "waits/", "index/", "events/", "probe/")
RUNS_STATEMENTS = {
    "Reading": allow("s3:GetObject", ALL_OBJECTS),
    "CleaningUp": allow("s3:DeleteObject", objects(*DELETED)),
    "Listing": allow(
        "s3:ListBucket",
        arn("Bucket"),
        Condition={"StringLike": {"s3:prefix": "runs/*"}},
    ),
    "SendWakeUps": allow("sqs:SendMessage", arn("WakeQueue")),
}
ROLES = {
    "ApiRole": {
        "Deciding": allow(
            "s3:PutObject",
            objects("markers/", "waits/", "events/", "probe/", "runs/*/in/"),
        ),
        "WriteLogs": allow(LOG, arn("ApiLog")),
    },
    "WorkerRole": {
        "Writing": allow("s3:PutObject", ALL_OBJECTS),
        "ReceiveWakeUps": allow(
            ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
            arn("WakeQueue"),
        ),
        "SendDeadLetters": allow("sqs:SendMessage", arn("DeadLetterQueue")),
        "NotifyApprovers": allow("sns:Publish", {"Ref": "Approvers"}),
        "WriteLogs": allow(LOG, arn("WorkerLog")),
    },
}


def test_runs_policy_has_exactly_its_statements() -> None:
    assert RUNS_STATEMENTS == statements(properties("RunsPolicy")["PolicyDocument"])


@pytest.mark.parametrize(
    ("number", "role", "writing"),
    [(0, "WorkerRole", "Writing"), (1, "ApiRole", "Deciding")],
)
def test_rights_of_a_role_equal_the_documented_policy(
    number: int, role: str, writing: str
) -> None:
    """The template grants the rights that docs/s3.md documents for its two roles."""
    page = (ROOT / "docs" / "s3.md").read_text()
    found = re.findall(r"```json\n(\{\s*\"Version\".*?)```", page, re.DOTALL)
    text = found[number].replace("PREFIX", "runs").replace("BUCKET", "demo")
    granted = [
        RUNS_STATEMENTS["Reading"],
        ROLES[role][writing],
        RUNS_STATEMENTS["CleaningUp"],
        RUNS_STATEMENTS["Listing"],
    ]

    assert s3_policy.resolved(granted, "demo") == json.loads(text)["Statement"]


@pytest.mark.parametrize("role", ROLES)
def test_each_role_has_exactly_its_statements(role: str) -> None:
    role_properties = properties(role)
    inline = [each["PolicyDocument"] for each in role_properties["Policies"]]

    assert [{"Ref": "RunsPolicy"}] == role_properties["ManagedPolicyArns"]
    assert ROLES[role] == statements(*inline)


def test_every_function_has_an_explicit_role() -> None:
    """Without a role, SAM would add policies of its own."""
    roles = {
        name: each["Properties"]["Role"]
        for name, each in RESOURCES.items()
        if each["Type"] == "AWS::Serverless::Function"
    }

    assert roles == {"Api": arn("ApiRole"), "Worker": arn("WorkerRole")}
    stars = [each for each in json.dumps(RESOURCES).split('"') if each == "*"]
    assert ["*"] == stars, "only the bucket's Deny has a wildcard"


def test_bucket_is_private_versioned_and_retained() -> None:
    bucket = properties("Bucket")

    assert all(bucket["PublicAccessBlockConfiguration"].values())
    assert "Enabled" == bucket["VersioningConfiguration"]["Status"]
    [rule] = bucket["LifecycleConfiguration"]["Rules"]
    assert {"ExpirationInDays", "ExpirationDate", "Transitions"}.isdisjoint(rule)
    assert "Retain" == RESOURCES["Bucket"]["DeletionPolicy"]


def test_queue_and_schedule_fit_the_handler() -> None:
    worker, queue = properties("Worker"), properties("WakeQueue")
    wake, sweep = (worker["Events"][name]["Properties"] for name in ("Wake", "Sweep"))

    assert ["ReportBatchItemFailures"] == wake["FunctionResponseTypes"]
    assert queue["VisibilityTimeout"] >= 6 * worker["Timeout"]
    assert arn("DeadLetterQueue") == queue["RedrivePolicy"]["deadLetterTargetArn"]
    assert {"sweep": True} == json.loads(sweep["Input"])


def test_handler_and_agents_of_the_template_can_be_imported() -> None:
    handler = TEMPLATE["Globals"]["Function"]["Handler"]
    module, name = handler.rsplit(".", 1)
    agents = properties("Worker")["Environment"]["Variables"]["AGENTS"]
    given = {
        **TEMPLATE["Globals"]["Function"]["Environment"]["Variables"],
        **properties("Worker")["Environment"]["Variables"],
        **properties("Api")["Environment"]["Variables"],
    }
    values = dict.fromkeys(given, "https://example.com/" + "x" * 32)
    code = (
        f"import {module}, sys; assert callable({module}.{name})\n"
        "assert not {'agents', 'openai', 'boto3', 'pydantic'} & set(sys.modules)\n"
        "from continuations.engine.loading import load_or_call\n"
        f"assert load_or_call({agents!r}).name == 'hr'\n"
    )

    subprocess.run(
        [sys.executable, "-c", code],
        env={**values, "STORE": "s3://bucket/runs", "AGENTS": agents, **python_path()},
        cwd=EXAMPLE_FOLDER,
        check=True,
    )


def python_path() -> dict[str, str]:
    """Return where a process finds the SDK."""
    return {"PYTHONPATH": f"{ROOT}:{ROOT / 'storage'}"}


def test_expanded_template_is_up_to_date() -> None:
    """If not, run `expand_sam.py` (see its docstring)."""
    kept = json.loads(expand_sam.EXPANDED.read_text())

    assert expand_sam.template_digest() == kept["of"]
    kinds = {each["Type"] for each in kept["template"]["Resources"].values()}
    assert "AWS::Lambda::Url" in kinds
    assert not any(kind.startswith("AWS::Serverless") for kind in kinds)


def test_readme_names_every_parameter_and_output() -> None:
    page = (EXAMPLE_FOLDER / "README.md").read_text()

    for name in (*TEMPLATE["Parameters"], *TEMPLATE["Outputs"], "handler.handle"):
        assert name in page
    for file in re.findall(r"`([a-z_]+\.(?:py|yaml|txt))`", page):
        assert Path(EXAMPLE_FOLDER / file).exists()
