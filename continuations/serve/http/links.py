"""Signed links: a URL that carries the right to decide one wait, and nothing else.

    https://host/d/{token}        token = base64url(claims + mac), without padding

    claims   1   format, 1
             4   which key signed it
             4   until when, in seconds since 1970
             1   allowed answers, a bit each
            16   what the wait's digest hashes to
             1+n the wait's id
             1+m the actor, or nothing
    mac     16   HMAC-SHA256 of the claims, its left half (RFC 2104, section 5)

A link is worth what a key is worth: who holds it, decides. It is never logged here.
"""

from __future__ import annotations

import binascii
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from struct import Struct
from typing import TYPE_CHECKING, get_args
from urllib.parse import urlsplit

from continuations.core.decisions import VerdictKind
from continuations.core.waits import WAIT_RULES
from continuations.engine.ports import SystemClock
from continuations.errors import ContinuationsError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from continuations.core.waits import Wait
    from continuations.ledger.claims import Clock

__all__ = ["LinkInvalid", "LinkPayload", "Links", "VerdictKind"]

VERDICT_KINDS: tuple[VerdictKind, ...] = get_args(VerdictKind)
# What each kind of wait can be answered with at all.
VERDICT_KINDS_BY_WAIT: Mapping[str, tuple[VerdictKind, ...]] = {
    kind: rules.verdicts for kind, rules in WAIT_RULES.items()
}

MIN_SECRET_BYTES = 32
_FORMAT = 1
_HEADER = Struct(">B4sIB16s")
_MAC_BYTES = 16
_MAX_TEXT_BYTES = 255
_MAX_TIMESTAMP = 2**32 - 1
_WEEK = timedelta(days=7)


class LinkInvalid(ContinuationsError):
    """A link that gives no right, for whatever reason; the reason is not told."""

    def __init__(self) -> None:
        # Without a word on what was wrong with it: that would help who makes them up.
        super().__init__(
            "This link is not valid, or not any more. Nothing was decided. Ask for a "
            "new one."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPayload:
    """What a valid link says. `fingerprint` stands for the wait's digest."""

    wait_id: str
    allowed: tuple[VerdictKind, ...]
    actor: str | None
    until: datetime
    fingerprint: bytes

    def check_digest(self, digest: str) -> None:
        """Raise `LinkInvalid` unless the link was made for what has this digest."""
        if not hmac.compare_digest(self.fingerprint, _fingerprint(digest)):
            raise LinkInvalid


class Links:
    """Makes links to waits, and reads them.

    `secret` signs, and is at least 32 bytes; links that `previous` signed are read as
    well, so that a secret can be changed without losing those which are under way.
    `base_url` is where the desk is found from outside, with its prefix. A link is
    valid for `valid_for` from the wait's deadline on, so that whoever is late is told
    so, or from now on if it has none.

    Raises `InvalidInput` for secrets and URLs that will not do.
    """

    def __init__(
        self,
        secret: bytes | str,
        *,
        base_url: str,
        previous: bytes | str | None = None,
        valid_for: timedelta = _WEEK,
        clock: Clock | None = None,
    ) -> None:
        self._key = _Key.of(secret)
        self._keys = [self._key, *([_Key.of(previous)] if previous is not None else [])]
        self._base_url = _checked_url(base_url)
        self._valid_for = valid_for
        self._clock = clock or SystemClock()

    def __repr__(self) -> str:
        """Name the place and which keys are known; never a key."""
        ids = ", ".join(key.id.hex() for key in self._keys)
        return f"<Links to {self._base_url}, keys {ids}>"

    def link(
        self,
        wait: Wait,
        *,
        allowed: Collection[VerdictKind] | None = None,
        actor: str | None = None,
        until: datetime | None = None,
    ) -> str:
        """Return a URL that lets its holder decide a wait.

        `allowed` are the answers that it can give, by default all that fit the wait;
        `actor` is who it is sent to, and is recorded as who decided. Raises
        `InvalidInput`.
        """
        return f"{self._base_url}/d/{self.token(wait, allowed, actor, until)}"

    def token(
        self,
        wait: Wait,
        allowed: Collection[VerdictKind] | None = None,
        actor: str | None = None,
        until: datetime | None = None,
    ) -> str:
        """Return the token of a link by itself."""
        fitting = VERDICT_KINDS_BY_WAIT[wait.kind]
        answers = fitting if allowed is None else tuple(allowed)
        if not answers or not set(answers) <= set(fitting):
            msg = (
                f"A link to {wait.id} cannot allow {', '.join(answers) or 'nothing'}: "
                f"a wait of kind {wait.kind} takes {', '.join(fitting)}."
            )
            raise InvalidInput(msg)
        head = _HEADER.pack(
            _FORMAT,
            self._key.id,
            _timestamp(until or self._default_until(wait)),
            sum(1 << VERDICT_KINDS.index(answer) for answer in set(answers)),
            _fingerprint(wait.digest),
        )
        claims = head + _pack_text(wait.id) + _pack_text(_checked_actor(actor))
        return _encode_base64url(claims + self._key.mac(claims))

    def read(self, token: str) -> LinkPayload:
        """Return what a link says; raises `LinkInvalid` for anything but a valid one.

        A key that is not known costs as much time as one that is.
        """
        data = _decode_token(token)
        claims, mac = data[:-_MAC_BYTES], data[-_MAC_BYTES:]
        named = claims[1:5]
        key = next((key for key in self._keys if key.id == named), self._key)
        if not hmac.compare_digest(key.mac(claims), mac):
            raise LinkInvalid
        ticket = _decode_payload(claims)
        if self._clock.now() >= ticket.until:
            raise LinkInvalid
        return ticket

    def _default_until(self, wait: Wait) -> datetime:
        return (wait.deadline or self._clock.now()) + self._valid_for


@dataclass(frozen=True, slots=True)
class _Key:
    id: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"<key {self.id.hex()}>"

    @classmethod
    def of(cls, secret: object) -> _Key:
        """Return the key of a secret; its errors do not tell it."""
        data = secret.encode() if isinstance(secret, str) else secret
        if not isinstance(data, bytes) or len(data) < MIN_SECRET_BYTES:
            msg = (
                f"A secret for links is at least {MIN_SECRET_BYTES} random bytes, as "
                "`openssl rand -hex 32` makes them."
            )
            raise InvalidInput(msg)
        # Keys of their own, so that the secret may serve for other things as well.
        signing = hmac.digest(data, b"continuations: signing links", "sha256")
        name = hmac.digest(data, b"continuations: naming the key", "sha256")
        return cls(name[:4], signing)

    def mac(self, payload: bytes) -> bytes:
        """Return the code that only who holds the key can make."""
        return hmac.digest(self.secret, payload, "sha256")[:_MAC_BYTES]


def _fingerprint(digest: str) -> bytes:
    return sha256(digest.encode()).digest()[:16]


def _pack_text(text: str) -> bytes:
    data = text.encode()
    return bytes((len(data),)) + data


def _decode_payload(payload: bytes) -> LinkPayload:
    """Return what claims say; they are ours, their MAC was right."""
    form, _, until, bits, fingerprint = _HEADER.unpack_from(payload)
    if form != _FORMAT:
        # Of a version to come, signed with the same secret.
        raise LinkInvalid
    wait_id, rest = _unpack_text(payload[_HEADER.size :])
    actor, _ = _unpack_text(rest)
    return LinkPayload(
        wait_id=wait_id,
        allowed=tuple(each for at, each in enumerate(VERDICT_KINDS) if bits >> at & 1),
        actor=actor or None,
        until=datetime.fromtimestamp(until, UTC),
        fingerprint=fingerprint,
    )


def _unpack_text(data: bytes) -> tuple[str, bytes]:
    end = 1 + data[0]
    return data[1:end].decode(), data[end:]


def _encode_base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode_token(token: str) -> bytes:
    if not token.isascii():
        raise LinkInvalid
    try:
        data = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except binascii.Error:
        raise LinkInvalid from None
    # The decoder passes over strange letters and loose bits: one token, one spelling.
    if _encode_base64url(data) != token or len(data) < _HEADER.size + 2 + _MAC_BYTES:
        raise LinkInvalid
    return data


def _timestamp(until: datetime) -> int:
    if until.tzinfo is None:
        msg = "A link is valid until an aware datetime: give it a time zone."
        raise InvalidInput(msg)
    # Never longer than was asked, and never longer than the format can say.
    return max(0, min(int(until.timestamp()), _MAX_TIMESTAMP))


def _checked_actor(actor: str | None) -> str:
    if actor is None:
        return ""
    try:
        fits = 0 < len(actor.encode()) <= _MAX_TEXT_BYTES
    except UnicodeEncodeError:
        fits = False
    if not fits:
        msg = f"A link's actor is a name of 1 to {_MAX_TEXT_BYTES} bytes, or None."
        raise InvalidInput(msg)
    return actor


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        good = False
        parts = None
    if parts is None or not good or parts.query or parts.fragment:
        msg = "base_url is https://host/prefix, where the desk is found from outside"
        raise InvalidInput(msg)
    return url.rstrip("/")
