"""Pages of lists, and cursors that tell nothing of runs that a person may not see.

An application may allow a person to view few runs of a store that has many. So a page
ends after a number of read rows too, with fewer rows than it may have. Its last row may
be hidden, so the cursor of such a page is sealed: encrypted and authenticated.

    "~" base64url( mac xor(row, keystream) )
    row         the cursor of the row, filled with zero bytes to 64, 128, ... bytes
    mac         HMAC-SHA256 of the row, its left half
    keystream   SHAKE-256 of the key and the mac

A row always gets the same sealed cursor, so processes with the same key make and read
the same ones. The cursor of a row that the person sees stays as it is.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Generic, TypeVar

from continuations.serve.http import problems
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.serve.http.links import Links
    from continuations.serve.rights import Rights

# No other cursor begins with this character.
_SEALED = "~"
_MAC_BYTES = 16
_STEP = 64
_KEY_OF_PROCESS = os.urandom(32)
# A page reads at most so many rows, also if it shows few of them.
MAX_READ = 1000

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Cursors:
    """Seals the cursors of hidden rows, and reads the cursors of requests.

    Attributes:
        key: The key of all processes that serve the list.
        are_limited: Whether there are hidden rows at all.
    """

    key: bytes
    are_limited: bool

    @classmethod
    def of(
        cls, secret: bytes | None, links: Links | None, rights: Rights | None
    ) -> Cursors:
        """Return the cursors of an application.

        The key comes from a secret that its processes share: that of the console, or
        that of its links. Without one, only this process can read its sealed cursors.
        """
        if secret is None:
            secret = _KEY_OF_PROCESS if links is None else links.cursor_secret
        key = hmac.digest(secret, b"continuations: sealing cursors", "sha256")
        return cls(key, rights is not None and rights.are_limited)

    def __repr__(self) -> str:
        """Show nothing of the key."""
        return "<Cursors>"

    def seal(self, cursor: str) -> str:
        """Return a sealed cursor; without rights, the cursor itself."""
        if not self.are_limited:
            return cursor
        row = cursor.encode()
        row += bytes(-len(row) % _STEP)
        mac = self._mac(row)
        data = mac + self._xor(mac, row)
        return _SEALED + urlsafe_b64encode(data).rstrip(b"=").decode()

    def open(self, text: str) -> str:
        """Return the cursor of a request, which may be sealed.

        Raises:
            RequestRefused: Another key has sealed it, or it was changed.
        """
        if not text.startswith(_SEALED):
            return text
        sealed = text[len(_SEALED) :].encode()
        try:
            data = urlsafe_b64decode(sealed + b"=" * (-len(sealed) % 4))
        except binascii.Error:
            data = b""
        mac, hidden = data[:_MAC_BYTES], data[_MAC_BYTES:]
        row = self._xor(mac, hidden)
        if not hidden or not hmac.compare_digest(mac, self._mac(row)):
            raise problems.unknown_cursor()
        return row.rstrip(b"\0").decode()

    def following(self, cursor: str | None, last_shown: str | None) -> str | None:
        """Return the cursor of the next page.

        Args:
            cursor: The cursor of the last row that was read; `None` on the last page.
            last_shown: The id of the last run or wait of the page, if it has one. A
                cursor that ends with it is not sealed.
        """
        if cursor is None or cursor.rpartition("/")[2] == last_shown:
            return cursor
        return self.seal(cursor)

    def _mac(self, row: bytes) -> bytes:
        return hmac.digest(self.key, row, "sha256")[:_MAC_BYTES]

    def _xor(self, mac: bytes, data: bytes) -> bytes:
        stream = hashlib.shake_256(self.key + mac).digest(len(data))
        return bytes(a ^ b for a, b in zip(data, stream, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage(Generic[Row]):
    """One page of a list.

    Attributes:
        rows: The rows that the person may see.
        next: The cursor of the next page; `None` on the last page.
    """

    rows: tuple[Row, ...]
    next: str | None
