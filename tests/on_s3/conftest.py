"""A local S3 server, an empty bucket for each test, and processes that share it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import effect_log
from tests.run_environment import RunEnvironment
from tests.storage import ministack


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a local server."""
    pytest.importorskip("ministack")
    with ministack.run_server(tmp_path_factory.mktemp("ministack")) as url:
        yield url


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an empty bucket; test credentials only."""
    for name, value in ministack.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_server)
    name = f"b-{os.urandom(8).hex()}"
    ministack.make_bucket(s3_server, name)
    return name


@pytest.fixture
def environment(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> RunEnvironment:
    """Processes that share the bucket."""
    monkeypatch.setenv(effect_log.EFFECTS_VARIABLE, str(tmp_path / "effects"))
    monkeypatch.setenv(effect_log.TURNS_VARIABLE, str(tmp_path / "turns"))
    monkeypatch.setenv("TEST_FOLDER", str(tmp_path))
    return RunEnvironment(tmp_path, {"TEST_STORE": f"s3://{bucket}/runs"})
