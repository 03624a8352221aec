"""`open_store` opens the store of a URL without using the disk or the network."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from continuations_storage import (
    FileStore,
    MemoryStore,
    StorageError,
    Unsupported,
    open_store,
)


@pytest.mark.parametrize("form", ["file:{}", "file://{}", "file://localhost{}"])
def test_file_url_names_a_folder(form: str, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    store = open_store(form.format(root))

    assert isinstance(store, FileStore)
    assert not root.exists()
    asyncio.run(store.create("a/1", b"body"))
    assert b"body" == (root / "a" / "1").read_bytes()


def test_relative_path_is_resolved_when_the_store_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("file:.runs")
    monkeypatch.chdir("/")

    asyncio.run(store.create("a", b"body"))

    assert b"body" == (tmp_path / ".runs" / "a").read_bytes()


def test_relative_path_in_a_deleted_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    for make in (open_store, FileStore):
        with pytest.raises(Unsupported, match=r"current folder was deleted.*absolute"):
            make("file:.runs")
    assert isinstance(open_store(f"file:{tmp_path}"), FileStore)


def test_home_folder_in_a_url_is_refused_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell expands `~` in some places only, so one URL would mean two folders."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    with pytest.raises(Unsupported) as raised:
        open_store("file:~/runs")
    assert f"Use 'file:{tmp_path}/runs', or use 'file:./~/runs'" in str(raised.value)
    with pytest.raises(Unsupported, match="Pass an absolute path"):
        open_store("file:~nobody-has-this-name/runs")
    with pytest.raises(Unsupported) as raised:
        open_store("~/runs")
    assert f"Use 'file:{tmp_path}/runs', or use 'file:./~/runs'" in str(raised.value)
    asyncio.run(open_store("file:./~/runs").create("a", b"body"))
    assert (tmp_path / "~" / "runs" / "a").exists()


def test_memory_store_is_shared_only_by_name() -> None:
    assert isinstance(open_store("memory:"), MemoryStore)
    assert open_store("memory:") is not open_store("memory:")
    assert open_store("memory:one") is open_store("memory:one")
    assert open_store("memory:one") is not open_store("memory:two")


OBSTORE = {"driver": "obstore"}


@pytest.mark.parametrize(
    ("url", "options", "reason"),
    [
        ("redis://localhost", {}, "unknown scheme 'redis'"),
        (".runs", {}, "use 'file:.runs'"),
        ("", {}, "it is empty"),
        ("file:", {}, "no path"),
        ("file://", {}, "no path"),
        ("file://server/share", {}, "another host, 'server'"),
        ("file:.runs", {"region": "x"}, "no option 'region'"),
        ("s3:bucket", {}, "no bucket"),
        ("s3://", {}, "no bucket"),
        ("s3:///prefix", {}, "no bucket"),
        ("s3://bucket/a//b", {}, "segment ''"),
        ("s3://bucket/ä", {}, "segment 'ä'"),
        ("s3://bucket/" + "x" * 124, {}, "at most 123"),
        ("s3://bucket", {"driver": "carrier-pigeon"}, "unknown driver"),
        ("s3://bucket", {"colour": "red"}, "no option 'colour'"),
        ("s3://bucket", {"endpoint": "http://me:pw@host"}, "must not contain"),
        ("s3://bucket/a//b", OBSTORE, "segment ''"),
        ("s3://bucket", {**OBSTORE, "profile": "me"}, "no option 'profile'"),
        ("s3://bucket", {**OBSTORE, "client": object()}, "no option 'client'"),
        ("gs:", {}, "no bucket"),
        ("gs://", {}, "no bucket"),
        ("az:///prefix", {}, "no bucket"),
        ("gs://bucket/a//b", {}, "segment ''"),
        ("gs://bucket", {"driver": "boto3"}, "driver='obstore'"),
        ("gs://bucket", {"account": "a"}, "no option 'account'"),
        ("az://box", {"region": "a"}, "no option 'region'"),
        ("az://box", {"endpoint": "https://kim:pw@host"}, "endpoint must not"),
        ("gcs://bucket", {}, "Use gs://"),
        ("abfs://box", {}, "Use az://"),
        ("azure://box", {}, "Use az://"),
    ],
)
def test_invalid_url_or_option_is_unsupported(
    url: str, options: dict[str, Any], reason: str
) -> None:
    """The error says what is wrong and what to write."""
    with pytest.raises(Unsupported, match=reason) as raised:
        open_store(url, **options)

    assert url == raised.value.url
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, StorageError)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3://kim:hunter2@bucket/runs", "must not contain credentials"),
        ("postgresql//kim:hunter2@h/a", "Use postgresql://USER@HOST/DATABASE"),
        ("kim:hunter2@h/a", "Use postgresql://USER@HOST/DATABASE"),
        ("host=h user=kim password=hunter2", "may contain a password"),
        ("host=h password=kim:hunter2", "may contain a password"),
    ],
)
def test_url_with_a_password_is_rejected_and_not_quoted(url: str, reason: str) -> None:
    """Error messages are logged."""
    with pytest.raises(Unsupported, match=reason) as raised:
        open_store(url)

    assert "hunter2" not in f"{raised.value} {raised.value!r}"
