"""A local S3 server for the tests that need one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.storage import ministack
from tests.storage.s3_proxy import FakeS3, S3Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

BUCKET = "continuations"


def random_prefix() -> str:
    return os.urandom(8).hex()


@pytest.fixture
def proxy() -> Iterator[S3Proxy]:
    """A proxy before a fake S3."""
    with S3Proxy(FakeS3()) as server:
        yield server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a local server with one empty bucket."""
    pytest.importorskip("ministack")
    with ministack.run_server(tmp_path_factory.mktemp("ministack")) as url:
        ministack.make_bucket(url, BUCKET)
        yield url


@pytest.fixture
def s3_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test credentials, and no settings of this machine."""
    for name, value in ministack.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)


@pytest.fixture(params=["unnamed files", "named files"])
def new_files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of the file store to make a file that has no key yet.

    NFS, FUSE and macOS have no files without a name.
    """
    if request.param == "named files":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    return str(request.param)
