"""A store with plain calls instead of coroutines."""

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
    """The verbs of a store as plain calls, which block until they return.

    The store runs in an event loop in a thread of its own. So the calls also work where
    an event loop is running already. Close the object, or use it in a `with` statement.
    A forked child starts its own thread.

    Args:
        store: The store. `close` does not close it.

    Attributes:
        store: The wrapped store.
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
        """Put the body if the key is absent; see `Store.create`."""
        return self._run(self.store.create(key, body))

    def read(self, key: str) -> bytes:
        """Return the whole body, or raise `NotFound`; see `Store.read`."""
        return self._run(self.store.read(key))

    def keys(self, prefix: str, after: str = "", limit: int = PAGE_SIZE) -> list[str]:
        """Return the first keys of a prefix, in byte order; see `Store.keys`."""
        return self._run(self.store.keys(prefix, after, limit))

    def all_keys(self, prefix: str, after: str = "") -> Iterator[str]:
        """Iterate over every key of a prefix in byte order, page by page.

        Args:
            prefix: The beginning of the keys; "" for all keys.
            after: Skip keys up to and including this text.

        Returns:
            An iterator over the keys.
        """
        while True:
            page = self.keys(prefix, after)
            yield from page
            if len(page) < PAGE_SIZE:
                return
            after = page[-1]

    def delete(self, key: str) -> None:
        """Remove the key; to delete a missing key is a success."""
        self._run(self.store.delete(key))

    def probe(self) -> None:
        """Prove that the store honours put-if-absent, or raise `Unsafe`."""
        self._run(self.store.probe())

    def close(self) -> None:
        """Stop the thread. Later calls raise RuntimeError; a second close does not."""
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
            # After Ctrl-C, the operation must not continue in the background.
            future.cancel()
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise RuntimeError("this SyncStore is closed. Make a new one.")
            # A thread does not survive a fork: a child starts its own.
            if self._loop is None or self._owner_pid != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._owner_pid = os.getpid()
                self._thread = threading.Thread(
                    target=_run_until_stopped,
                    args=(self._loop,),
                    name="continuations-store",
                    daemon=True,  # a missing close() must not block the exit
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
