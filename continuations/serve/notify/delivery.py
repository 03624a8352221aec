"""One message to one receiver: attempts in a thread, each cut off when its time is up.

http.client and smtplib measure their time-outs from one byte to the next; a receiver
that sends a byte now and then would hold them for ever, and the run with them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from contextlib import suppress
from dataclasses import dataclass
from ssl import SSLCertVerificationError
from typing import TYPE_CHECKING, Protocol, TypeVar

from continuations.errors import InvalidInput
from continuations.serve.notify.notifier import NotifyFailed
from continuations_storage.retry_policy import RetryPolicy
from continuations_storage.thread_pool import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.core.waits import Wait

__all__ = [
    "NOTIFY_RETRY_POLICY",
    "Delivery",
    "DeliveryAttempt",
    "DeliveryAttemptFailed",
    "is_loopback",
]

# The run's worker waits for its notifier: better to report it than to hold it up.
NOTIFY_RETRY_POLICY = RetryPolicy(
    max_attempts=4, max_seconds=10.0, first_delay=0.2, max_delay=2.0
)

_threads = DaemonThreadPool(8, "continuations-notify")


class DeliveryAttemptFailed(Exception):
    """An attempt that failed: why, whether to try again, and not before how long."""

    def __init__(
        self, reason: str, *, retryable: bool, retry_after: float = 0.0
    ) -> None:
        super().__init__(reason)
        self.retryable = retryable
        self.retry_after = retry_after


class HasSocket(Protocol):
    """What a client of the standard library has in common with the others."""

    @property
    def sock(self) -> socket.socket | None:
        """Its socket, once it is connected."""
        ...


T = TypeVar("T", bound=HasSocket)


class DeliveryAttempt:
    """Holds the connection of one attempt, so that it can be cut from outside."""

    def __init__(self) -> None:
        self._connection: HasSocket | None = None

    def track(self, connection: T) -> T:
        """Hold a connection, and return it."""
        self._connection = connection
        return connection

    def shut_down(self) -> None:
        """Wake the thread that reads or writes there; it finds the line dead."""
        sock = self._connection.sock if self._connection is not None else None
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """How to reach a receiver: for the errors its name, `timeout` seconds an attempt.

    Raises `InvalidInput` for a time-out that is none.
    """

    receiver: str
    timeout: float
    retry_policy: RetryPolicy

    def __post_init__(self) -> None:
        if not 0 < self.timeout < float("inf"):
            raise InvalidInput("timeout is a number of seconds, more than none")

    async def deliver(
        self, wait: Wait, send: Callable[[DeliveryAttempt], None]
    ) -> None:
        """Attempt it, and again while that may help; raises `NotifyFailed`."""
        tries = self.retry_policy.begin()
        while True:
            try:
                return await self._attempt(send)
            except DeliveryAttemptFailed as setback:
                if not setback.retryable or not await tries.wait_for_retry(
                    setback.retry_after
                ):
                    detail = f"{self.receiver} was not told of it: {setback}"
                    # What a client raises may quote what the receiver said.
                    raise NotifyFailed(
                        wait, detail, retryable=setback.retryable
                    ) from None

    async def _attempt(self, send: Callable[[DeliveryAttempt], None]) -> None:
        wire = DeliveryAttempt()
        try:
            async with asyncio.timeout(self.timeout):
                await _threads.run(send, wire)
        except TimeoutError:
            why = f"it did not answer within {self.timeout:g} s"
            raise DeliveryAttemptFailed(why, retryable=True) from None
        except UnicodeError:
            raise DeliveryAttemptFailed(
                "its name is no host's", retryable=False
            ) from None
        except SSLCertVerificationError as error:
            why = f"its certificate is not trusted here ({error.verify_message})"
            raise DeliveryAttemptFailed(why, retryable=False) from None
        except OSError as error:
            why = f"{type(error).__name__}: {error.strerror or 'no connection'}"
            raise DeliveryAttemptFailed(why, retryable=True) from None
        finally:
            wire.shut_down()


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine: nobody else reads what goes there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
