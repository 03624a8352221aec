"""Kill the writer at every system call: the body is whole or absent."""

from __future__ import annotations

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
root, name, number, moment, kind = sys.argv[1:]
if kind == "named files":
    del os.O_TMPFILE
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

# mkdir: root, runs, runs/a, the temporary folder of named files.
# fsync: two folders above the root (1, 3), body (2), root, runs, runs/a.
CRASHES_BEFORE_LINK = [
    *[("mkdir", number, "after") for number in (1, 2, 3)],
    *[("fsync", number, "before") for number in (1, 2, 3, 4, 5)],
    ("write", 1, "before"),
    ("write", 1, "half"),
    ("write", 1, "after"),
    ("link", 1, "before"),
]
CRASHES_AFTER_LINK = [
    ("link", 1, "after"),
    ("fsync", 6, "before"),
    ("fsync", 6, "after"),
    ("fchmod", 1, "before"),
    ("fchmod", 1, "after"),
]
NAMED_CRASHES_BEFORE_LINK = [*CRASHES_BEFORE_LINK, ("mkdir", 4, "after")]
NAMED_CRASHES_AFTER_LINK = [
    *CRASHES_AFTER_LINK,
    ("unlink", 1, "before"),
    ("unlink", 1, "after"),
]


def with_kind(
    unnamed: list[tuple[str, int, str]], named: list[tuple[str, int, str]]
) -> list[tuple[str, int, str, str]]:
    return [
        *((*crash, "unnamed files") for crash in unnamed),
        *((*crash, "named files") for crash in named),
    ]


def kill_writer(root: Path, name: str, number: int, moment: str, kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITER, root, name, str(number), moment, kind],
        env={"PYTHONPATH": str(Path(continuations_storage.__file__).parents[1])},
        timeout=120,
        check=False,
    )
    assert -signal.SIGKILL == done.returncode


@pytest.mark.parametrize(
    ("name", "number", "moment", "kind"),
    with_kind(CRASHES_BEFORE_LINK, NAMED_CRASHES_BEFORE_LINK),
)
async def test_crash_before_the_link_leaves_the_key_absent(
    name: str, number: int, moment: str, kind: str, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    kill_writer(root, name, number, moment, kind)
    store = FileStore(root)

    assert [] == await store.keys("")
    await store.create("runs/a/1", b"next")
    assert b"next" == (await store.read("runs/a/1"))


@pytest.mark.parametrize(
    ("name", "number", "moment", "kind"),
    with_kind(CRASHES_AFTER_LINK, NAMED_CRASHES_AFTER_LINK),
)
async def test_crash_after_the_link_leaves_the_complete_body(
    name: str, number: int, moment: str, kind: str, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    kill_writer(root, name, number, moment, kind)
    store = FileStore(root)

    assert ["runs/a/1"] == await store.keys("")
    with pytest.raises(AlreadyExists):
        await store.create("runs/a/1", b"next")
    assert BODY == (await store.read("runs/a/1"))
