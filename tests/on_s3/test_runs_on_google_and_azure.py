"""Runs in Google Cloud Storage (a fake) and Azure Blob Storage (Azurite), by URL."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from continuations import Approve, Deny, Finished, Runner, Suspended
from continuations.cli import main
from continuations.errors import AlreadyDecided
from tests import effect_log, sample_app
from tests.effect_log import Effect
from tests.engine import agent_builders
from tests.scripts import Script
from tests.storage import azurite
from tests.storage.fake_gcs import FakeGcs
from tests.storage.s3_proxy import S3Proxy

SCRIPT: Script = {"go": [[["pay", {"what": "x"}]], "end"]}
BUCKETS = ["google", "azure"] if azurite.is_installed() else ["google"]


@pytest.fixture(params=BUCKETS)
def store_url(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """The URL of an empty store; the environment has the endpoint and credentials."""
    turns = tmp_path_factory.mktemp("turns") / "turns"
    monkeypatch.setenv(effect_log.TURNS_VARIABLE, str(turns))
    prefix = os.urandom(8).hex()
    if request.param == "google":
        with S3Proxy(FakeGcs(has_clock=True)) as proxy:
            monkeypatch.setenv("GOOGLE_BASE_URL", proxy.url)
            monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "token")
            yield f"gs://bucket/{prefix}"
        return
    with azurite.run_server(tmp_path_factory.mktemp("azurite")) as endpoint:
        azurite.make_container(endpoint, "box")
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", endpoint)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", azurite.ACCOUNT)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", azurite.KEY)
        yield f"az://box/{prefix}"


def test_run_with_an_approval_ends_in_the_store(
    store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A URL is enough for `Runner` and for the command line."""
    paid: list[Effect] = []
    pay = sample_app.make_pay(paid.append)
    outcome = agent_builders.make_runner(SCRIPT, pay, store=store_url).start("go")
    assert isinstance(outcome, Suspended)
    wait_id = outcome.waits[0].id

    assert 0 == main(["waiting", "--store", store_url])
    assert wait_id in capsys.readouterr().out

    decider = Runner([], store=store_url)
    decider.decide(wait_id, Approve(by="kim"))
    with pytest.raises(AlreadyDecided):
        decider.decide(wait_id, Deny(by="lee"))
    assert [] == paid

    runner = agent_builders.make_runner(SCRIPT, pay, store=store_url)
    assert isinstance(runner.resume(outcome.run_id), Finished)
    assert 1 == len(paid)
    assert [] == list(decider.waiting())
