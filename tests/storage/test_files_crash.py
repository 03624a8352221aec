"""Kill the writer at every system call: the body is whole or absent."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import continuations_storage
from continuations_storage import AlreadyExists, FileStore

BODY = b"whole" * 10_000

# The writer counts its own calls, so it is killed at an exact call.
WRITER = """
import asyncio, os, signal, sys
from continuations_storage import FileStore
root, name, number, moment = sys.argv[1:]
real, calls = getattr(os, name), 0

def dying(*args, **kwargs):
    global calls
    calls += 1
    doomed = calls == int(number)
    if doomed and moment == "half":
        real(args[0], args[1][: len(args[1]) // 2])
    if doomed and moment in ("before", "half"):
        os.kill(os.getpid(), signal.SIGKILL)
    result = real(*args, **kwargs)
    if doomed:
        os.kill(os.getpid(), signal.SIGKILL)
    return result

setattr(os, name, dying)
asyncio.run(FileStore(root).create("runs/a/1", b"whole" * 10_000))
"""

# mkdir: root, temporary folder, runs, runs/a.
# fsync: folder above the root, body, root, runs, runs/a.
CRASHES_BEFORE_LINK = [
    *[("mkdir", number, "after") for number in (1, 2, 3, 4)],
    *[("fsync", number, "before") for number in (1, 2, 3, 4)],
    ("write", 1, "before"),
    ("write", 1, "half"),
    ("write", 1, "after"),
    ("link", 1, "before"),
]
CRASHES_AFTER_LINK = [
    ("link", 1, "after"),
    ("fsync", 5, "before"),
    ("fsync", 5, "after"),
    ("unlink", 1, "before"),
    ("unlink", 1, "after"),
]


def kill_writer(root: Path, name: str, number: int, moment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITER, root, name, str(number), moment],
        env={"PYTHONPATH": str(Path(continuations_storage.__file__).parents[1])},
        timeout=30,
        check=False,
    )
    assert -signal.SIGKILL == done.returncode


@pytest.mark.parametrize(("name", "number", "moment"), CRASHES_BEFORE_LINK)
def test_crash_before_the_link_leaves_the_key_absent(
    name: str, number: int, moment: str, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    kill_writer(root, name, number, moment)
    store = FileStore(root)

    async def scenario() -> bytes:
        assert [] == await store.keys("")
        await store.create("runs/a/1", b"next")
        return await store.read("runs/a/1")

    assert b"next" == asyncio.run(scenario())


@pytest.mark.parametrize(("name", "number", "moment"), CRASHES_AFTER_LINK)
def test_crash_after_the_link_leaves_the_complete_body(
    name: str, number: int, moment: str, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    kill_writer(root, name, number, moment)
    store = FileStore(root)

    async def scenario() -> bytes:
        assert ["runs/a/1"] == await store.keys("")
        with pytest.raises(AlreadyExists):
            await store.create("runs/a/1", b"next")
        return await store.read("runs/a/1")

    assert BODY == asyncio.run(scenario())
