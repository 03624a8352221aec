"""Kill the writer of an SQLite store at every step: each body is whole or absent.

A power cut is simulated on copies of the file and its log. The bytes of the log after
the last reply are there, in part, as zeros, or missing.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import continuations_storage
from continuations_storage import SQLiteStore
from tests.sampling import RUNS_ALL_CASES, sample

BODY = b"whole" * 10_000
STRACE = shutil.which("strace") or ""
PYTHON_PATH = {"PYTHONPATH": str(Path(continuations_storage.__file__).parents[1])}

# The writer counts its own calls, so it is killed at an exact call.
WRITER = """
import asyncio, os, signal, sqlite3, sys
from continuations_storage import SQLiteStore, sqlite_file
path, name, number, moment = sys.argv[1:]
calls = 0

def step(called, call, *args, **kwargs):
    global calls
    calls += called == name
    doomed = called == name and calls == int(number)
    if doomed and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = call(*args, **kwargs)
    if doomed:
        os.kill(os.getpid(), signal.SIGKILL)
    return result

class Dying(sqlite3.Connection):
    def execute(self, sql, *args):
        return step(sql.split()[0], super().execute, sql, *args)

for each in ("link", "fsync", "fchmod", "open", "mkdir"):
    real = getattr(os, each)
    setattr(os, each, lambda *a, each=each, real=real, **o: step(each, real, *a, **o))
sqlite_file._Connection = Dying
async def main():
    store = SQLiteStore(path)
    await asyncio.gather(
        store.create("runs/a/1", b"whole" * 10_000), store.create("runs/a/2", b"two")
    )
    print("stored", flush=True)
    await store.delete("runs/a/1")
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""

# SELECT: the table at the connection, then two for each create.
STEPS = [
    *[("mkdir", number) for number in (1, 2)],
    *[("fsync", number) for number in (1, 2, 3, 4, 5, 6)],
    ("fchmod", 1),
    ("link", 1),
    *[("PRAGMA", number) for number in (1, 2, 3, 4, 5, 6)],
    *[("BEGIN", number) for number in (1, 2)],
    *[("SELECT", number) for number in (1, 2, 5)],
    *[("INSERT", number) for number in (1, 2)],
    *[("COMMIT", number) for number in (1, 2)],
    ("DELETE", 1),
]
CASES = [(name, n, moment) for name, n in STEPS for moment in ("before", "after")]


@pytest.mark.parametrize(("name", "number", "moment"), sample(CASES, 3))
async def test_crash_leaves_the_transaction_or_nothing(
    name: str, number: int, moment: str, tmp_path: Path
) -> None:
    path = tmp_path / "new" / "runs.db"
    done = subprocess.run(  # noqa: ASYNC221 -- nothing else runs
        [sys.executable, "-c", WRITER, path, name, str(number), moment],
        env=PYTHON_PATH,
        stdout=subprocess.PIPE,
        timeout=120,
        check=False,
    )
    assert -signal.SIGKILL == done.returncode

    store = SQLiteStore(path)
    keys = await store.keys("")
    both = ["runs/a/1", "runs/a/2"]
    assert keys in (both, both[1:]) if done.stdout else keys in (both, [])
    if keys == both:
        assert [BODY, b"two"] == await store.read_many(both)
    await store.create("runs/a/3", b"next")
    assert [*keys, "runs/a/3"] == await store.keys("")
    assert_sound(path)


# It writes "key\n" after each reply, until it is killed or has made so many creates.
STEADY = """
import asyncio, os, sys
from continuations_storage import SQLiteStore
async def write(store, name):
    for number in range(int(sys.argv[3])):
        key = f"{name}/{number}"
        await store.create(key, key.encode() * 300)
        os.write(1, f"{key}\\n".encode())
async def main():
    store = SQLiteStore(sys.argv[1])
    await asyncio.gather(*(write(store, f"{sys.argv[2]}{n}") for n in range(3)))
asyncio.run(main())
"""


def test_killed_writers_lose_nothing_that_was_stored(tmp_path: Path) -> None:
    """Two writers at a time; the log grows past several checkpoints."""
    path = tmp_path / "runs.db"
    stored: list[str] = []
    for seed in range(60 if RUNS_ALL_CASES else 3):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", STEADY, path, f"{seed}-{name}", "1000000"],
                env=PYTHON_PATH,
                stdout=subprocess.PIPE,
            )
            for name in "xy"
        ]
        time.sleep(0.3 + random.Random(seed).random() * 0.5)  # noqa: S311 -- repeatable
        for writer in writers:
            writer.kill()
        for writer in writers:
            out, _ = writer.communicate()
            stored += [line for line in out.decode().split("\n")[:-1] if line]
        found = asyncio.run(bodies_of(path))
        assert [] == [key for key in stored if key not in found]
        assert [] == [k for k, body in found.items() if body != k.encode() * 300]
    assert len(stored) > 20
    assert_sound(path)


@pytest.mark.parametrize("call", ["pwrite64", "fdatasync"])
@pytest.mark.parametrize("number", sample([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 10, 4))
def test_process_killed_inside_a_commit_leaves_whole_bodies(
    call: str, number: int, tmp_path: Path
) -> None:
    """The system kills the process at a system call of SQLite, if strace is there."""
    path = tmp_path / "runs.db"
    asyncio.run(SQLiteStore(path).create("first", b"first" * 300))
    command = [sys.executable, "-c", STEADY, str(path), "w", "15"]
    inject = f"inject={call}:signal=SIGKILL:when={number}"
    traced = [STRACE, "-f", "-o", "/dev/null", "-e", inject] if STRACE else []
    writer = subprocess.run(
        [*traced, *command],
        env=PYTHON_PATH,
        stdout=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    killed = (-signal.SIGKILL, 128 + signal.SIGKILL)
    assert writer.returncode in (killed if STRACE else (0,))
    out = writer.stdout

    found = asyncio.run(bodies_of(path))
    assert [] == [key for key in out.decode().split() if key not in found]
    assert [] == [key for key, body in found.items() if body != key.encode() * 300]
    assert_sound(path)


@pytest.mark.parametrize("seed", range(4))
def test_power_cut_loses_no_body_that_was_stored(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)  # noqa: S311 -- repeatable
    path = tmp_path / "disk" / "runs.db"
    moments: list[tuple[bytes, bytes]] = []

    async def write() -> None:
        store = SQLiteStore(path)
        for number in range(12):
            body = draw.randbytes(draw.choice([0, 100, 3000, 20_000]))
            await store.create(f"k/{number:02}", body)
            await store.delete(f"k/{number - 5:02}")
            await store.create(f"k/{number:02}-end", body)
            log = path.with_name("runs.db-wal")
            moments.append((path.read_bytes(), log.read_bytes()))

    asyncio.run(write())
    bodies = asyncio.run(bodies_of(path))
    for number, (file, log) in enumerate(moments[:-1]):
        after = tmp_path / f"after-{number}" / "runs.db"
        after.parent.mkdir()
        after.write_bytes(file)
        after.with_name("runs.db-wal").write_bytes(
            log + torn(moments[number + 1][1][len(log) :], draw)
        )
        found = asyncio.run(bodies_of(after))
        known = [f"k/{n:02}{end}" for n in range(number + 1) for end in ("", "-end")]
        deleted = [f"k/{n:02}" for n in range(number - 3)]
        assert set(known) - set(deleted) <= found.keys()
        assert [] == [k for k in found if k in bodies and found[k] != bodies[k]]
        assert_sound(after)


def torn(tail: bytes, draw: random.Random) -> bytes:
    """Return the end of a log as a disk may hold it without a flush."""
    cut = draw.randint(0, len(tail))
    return draw.choice([tail[:cut], tail[:cut] + bytes(len(tail) - cut), b"", tail])


async def bodies_of(path: Path) -> dict[str, bytes]:
    """Return all bodies of a store, opened anew."""
    store = SQLiteStore(path)
    keys = await store.keys("", limit=1_000_000)
    bodies = await store.read_many(keys)
    return {
        key: body for key, body in zip(keys, bodies, strict=True) if body is not None
    }


def assert_sound(path: Path) -> None:
    """Assert that SQLite finds no damage, and that nothing is left beside the file."""
    with closing(sqlite3.connect(path)) as reader:
        assert [("ok",)] == reader.execute("PRAGMA integrity_check").fetchall()
    names = {file.name for file in path.parent.iterdir()}
    assert names <= {"runs.db", "runs.db-wal", "runs.db-shm"}
