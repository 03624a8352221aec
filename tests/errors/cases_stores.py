"""Stores: URLs, files, memory, S3, and stores that fail."""

from __future__ import annotations

from continuations.errors import (
    Corrupt,
    Inconclusive,
    InvalidId,
    InvalidInput,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    StoreUnsafe,
)
from continuations_storage import errors as storage
from tests.errors.case import Area, Case

_MEMORY = 'open_store("memory:")'

URLS = Area(
    "Store URLs",
    (
        Case(
            "url-type",
            InvalidInput,
            "open_store(5)",
            _MEMORY,
            names=("5",),
        ),
        Case(
            "storage-url",
            storage.Unsupported,
            'storage.open_store("runs")',
            'storage.open_store("file:runs")',
            names=("runs", "file:runs"),
        ),
        Case(
            "s3-without-bucket",
            ValueError,
            'S3Store("")',
            'S3Store("bucket")',
            names=("bucket",),
        ),
    ),
)

STORES = Area(
    "Stores by themselves",
    (
        Case(
            "s3-create-without-answer",
            storage.Inconclusive,
            's3.create("a", b"")',
            _MEMORY,
            setup="""
                def lose(**_): raise OSError("connection reset")
                s3 = scene.fake_s3(put_object=lose, head_object=lose)
            """,
            names=("a",),
        ),
        Case(
            "store-key-exists",
            storage.AlreadyExists,
            'store.create("runs/a", b"second")',
            'assert store.read("runs/a") == b"first"',
            setup="""
                store = storage.SyncStore(store)
                store.create("runs/a", b"first")
            """,
            names=("runs/a",),
        ),
        Case(
            "store-key-missing",
            storage.NotFound,
            'store.read("runs/a")',
            'store.create("runs/a", b"body"); store.read("runs/a")',
            setup="store = storage.SyncStore(store)",
            names=("runs/a",),
        ),
        Case(
            "store-invalid-prefix-end",
            storage.InvalidKey,
            'store.keys("runs/a b")',
            'store.keys("runs/a")',
            setup="store = storage.SyncStore(store)",
            names=("a b",),
        ),
        *(
            Case(
                f"file-{verb}-through-a-symbolic-link",
                storage.Denied,
                code,
                f'(folder / "runs" / "a").unlink(); {code}',
                setup="""
                    store = storage.SyncStore(storage.FileStore(folder))
                    store.create("runs/b/b", b"")
                    (folder / "runs" / "a").symlink_to(folder / "runs" / "b")
                """,
                names=("runs/a/",),
            )
            for verb, code in (
                ("keys", 'store.keys("runs/a/")'),
                ("delete", 'store.delete("runs/a/b")'),
                ("create", 'store.create("runs/a/c", b"")'),
            )
        ),
        Case(
            "file-that-is-no-regular-file",
            storage.Denied,
            'store.read("runs/a")',
            """
                (folder / "runs" / "a").unlink()
                store.create("runs/a", b"")
            """,
            setup="""
                import os
                store = storage.SyncStore(storage.FileStore(folder))
                store.create("runs/b", b"")
                os.mkfifo(folder / "runs" / "a")
            """,
            names=("runs/a",),
        ),
        Case(
            "sync-store-closed",
            RuntimeError,
            'store.read("a")',
            'storage.SyncStore(store.store).create("a", b"")',
            setup="store = storage.SyncStore(store); store.close()",
            names=("SyncStore",),
        ),
        Case(
            "s3-empty-page",
            storage.Unavailable,
            's3.keys("runs/")',
            _MEMORY,
            setup="s3 = scene.fake_s3(list_objects_v2=lambda **_: {'IsTruncated': True})",
        ),
        Case(
            "s3-asked-to-slow-down",
            storage.Throttled,
            's3.read("a")',
            "well = True; s3.read('a')",
            setup="""
                from io import BytesIO
                from botocore.exceptions import ClientError
                well = False
                def answer(**_):
                    if well: return {"Body": BytesIO(b""), "ETag": "x", "ContentLength": 0}
                    raise ClientError({"Error": {"Code": "SlowDown"}}, "GetObject")
                s3 = scene.fake_s3(get_object=answer)
            """,
        ),
        Case(
            "s3-damaged-object",
            storage.Damaged,
            's3.read("a")',
            "well = True; s3.read('a')",
            setup="""
                from io import BytesIO
                from botocore.exceptions import FlexibleChecksumError
                well = False
                def answer(**_):
                    if well: return {"Body": BytesIO(b""), "ETag": "x", "ContentLength": 0}
                    raise FlexibleChecksumError(error_msg="checksums differ")
                s3 = scene.fake_s3(get_object=answer)
            """,
        ),
        Case(
            "obstore-listing-out-of-order",
            storage.Unsafe,
            'store.keys("runs/")',
            _MEMORY,
            setup="""
                store = scene.fake_obstore(b"", names=["runs/b", "runs/a"])
            """,
        ),
    ),
)


def _failing(error: str, verb: str = "create") -> str:
    return f"""
        plan = faults.on("{verb}", faults.refused(storage.{error}), prefix="runs/", times=9)
        good = store
        runner = Runner(clerk(), store=faults.FaultyStore(good, plan), clock=clock)
    """


_START_AGAIN = 'Runner(clerk(), store=good, clock=clock).start(TASK, run_id="jane-1")'

FAILING = Area(
    "Runs on a failing store",
    (
        Case(
            "run-store-denied",
            StoreDenied,
            'runner.start(TASK, run_id="jane-1")',
            _START_AGAIN,
            setup=_failing("Denied"),
        ),
        Case(
            "run-store-throttled",
            StoreUnavailable,
            'runner.start(TASK, run_id="jane-1")',
            _START_AGAIN,
            setup=_failing("Throttled"),
        ),
        Case(
            "run-store-unavailable",
            StoreUnavailable,
            'runner.start(TASK, run_id="jane-1")',
            _START_AGAIN,
            setup=_failing("Unavailable"),
        ),
        Case(
            "run-store-inconclusive",
            Inconclusive,
            'runner.start(TASK, run_id="jane-1")',
            _START_AGAIN,
            setup=_failing("Inconclusive"),
        ),
        Case(
            "run-store-damaged",
            Corrupt,
            'runner.look("jane-1")',
            'Runner([], store=good).look("jane-1")',
            setup=f"""{_failing("Damaged", "read")}
        Runner(clerk(), store=good, clock=clock).start(TASK, run_id="jane-1")""",
        ),
        Case(
            "run-store-failed",
            StoreError,
            'runner.start(TASK, run_id="jane-1")',
            _START_AGAIN,
            setup=_failing("StorageError"),
        ),
        Case(
            "run-store-invalid-key",
            InvalidId,
            'runner.start(TASK, run_id="jane-1")',
            _START_AGAIN,
            setup=_failing("InvalidKey"),
        ),
        Case(
            "run-store-unsafe",
            StoreUnsafe,
            'Runner(clerk(), store=Overwriting()).start(TASK, run_id="jane-1")',
            'Runner(clerk(), store="memory:").start(TASK, run_id="jane-1")',
            setup="""
                class Overwriting(storage.MemoryStore):
                    async def create(self, key, body):
                        await self.delete(key)
                        return await super().create(key, body)
            """,
        ),
    ),
)
