"""The roles of the template make only requests that their statements allow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from continuations import Approve, Deny, Finished, Runner
from continuations.attachments import Image
from continuations.errors import StoreDenied
from continuations_storage import Denied as StorageDenied
from continuations_storage import Store
from continuations_storage.obstore import ObjectStore
from continuations_storage.retries import RetryPolicy
from continuations_storage.s3 import S3Store
from tests import effect_log, sample_app
from tests.effect_log import Effect
from tests.engine import agent_builders
from tests.outcomes import single_wait
from tests.scripts import Script
from tests.serve.aws.s3_policy import EnforcedPolicy, resolved
from tests.serve.aws.test_template import properties
from tests.storage import ministack
from tests.storage.outages import DRIVERS, Driver
from tests.storage.s3_proxy import FakeS3, S3Proxy
from tests.storage.versioned_s3 import VersionedS3

BUCKET = "bucket"
PAYING: Script = {"go": [[["pay", {"what": "x"}]], "end"]}
ONE_ATTEMPT = RetryPolicy(max_attempts=1)


def statements_of(role: str) -> list[dict[str, Any]]:
    """Return the statements of a role about S3."""
    documents = [
        properties("RunsPolicy")["PolicyDocument"],
        *(each["PolicyDocument"] for each in properties(role)["Policies"]),
    ]
    found = [each for document in documents for each in document["Statement"]]
    return resolved((each for each in found if "s3:" in str(each["Action"])), BUCKET)


@dataclass
class TwoRoles:
    """A bucket behind two proxies, one for each role."""

    driver: Driver
    api: S3Proxy
    worker: S3Proxy
    paid: list[Effect]

    def store(self, proxy: S3Proxy) -> Store:
        """Return a new store, as the function of a role opens it."""
        if self.driver == "boto3":
            return S3Store(BUCKET, "runs", endpoint=proxy.url, retry_policy=ONE_ATTEMPT)
        url = f"s3://{BUCKET}/runs"
        return ObjectStore(url, endpoint=proxy.url, retry_policy=ONE_ATTEMPT)

    def make_worker(self, **options: Any) -> Runner:
        return agent_builders.make_runner(
            PAYING,
            sample_app.make_pay(self.paid.append),
            store=self.store(self.worker),
            **options,
        )

    def make_api(self) -> Runner:
        """Return the runner of a new API function, which has no agents."""
        return Runner([], store=self.store(self.api))

    def start(self, run_id: str) -> str:
        """Start a run that waits for an approval; return the wait's id."""
        wait = single_wait(self.make_worker().start("go", run_id=run_id))
        return wait.id

    @property
    def denied(self) -> list[str]:
        """The requests that were not allowed."""
        plans = [self.api.plan, self.worker.plan]
        return [
            f"{request.kind} {request.target}"
            for plan in plans
            if isinstance(plan, EnforcedPolicy)
            for request in plan.denied
        ]


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> Driver:
    """Both drivers of S3."""
    found: Driver = request.param
    return found


@pytest.fixture(params=[True, False])
def roles(
    request: pytest.FixtureRequest,
    driver: Driver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[TwoRoles]:
    """A bucket with versions, as in the template, or without."""
    for name, value in ministack.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(effect_log.TURNS_VARIABLE, str(tmp_path / "turns"))
    bucket: FakeS3
    if request.param:
        bucket = VersionedS3(breaks_condition=False)
        bucket.switch_versioning_on()
    else:
        bucket = FakeS3(has_clock=True)
    api, worker = (
        S3Proxy(bucket, EnforcedPolicy(statements_of(role), BUCKET))
        for role in ("ApiRole", "WorkerRole")
    )
    with api, worker:
        yield TwoRoles(driver, api, worker, [])


def test_rights_suffice_for_runs_from_start_to_end(roles: TwoRoles) -> None:
    """Starts, decisions, messages, links, sweeps, resumes and cancellations."""
    approved, denied, swept = (roles.start(f"r{number}") for number in range(3))
    api = roles.make_api()

    assert 3 == len(list(api.waiting()))
    assert approved == api.wait(approved).id
    api.decide(approved, Approve(by="kim"))
    api.decide(denied, Deny(by="kim"))
    api.send("r0", "Hurry.", by="kim")
    assert "suspended" == api.look("r0").status

    assert isinstance(roles.make_worker().resume("r0"), Finished)
    swept_runs = [each.run_id for each in roles.make_worker().sweep().resumed]
    assert "r1" in swept_runs
    roles.make_worker().cancel("r2", by="kim")
    assert swept not in [summary.id for summary in api.waiting()]

    assert ["r0"] == [effect.run for effect in roles.paid]
    assert [] == list(api.waiting())
    assert [] == roles.denied


def test_api_can_record_a_cancel_request_that_a_worker_carries_out(
    roles: TwoRoles,
) -> None:
    """The API function may not end the run itself, because that is a version."""
    roles.start("r0")

    assert "suspended" == roles.make_api().cancel("r0", by="kim").status
    roles.make_worker().sweep()

    assert "cancelled" == roles.make_api().look("r0").status
    assert ["PUT"] == [each.split(" ", 1)[0] for each in roles.denied]
    assert "/runs/runs/r0/v/" in roles.denied[0]


def test_api_can_advance_no_run(roles: TwoRoles) -> None:
    """A forged version cannot come from the API function."""
    roles.start("r0")
    store = roles.store(roles.api)

    for key in ("runs/r0/v/9999999990", "runs/r9/v/9999999998", "other", "a/b"):
        with pytest.raises(StorageDenied):
            asyncio.run(store.create(key, b"forged"))


def test_api_cannot_send_a_message_with_a_file(roles: TwoRoles) -> None:
    """A limit that docs/s3.md states; nothing is stored."""
    roles.start("r0")
    image = Image(b"\x89PNG\r\n\x1a\n", "image/png")

    with pytest.raises(StoreDenied, match="s3:PutObject"):
        roles.make_api().send("r0", ["Look.", image], by="kim")

    assert [] == asyncio.run(roles.store(roles.worker).keys("runs/r0/x/"))
    assert [] == asyncio.run(roles.store(roles.worker).keys("runs/r0/in/"))


def test_no_role_can_delete_the_history_of_a_run(roles: TwoRoles) -> None:
    wait_id = roles.start("r0")
    roles.make_api().decide(wait_id, Approve(by="kim"))
    keys = asyncio.run(roles.store(roles.worker).keys("runs/"))
    assert any("/in/d-" in key for key in keys)

    for proxy in (roles.api, roles.worker):
        for key in keys:
            with pytest.raises(StorageDenied):
                asyncio.run(roles.store(proxy).delete(key))
    assert keys == asyncio.run(roles.store(roles.worker).keys("runs/"))
