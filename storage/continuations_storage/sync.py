"""The sync face of a store, for code that is not async or already inside a loop."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar

from continuations_storage.contract import PAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from datetime import datetime

    from continuations_storage.contract import Store

__all__ = ["SyncStore"]

T = TypeVar("T")


class SyncStore:
    """The same verbs as plain calls; close it, or use it in a `with`.

    The store runs on a loop of its own in a thread of its own, so the calls also
    work, and block, where an event loop is running already.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._owner_pid = 0  # the process that started the thread
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body if the key is absent; durable when it returns."""
        return self._run(self.store.create(key, body))

    def read(self, key: str) -> bytes:
        """Return the whole body, or raise NotFound."""
        return self._run(self.store.read(key))

    def keys(self, prefix: str, after: str = "", limit: int = PAGE_SIZE) -> list[str]:
        """Return the first keys with the prefix and greater than `after`, in order."""
        return self._run(self.store.keys(prefix, after, limit))

    def all_keys(self, prefix: str, after: str = "") -> Iterator[str]:
        """Go through every key with the prefix in byte order, page by page."""
        while True:
            page = self.keys(prefix, after)
            yield from page
            if len(page) < PAGE_SIZE:
                return
            after = page[-1]

    def delete(self, key: str) -> None:
        """Remove the key; succeeds also when there is none."""
        self._run(self.store.delete(key))

    def probe(self) -> None:
        """Prove that the store honours put-if-absent, or raise Unsafe."""
        self._run(self.store.probe())

    def close(self) -> None:
        """Stop the thread; calls afterwards are refused. Closing twice is fine."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or self._owner_pid != os.getpid():
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            loop = self._running_loop()
        except RuntimeError:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C while waiting: the work must not go on behind our back.
            future.cancel()
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise RuntimeError("this SyncStore is closed; make a new one")
            # A thread does not survive a fork: a child starts its own.
            if self._loop is None or self._owner_pid != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._owner_pid = os.getpid()
                self._thread = threading.Thread(
                    target=_run_until_stopped,
                    args=(self._loop,),
                    name="continuations-store",
                    daemon=True,  # a forgotten close() must not hang the exit
                )
                self._thread.start()
            return self._loop


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
