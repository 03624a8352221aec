"""Deliver one message to one receiver, with a time limit for each attempt.

The timeouts of http.client and smtplib count from one byte to the next, so a receiver
that sends single bytes would block them without end. Therefore an attempt runs in a
thread, and its socket is shut down when the time is up.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from contextlib import suppress
from ssl import SSLCertVerificationError, SSLContext
from typing import TYPE_CHECKING, Protocol, TypeVar

from continuations.serve.notify.notifier import NotifyFailed
from continuations.serve.option_checks import check_seconds, check_type
from continuations.value_class import dataclass
from continuations_storage.retries import RetryPolicy
from continuations_storage.thread_pool import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.core.reading.notices import Notice
    from continuations.core.rows.waits import Wait

# The run's worker waits for its notifier, so an early failure is better than a delay.
NOTIFY_RETRY_POLICY = RetryPolicy(
    max_attempts=4, max_seconds=10.0, first_delay=0.2, max_delay=2.0
)

_threads = DaemonThreadPool(8, "continuations-notify")


class DeliveryAttemptFailed(Exception):
    """One attempt failed.

    Attributes:
        retryable: Whether another attempt can succeed.
        retry_after: The minimum delay before it, in seconds.
    """

    def __init__(
        self, reason: str, *, retryable: bool, retry_after: float = 0.0
    ) -> None:
        super().__init__(reason)
        self.retryable = retryable
        self.retry_after = retry_after


class HasSocket(Protocol):
    """A client of the standard library, with its socket."""

    @property
    def sock(self) -> socket.socket | None:
        """The socket, once the client is connected."""
        ...


T = TypeVar("T", bound=HasSocket)


class DeliveryAttempt:
    """The connection of one attempt, which another thread can shut down."""

    def __init__(self) -> None:
        self._connection: HasSocket | None = None

    def track(self, connection: T) -> T:
        """Remember the connection, and return it."""
        self._connection = connection
        return connection

    def shut_down(self) -> None:
        """Shut the connection down, which ends the thread that uses it."""
        sock = self._connection.sock if self._connection is not None else None
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """How to deliver to a receiver.

    Attributes:
        receiver: The receiver's name for errors.
        timeout: The time limit of one attempt, in seconds.
        retry_policy: How often and when to try again.

    Raises:
        InvalidInput: `timeout` is not a positive number, or `retry_policy` has a wrong
            type.
    """

    receiver: str
    timeout: float
    retry_policy: RetryPolicy

    def __post_init__(self) -> None:
        check_seconds("timeout", self.timeout, above_zero=True)
        check_type("retry_policy", self.retry_policy, RetryPolicy, "a RetryPolicy")

    async def deliver(
        self, subject: Wait | Notice, send: Callable[[DeliveryAttempt], None]
    ) -> None:
        """Send, and try again while that can help; raise `NotifyFailed`."""
        retries = self.retry_policy.begin()
        while True:
            try:
                return await self._attempt(send)
            except DeliveryAttemptFailed as failure:
                if not failure.retryable or not await retries.wait_for_retry(
                    failure.retry_after
                ):
                    # No cause: a client's error may quote the receiver's response.
                    raise NotifyFailed(
                        subject,
                        f"{self.receiver}: {failure}",
                        retryable=failure.retryable,
                    ) from None

    async def _attempt(self, send: Callable[[DeliveryAttempt], None]) -> None:
        attempt = DeliveryAttempt()
        try:
            async with asyncio.timeout(self.timeout):
                await _threads.run(send, attempt)
        except TimeoutError:
            reason = f"no response within {self.timeout:g} s"
            raise DeliveryAttemptFailed(reason, retryable=True) from None
        except UnicodeError:
            raise DeliveryAttemptFailed("invalid host name", retryable=False) from None
        except SSLCertVerificationError as error:
            reason = f"untrusted certificate ({error.verify_message})"
            raise DeliveryAttemptFailed(reason, retryable=False) from None
        except OSError as error:
            reason = f"{type(error).__name__}: {error.strerror or 'no connection'}"
            raise DeliveryAttemptFailed(reason, retryable=True) from None
        finally:
            attempt.shut_down()


def check_tls(tls: object) -> None:
    """Raise `InvalidInput` for TLS settings of a wrong type."""
    check_type("tls", tls, SSLContext | None, "an ssl.SSLContext or None")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, so that plain text is safe."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
