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
_S3 = 'open_store("s3://bucket/runs")'
_NO_AWS = "scene.without_aws()"

URLS = Area(
    "Store URLs",
    (
        Case(
            "url-without-scheme",
            InvalidInput,
            'open_store("runs")',
            'open_store("file:runs")',
            names=("runs", "file:runs"),
        ),
        Case(
            "url-empty",
            InvalidInput,
            'open_store("")',
            'open_store("file:runs")',
            names=("empty", "file:PATH"),
        ),
        Case(
            "url-unknown-scheme",
            InvalidInput,
            'open_store("ftp://host/runs")',
            _S3,
            names=("ftp", "s3://"),
        ),
        Case(
            "url-other-spelling",
            InvalidInput,
            'open_store("gcs://bucket/runs")',
            'open_store("gs://bucket/runs")',
            names=("gcs", "gs://"),
        ),
        Case(
            "url-without-obstore",
            InvalidInput,
            'open_store("gs://bucket/runs")',
            'scene.close(); open_store("gs://bucket/runs")',
            setup='scene.without_module("obstore")',
            names=("pip install", "obstore"),
        ),
        Case(
            "url-type",
            InvalidInput,
            "open_store(5)",
            _MEMORY,
            names=("5",),
        ),
        Case(
            "url-control-character",
            InvalidInput,
            'open_store("file:runs\\n")',
            'open_store("file:runs")',
            names=("runs",),
        ),
        Case(
            "url-without-path",
            InvalidInput,
            'open_store("file:")',
            'open_store("file:runs")',
            names=("file:",),
        ),
        Case(
            "url-with-a-home-folder",
            InvalidInput,
            'open_store("file:~/runs")',
            'open_store("file:./~/runs")',
            names=("~/runs",),
        ),
        Case(
            "url-relative-to-a-deleted-folder",
            InvalidInput,
            'open_store("file:runs")',
            'os.chdir(folder); open_store("file:runs")',
            setup="""
                import os
                here = folder / "gone"
                here.mkdir()
                os.chdir(here)
                here.rmdir()
            """,
            names=("file:runs",),
        ),
        Case(
            "url-of-another-host",
            InvalidInput,
            'open_store("file://server/runs")',
            'open_store("file:///runs")',
            names=("server",),
        ),
        Case(
            "url-option-for-files",
            InvalidInput,
            'open_store("file:runs", region="eu-west-1")',
            'open_store("file:runs")',
            names=("region",),
        ),
        Case(
            "url-unknown-option",
            InvalidInput,
            'open_store("s3://bucket/runs", zone="a")',
            'open_store("s3://bucket/runs", region="eu-west-1")',
            names=("zone",),
        ),
        Case(
            "url-without-bucket",
            InvalidInput,
            'open_store("s3:")',
            _S3,
            names=("s3:", "bucket"),
        ),
        Case(
            "url-with-credentials",
            InvalidInput,
            'open_store(f"s3://kim:{PASSWORD}@bucket/runs")',
            _S3,
            names=("s3:",),
        ),
        Case(
            "url-unknown-driver",
            InvalidInput,
            'open_store("s3://bucket/runs", driver="curl")',
            'open_store("s3://bucket/runs", driver="obstore")',
            names=("driver", "curl"),
        ),
        Case(
            "url-endpoint-with-password",
            InvalidInput,
            'open_store("s3://bucket", endpoint=f"https://kim:{PASSWORD}@host")',
            'open_store("s3://bucket", endpoint="https://host")',
            names=("endpoint",),
        ),
        Case(
            "url-obstore-option",
            InvalidInput,
            'open_store("s3://bucket", driver="obstore", profile="kim")',
            'open_store("s3://bucket", driver="boto3", profile="kim")',
            names=("profile",),
        ),
        Case(
            "url-bad-prefix",
            InvalidInput,
            'open_store("s3://bucket/my runs")',
            'open_store("s3://bucket/my-runs")',
            names=("my runs",),
        ),
        Case(
            "url-long-prefix",
            InvalidInput,
            'open_store("s3://bucket/" + "x" * 124)',
            'open_store("s3://bucket/" + "x" * 123)',
            names=("123",),
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
            "file-key-exists",
            storage.AlreadyExists,
            'store.create("runs/a", b"second")',
            'assert store.read("runs/a") == b"first"',
            setup="""
                store = storage.SyncStore(storage.FileStore(folder))
                store.create("runs/a", b"first")
            """,
            names=("runs/a",),
        ),
        Case(
            "file-key-missing",
            storage.NotFound,
            'store.read("runs/a")',
            'store.create("runs/a", b"body"); store.read("runs/a")',
            setup="store = storage.SyncStore(storage.FileStore(folder))",
            names=("runs/a",),
        ),
        Case(
            "store-invalid-key",
            storage.InvalidKey,
            'store.create("my runs/a", b"body")',
            'store.create("my-runs/a", b"body")',
            setup="store = storage.SyncStore(store)",
            names=("my runs",),
        ),
        Case(
            "store-long-key",
            storage.InvalidKey,
            'store.read("/".join(["x" * 255] * 4))',
            'store.create("/".join(["x" * 255] * 3), b"")',
            setup="store = storage.SyncStore(store)",
            names=("900",),
        ),
        Case(
            "store-invalid-prefix",
            storage.InvalidKey,
            'store.keys("my runs/")',
            'store.keys("my-runs/")',
            setup="store = storage.SyncStore(store)",
            names=("my runs",),
        ),
        Case(
            "store-invalid-prefix-end",
            storage.InvalidKey,
            'store.keys("runs/a b")',
            'store.keys("runs/a")',
            setup="store = storage.SyncStore(store)",
            names=("a b",),
        ),
        Case(
            "store-long-prefix",
            storage.InvalidKey,
            'store.keys("/".join(["x" * 255] * 4))',
            'store.keys("/".join(["x" * 255] * 3))',
            setup="store = storage.SyncStore(store)",
            names=("900",),
        ),
        Case(
            "store-limit",
            ValueError,
            'store.keys("runs/", limit=0)',
            'store.keys("runs/", limit=1)',
            setup="store = storage.SyncStore(store)",
            names=("limit",),
        ),
        Case(
            "memory-key-below-key",
            storage.InvalidKey,
            'store.create("runs/a/b", b"")',
            'store.create("runs/b/b", b"")',
            setup='store = storage.SyncStore(store); store.create("runs/a", b"")',
            names=("runs/a",),
        ),
        Case(
            "memory-key-above-key",
            storage.InvalidKey,
            'store.create("runs/a", b"")',
            'store.create("runs/b", b"")',
            setup='store = storage.SyncStore(store); store.create("runs/a/b", b"")',
            names=("runs/a",),
        ),
        Case(
            "file-key-below-key",
            storage.InvalidKey,
            'store.create("runs/a/b", b"")',
            'store.create("runs/b/b", b"")',
            setup="""
                store = storage.SyncStore(storage.FileStore(folder))
                store.create("runs/a", b"")
            """,
            names=("runs/a",),
        ),
        Case(
            "file-key-above-key",
            storage.InvalidKey,
            'store.create("runs/a", b"")',
            'store.create("runs/b", b"")',
            setup="""
                store = storage.SyncStore(storage.FileStore(folder))
                store.create("runs/a/b", b"")
            """,
            names=("runs/a",),
        ),
        Case(
            "file-symbolic-link",
            storage.Denied,
            'store.read("runs/a/b")',
            """
                (folder / "runs" / "a").unlink()
                store.create("runs/a/b", b"")
                store.read("runs/a/b")
            """,
            setup="""
                store = storage.SyncStore(storage.FileStore(folder))
                store.create("runs/b/b", b"")
                (folder / "runs" / "a").symlink_to(folder / "runs" / "b")
            """,
            names=("runs/a/b",),
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
            "file-root-below-a-dangling-link",
            storage.Unavailable,
            'store.create("runs/a", b"")',
            '(folder / "missing").mkdir(); store.create("runs/a", b"")',
            setup="""
                (folder / "link").symlink_to(folder / "missing")
                root = folder / "link" / "store"
                store = storage.SyncStore(storage.FileStore(root))
            """,
            names=("link",),
        ),
        Case(
            "file-that-is-a-folder",
            storage.NotFound,
            'store.read("runs/a")',
            'store.read("runs/a/b")',
            setup="""
                store = storage.SyncStore(storage.FileStore(folder))
                store.create("runs/a/b", b"")
            """,
            names=("runs/a",),
        ),
        Case(
            "file-system-without-hard-links",
            storage.Unsafe,
            'store.create("runs/a", b"")',
            "scene.close(); folder.mkdir(exist_ok=True); store.create('runs/a', b'')",
            setup="""
                import errno, os
                store = storage.SyncStore(storage.FileStore(folder))
                def refuse(*_, **__): raise OSError(errno.EPERM, "Operation not permitted")
                scene.patch(os, "link", refuse)
            """,
            names=("runs/a",),
        ),
        Case(
            "file-system-without-flush-of-folders",
            storage.Unsafe,
            'store.create("runs/a", b"")',
            "scene.close(); folder.mkdir(exist_ok=True); store.create('runs/a', b'')",
            setup="""
                import errno, os, stat
                store = storage.SyncStore(storage.FileStore(folder))
                def flush_files(file):
                    if stat.S_ISDIR(os.fstat(file).st_mode):
                        raise OSError(errno.EINVAL, "Invalid argument")
                scene.patch(os, "fsync", flush_files)
            """,
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
            "file-root-is-a-file",
            storage.Unavailable,
            'store.create("a", b"")',
            'storage.SyncStore(storage.FileStore(folder / "runs2")).create("a", b"")',
            setup="""
                (folder / "runs").write_text("")
                store = storage.SyncStore(storage.FileStore(folder / "runs"))
            """,
            names=("runs",),
        ),
        Case(
            "file-root-below-a-file",
            storage.Unavailable,
            'store.create("a", b"")',
            '(folder / "file").unlink(); store.create("a", b"")',
            setup="""
                (folder / "file").write_text("")
                store = storage.SyncStore(storage.FileStore(folder / "file" / "runs"))
            """,
            names=("file",),
        ),
        Case(
            "store-that-overwrites",
            storage.Unsafe,
            "storage.SyncStore(Overwriting()).probe()",
            "storage.SyncStore(storage.MemoryStore()).probe()",
            setup="""
                class Overwriting(storage.MemoryStore):
                    async def create(self, key, body):
                        await self.delete(key)
                        return await super().create(key, body)
            """,
        ),
        Case(
            "store-that-refuses-and-overwrites",
            storage.Unsafe,
            "storage.SyncStore(Overwriting()).probe()",
            "storage.SyncStore(storage.MemoryStore()).probe()",
            setup="""
                class Overwriting(storage.MemoryStore):
                    async def create(self, key, body):
                        try: await super().create(key, body)
                        except storage.AlreadyExists:
                            self._bodies[key] = body
                            raise
            """,
        ),
        Case(
            "store-that-begins-to-keep-versions",
            storage.Unsafe,
            'bucket.create("a", b"")',
            """
            bucket.delete("probe/passed")
            bucket.probe()
            bucket.create("b", b"")
            """,
            setup="""
                bucket = scene.bucket()
                bucket.probe()
                bucket.store.version_id = "v1"
            """,
            names=("probe/passed", "versions"),
        ),
        Case(
            "store-whose-proof-cannot-be-checked",
            storage.Inconclusive,
            'bucket.create("a", b"")',
            """
            bucket.store.refused_key = ""
            assert b"" == bucket.read("a")
            """,
            setup="""
                bucket = scene.bucket()
                bucket.store.version_id = "v1"
                bucket.probe()
                bucket.store.refused_key = "probe/passed"
            """,
            names=("a", "proof"),
        ),
        Case(
            "store-that-does-not-list",
            storage.Unsafe,
            "storage.SyncStore(Hiding()).probe()",
            "storage.SyncStore(storage.MemoryStore()).probe()",
            setup="""
                class Hiding(storage.MemoryStore):
                    async def keys(self, prefix, after="", limit=1000): return []
            """,
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
            "s3-without-credentials",
            storage.Denied,
            's3.create("a", b"")',
            """
                import os
                os.environ["AWS_ACCESS_KEY_ID"] = os.environ["AWS_SECRET_ACCESS_KEY"] = "x"
                # Another error: the credentials are found, and nobody listens.
                s3 = storage.SyncStore(S3Store("bucket", region="eu-west-1",
                    endpoint="http://127.0.0.1:9", retry_policy=RetryPolicy(max_attempts=1)))
                try: s3.create("a", b"")
                except storage.Unavailable: pass
            """,
            setup=f"""
                {_NO_AWS}
                s3 = storage.SyncStore(S3Store("bucket", region="eu-west-1"))
            """,
            names=("credentials",),
        ),
        Case(
            "s3-without-a-server",
            storage.Unavailable,
            's3.create("a", b"")',
            _MEMORY,
            setup=f"""
                {_NO_AWS}
                import os
                os.environ["AWS_ACCESS_KEY_ID"] = os.environ["AWS_SECRET_ACCESS_KEY"] = "x"
                s3 = storage.SyncStore(S3Store("bucket", region="eu-west-1",
                    endpoint="http://127.0.0.1:9", retry_policy=RetryPolicy(max_attempts=1)))
            """,
        ),
        Case(
            "s3-half-a-body",
            storage.Unavailable,
            's3.read("a")',
            _MEMORY,
            setup="""
                from io import BytesIO
                answer = {"Body": BytesIO(b"bo"), "ETag": "x", "ContentLength": 4}
                s3 = scene.fake_s3(get_object=lambda **_: answer)
            """,
        ),
        Case(
            "s3-answer-without-tag",
            storage.Unavailable,
            's3.read("a")',
            _MEMORY,
            setup="""
                from io import BytesIO
                s3 = scene.fake_s3(get_object=lambda **_: {"Body": BytesIO(b"")})
            """,
        ),
        Case(
            "s3-empty-page",
            storage.Unavailable,
            's3.keys("runs/")',
            _MEMORY,
            setup="s3 = scene.fake_s3(list_objects_v2=lambda **_: {'IsTruncated': True})",
        ),
        Case(
            "s3-listing-out-of-order",
            storage.Unsafe,
            's3.keys("runs/")',
            _MEMORY,
            setup="""
                page = {"IsTruncated": False, "Contents": [{"Key": "runs/b"}, {"Key": "runs/a"}],
                        "ResponseMetadata": {"HTTPHeaders": {}}}
                s3 = scene.fake_s3(list_objects_v2=lambda **_: page)
            """,
        ),
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
            "s3-create-of-a-taken-key",
            storage.AlreadyExists,
            's3.create("a", b"")',
            _MEMORY,
            setup="""
                def lose(**_): raise OSError("connection reset")
                found = {"ETag": "x", "Metadata": {"maker": "other"},
                         "ResponseMetadata": {"HTTPHeaders": {}}}
                s3 = scene.fake_s3(put_object=lose, head_object=lambda **_: found)
            """,
            names=("a",),
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
            "s3-client-after-a-fork",
            storage.Unavailable,
            's3.read("a")',
            "scene.close(); s3.read('a')",
            setup="""
                import os
                from io import BytesIO
                def answer(**_): return {"Body": BytesIO(b""), "ETag": "x", "ContentLength": 0}
                s3 = scene.fake_s3(get_object=answer)
                s3.read("a")
                scene.patch(os, "getpid", lambda: 1)
            """,
        ),
        Case(
            "obstore-half-a-body",
            storage.Unavailable,
            'store.read("a")',
            _MEMORY,
            setup="""
                store = scene.fake_obstore(b"bo", size=4)
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
        Case(
            "obstore-two-endpoints",
            storage.Unavailable,
            'store.create("a", b"")',
            """
                import os
                del os.environ["AWS_ENDPOINT_URL_S3"]
            """,
            setup=f"""
                {_NO_AWS}
                import os
                os.environ["AWS_ENDPOINT_URL_S3"] = "http://127.0.0.1:9"
                store = storage.SyncStore(open_store("s3://bucket", driver="obstore",
                    region="eu-west-1", endpoint="http://127.0.0.1:8"))
            """,
            names=("AWS_ENDPOINT_URL_S3",),
        ),
        Case(
            "obstore-without-credentials",
            storage.Denied,
            'store.create("a", b"")',
            """
                import os
                os.environ["AWS_ACCESS_KEY_ID"] = "key"
                os.environ["AWS_SECRET_ACCESS_KEY"] = "secret"
                from tests.storage.s3_proxy import FakeS3, S3Proxy
                with S3Proxy(FakeS3()) as server:
                    storage.SyncStore(open_store("s3://bucket", driver="obstore",
                        endpoint=server.url)).create("a", b"")
            """,
            setup=f"""
                {_NO_AWS}
                store = storage.SyncStore(open_store("s3://bucket", driver="obstore",
                    region="eu-west-1", endpoint="http://127.0.0.1:8"))
            """,
            names=("AWS_ACCESS_KEY_ID", "s3://bucket", "http://127.0.0.1:8"),
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
        Case(
            "run-root-has-gone",
            StoreUnavailable,
            "list(runner.waiting())",
            '(folder / "away").rename(folder / "runs"); list(runner.waiting())',
            setup="""
                runner = Runner(clerk(), store=folder / "runs")
                runner.start(TASK)
                (folder / "runs").rename(folder / "away")
            """,
            names=("has gone", "Mount its disk"),
        ),
        Case(
            "run-root-was-replaced",
            StoreUnavailable,
            "list(runner.waiting())",
            """
                (folder / "runs").rmdir(); (folder / "away").rename(folder / "runs")
                list(runner.waiting())
            """,
            setup="""
                runner = Runner(clerk(), store=folder / "runs")
                runner.start(TASK)
                (folder / "runs").rename(folder / "away")
                (folder / "runs").mkdir()
            """,
            names=("was replaced by another one", "Mount its disk"),
        ),
        Case(
            "run-root-is-a-file",
            StoreUnavailable,
            'Runner(clerk(), store=folder / "runs").start(TASK)',
            'Runner(clerk(), store=folder / "runs2").start(TASK)',
            setup='(folder / "runs").write_text("")',
            names=("runs",),
        ),
    ),
)
