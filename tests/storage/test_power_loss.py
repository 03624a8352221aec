"""After a power cut at any moment, the file store holds all that a caller knew."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path

import pytest

from continuations_storage import AlreadyExists, FileStore, NotFound, files
from tests.storage.power_loss import (
    NotingStore,
    PowerLossDisk,
    known_bodies,
    stored_bodies,
)

SAMPLES = 3
STORES = 3


def body_of(key: str, seed: int) -> bytes:
    """Return the body that a store with this seed creates under a key."""
    return f"{key} {seed}".encode() * 9


async def use_store(store: NotingStore, seed: int) -> None:
    """Create, read and delete a few keys, as several processes do."""
    draw = random.Random(seed)  # noqa: S311 - repeatable
    for _ in range(6):
        key = f"runs/{draw.choice('ab')}/{draw.choice(['v', 'in'])}/{draw.randrange(4)}"
        try:
            match draw.randrange(4):
                case 0 | 1:
                    await store.create(key, body_of(key, seed))
                case 2:
                    await store.read(key)
                case _:
                    await store.delete(f"markers/{draw.randrange(3)}")
                    await store.create(f"markers/{draw.randrange(3)}", b"")
        except (AlreadyExists, NotFound):
            continue


async def read_all(store: NotingStore) -> None:
    """Read all bodies, as a process that acts on whatever it finds."""
    for key in await store.keys("runs/"):
        await store.read(key)


def use_from_threads(disk: PowerLossDisk, root: Path, seed: int) -> None:
    """Use the folder from three stores at the same time, and read after each link."""

    def use(number: int) -> None:
        store = NotingStore(disk, FileStore(root))
        asyncio.run(use_store(store, 10 * seed + number))

    reader = NotingStore(disk, FileStore(root))
    disk.after_link = lambda: asyncio.run(read_all(reader))
    threads = [threading.Thread(target=use, args=(n,)) for n in range(STORES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def find_losses(disk: PowerLossDisk, place: Path, seed: int) -> list[str]:
    """Cut the power at every second moment; return the lost and damaged keys."""
    draw = random.Random(seed)  # noqa: S311 - repeatable
    place.mkdir()
    losses: list[str] = []
    for moment in range(1, len(disk.events) + 1, 2):
        for sample in range(SAMPLES):
            folder = disk.disk_after(moment, draw, place / f"{moment}-{sample}")
            stored = stored_bodies(folder / "root")
            losses += [
                f"{key} at {moment}"
                for key, body in known_bodies(disk, moment).items()
                if stored.get(key) != body
            ]
            losses += [
                f"half of {key} at {moment}"
                for key, body in stored.items()
                if not is_whole(key, body, seed)
            ]
    return losses


def is_whole(key: str, body: bytes, seed: int) -> bool:
    """Return whether a create, perhaps one without a reply, sent this body."""
    if key.startswith("markers/"):
        return body == b""
    return body in [body_of(key, 10 * seed + number) for number in range(STORES)]


@pytest.mark.usefixtures("new_files")
@pytest.mark.parametrize("seed", range(3))
def test_power_cut_loses_no_body_that_a_caller_knew(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that a create or a read returned is whole after every power cut."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with monkeypatch.context() as patch:
        disk = PowerLossDisk(patch, folder)
        use_from_threads(disk, folder / "root", seed)

    assert [] == find_losses(disk, tmp_path / "after", seed)


def never(_: object) -> bool:
    return False


@pytest.mark.parametrize("missing", ["files", "folders", "by a reader"])
def test_missing_flush_is_noticed(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above fails without the flush of bodies, of names, or of a reader."""
    losses: list[str] = []
    # Whether a cut hits the moment between a read and a flush depends on the threads.
    for seed in range(10):
        folder = tmp_path / f"disk-{seed}"
        folder.mkdir()
        with monkeypatch.context() as patch:
            ignored = missing
            if missing == "by a reader":
                patch.setattr(files, "is_unflushed", never)
                ignored = ""
            disk = PowerLossDisk(patch, folder, ignored)
            use_from_threads(disk, folder / "root", seed)
        losses = find_losses(disk, tmp_path / f"after-{seed}", seed)
        if losses:
            break
    assert losses
    has_halves = any(loss.startswith("half of") for loss in losses)
    assert (missing == "files") == has_halves


def test_torn_bodies_are_not_whole() -> None:
    """The check above accepts no shorter body, and none that ends with zeros."""
    key = "runs/a/v/1"
    sent = body_of(key, 12)
    torn = [sent[:length] for length in range(len(sent))]
    zeroed = [each.ljust(len(sent), b"\0") for each in torn]

    assert is_whole(key, sent, 1)
    assert [] == [each for each in torn + zeroed if is_whole(key, each, 1)]
