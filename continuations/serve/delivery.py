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
from continuations.serve.notify import NotifyFailed
from continuations_storage.patience import Patience
from continuations_storage.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.core.waits import Wait

__all__ = ["BRIEF", "Delivery", "Setback", "Wire", "is_loopback"]

# The run's worker waits for its notifier: better to report it than to hold it up.
BRIEF = Patience(attempts=4, seconds=10.0, first_wait=0.2, longest_wait=2.0)

_threads = Threads(8, "continuations-notify")


class Setback(Exception):
    """An attempt that failed: why, whether to try again, and not before how long."""

    def __init__(self, why: str, *, again: bool, at_least: float = 0.0) -> None:
        super().__init__(why)
        self.again = again
        self.at_least = at_least


class Connected(Protocol):
    """What a client of the standard library has in common with the others."""

    @property
    def sock(self) -> socket.socket | None:
        """Its socket, once it is connected."""
        ...


T = TypeVar("T", bound=Connected)


class Wire:
    """Holds the connection of one attempt, so that it can be cut from outside."""

    def __init__(self) -> None:
        self._held: Connected | None = None

    def hold(self, connection: T) -> T:
        """Hold a connection, and return it."""
        self._held = connection
        return connection

    def cut(self) -> None:
        """Wake the thread that reads or writes there; it finds the line dead."""
        sock = self._held.sock if self._held is not None else None
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
    patience: Patience

    def __post_init__(self) -> None:
        if not 0 < self.timeout < float("inf"):
            raise InvalidInput("timeout is a number of seconds, more than none")

    async def deliver(self, wait: Wait, attempt: Callable[[Wire], None]) -> None:
        """Attempt it, and again while that may help; raises `NotifyFailed`."""
        tries = self.patience.begin()
        while True:
            try:
                return await self._attempt(attempt)
            except Setback as setback:
                if not setback.again or not await tries.again(setback.at_least):
                    detail = f"{self.receiver} was not told of it: {setback}"
                    # What a client raises may quote what the receiver said.
                    raise NotifyFailed(wait, detail, retryable=setback.again) from None

    async def _attempt(self, attempt: Callable[[Wire], None]) -> None:
        wire = Wire()
        try:
            async with asyncio.timeout(self.timeout):
                await _threads.run(attempt, wire)
        except TimeoutError:
            why = f"it did not answer within {self.timeout:g} s"
            raise Setback(why, again=True) from None
        except UnicodeError:
            raise Setback("its name is no host's", again=False) from None
        except SSLCertVerificationError as error:
            why = f"its certificate is not trusted here ({error.verify_message})"
            raise Setback(why, again=False) from None
        except OSError as error:
            why = f"{type(error).__name__}: {error.strerror or 'no connection'}"
            raise Setback(why, again=True) from None
        finally:
            wire.cut()


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine: nobody else reads what goes there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
