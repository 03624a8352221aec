"""Signed links: a URL that proves the right to decide one wait.

    https://host/d/{token}           a person decides on a page
    https://host/callbacks/{token}   another system reports the result of its job

A token has claims that only a holder of the secret can have made:

    token    = base64url(claims + mac), without padding
    claims   1   format, 1
             4   id of the key that signed the token
             n   the body, for each purpose its own
    mac     16   HMAC-SHA256 of the claims, its left half (RFC 2104, section 5)

Each purpose derives a key of its own from the secret. So a token of one purpose is not
valid for another one. The body of a link's token is:

             4   expiry, in seconds since 1970
             1   allowed kinds of decision, one bit each
            16   fingerprint of the wait's digest
             1+n the wait's id
             1+m the actor; empty if the link has none

The body of a callback's token is the id of its wait. It is made before the wait has a
digest, and it does not expire: the id of a job's wait cannot be guessed and is never
used again.

Anyone who has a link can use it until it expires. Tokens are never logged.
"""

from __future__ import annotations

import binascii
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from struct import Struct
from typing import TYPE_CHECKING, cast, get_args
from urllib.parse import urlsplit

from continuations.core.rows.decisions import VerdictKind
from continuations.core.rows.waits import Wait
from continuations.engine.ports import SystemClock
from continuations.errors import ContinuationsError, InvalidInput
from continuations.serve.option_checks import check_type
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.ledger.claims import Clock

__all__ = ["CallbackInvalid", "LinkInvalid", "LinkPayload", "Links", "VerdictKind"]

MIN_SECRET_BYTES = 32
_FORMAT = 1
_KEY_ID_BYTES = 4
_MAC_BYTES = 16
_HEAD_BYTES = 1 + _KEY_ID_BYTES


class TokenInvalid(Exception):
    """A token is malformed or forged, or was signed for another purpose."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key of one purpose.

    Attributes:
        id: The id of the secret. It is in each token and tells nothing about the key.
        secret: The key.
    """

    id: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"<key {self.id.hex()}>"

    @classmethod
    def of(cls, secret: object, purpose: str) -> SigningKey:
        """Return the key of a secret; errors do not contain the secret."""
        data = secret.encode() if isinstance(secret, str) else secret
        if not isinstance(data, bytes) or len(data) < MIN_SECRET_BYTES:
            raise InvalidInput(
                f"secret must have at least {MIN_SECRET_BYTES} random bytes. Make one "
                "with `openssl rand -hex 32`."
            )
        # Derived keys, so that the secret may have other uses.
        signing = hmac.digest(data, f"continuations: {purpose}".encode(), "sha256")
        name = hmac.digest(data, b"continuations: naming the key", "sha256")
        return cls(name[:_KEY_ID_BYTES], signing)

    def mac(self, claims: bytes) -> bytes:
        """Return the message authentication code of claims."""
        return hmac.digest(self.secret, claims, "sha256")[:_MAC_BYTES]


class Signer:
    """Signs and reads the tokens of one purpose."""

    def __init__(self, secret: object, previous: object, *, purpose: str) -> None:
        self._key = SigningKey.of(secret, purpose)
        self._keys = [self._key]
        if previous is not None:
            self._keys.append(SigningKey.of(previous, purpose))

    @property
    def key_ids(self) -> str:
        """The ids of the keys, for people."""
        return ", ".join(key.id.hex() for key in self._keys)

    def derive(self, purpose: str) -> bytes:
        """Return a secret for another purpose, which signs nothing."""
        text = f"continuations: {purpose}".encode()
        return hmac.digest(self._key.secret, text, "sha256")

    def sign(self, body: bytes) -> str:
        """Return the token of a body."""
        claims = bytes((_FORMAT,)) + self._key.id + body
        return _encode_base64url(claims + self._key.mac(claims))

    def read(self, token: str) -> bytes:
        """Return the body of a token; raises `TokenInvalid`.

        The time does not depend on whether the key is known.
        """
        data = _decode_base64url(token)
        claims, mac = data[:-_MAC_BYTES], data[-_MAC_BYTES:]
        key_id = claims[1:_HEAD_BYTES]
        key = next((key for key in self._keys if key.id == key_id), self._key)
        is_signed = hmac.compare_digest(key.mac(claims), mac)
        # A later release may sign other formats with the same secret.
        if not is_signed or claims[0] != _FORMAT:
            raise TokenInvalid
        return claims[_HEAD_BYTES:]


def pack_text(text: str) -> bytes:
    """Return a text of at most 255 bytes, with its length before it."""
    data = text.encode()
    return bytes((len(data),)) + data


def unpack_text(data: bytes) -> tuple[str, bytes]:
    """Return the text at the beginning of signed bytes, and the bytes after it."""
    end = 1 + data[0]
    return data[1:end].decode(), data[end:]


def _encode_base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode_base64url(token: str) -> bytes:
    if not token.isascii():
        raise TokenInvalid
    try:
        data = urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except binascii.Error:
        raise TokenInvalid from None
    # The decoder ignores foreign characters and unused bits. Accept one spelling only.
    if _encode_base64url(data) != token or len(data) < _HEAD_BYTES + _MAC_BYTES:
        raise TokenInvalid
    return data


VERDICT_KINDS: tuple[VerdictKind, ...] = get_args(VerdictKind)

_HEADER = Struct(">IB16s")
_MAX_TEXT_BYTES = 255
_MAX_TIMESTAMP = 2**32 - 1
_WEEK = timedelta(days=7)


class LinkInvalid(ContinuationsError):
    """A signed link is malformed, forged, expired or for another wait."""

    def __init__(self) -> None:
        # One text for every reason: a reason would help to forge links.
        super().__init__(
            "The link is not valid or has expired. Nothing was decided. Ask for a new "
            "link."
        )


class CallbackInvalid(ContinuationsError):
    """The URL of a callback is malformed or forged, or names no wait of this store."""

    def __init__(self) -> None:
        super().__init__(
            "The callback URL is not valid. Nothing was recorded. Send the result to "
            "the URL that the tool got as ctx.callback_url."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPayload:
    """The claims of a valid link.

    Attributes:
        wait_id: The wait that the link decides.
        allowed: The kinds of decision that the link allows.
        actor: The name that the decision is recorded under, if the link has one.
        until: When the link expires.
        fingerprint: A hash of the wait's digest.
    """

    wait_id: str
    allowed: tuple[VerdictKind, ...]
    actor: str | None
    until: datetime
    fingerprint: bytes

    def check_digest(self, digest: str) -> None:
        """Raise `LinkInvalid` unless the link was made for a wait with this digest."""
        if not hmac.compare_digest(self.fingerprint, _fingerprint(digest)):
            raise LinkInvalid


class Links:
    """Make and read signed links, and the callback URLs of jobs.

    Args:
        secret: The secret that signs links, at least 32 random bytes
            (`openssl rand -hex 32`). Each use derives its own key from it.
        base_url: The public URL of the HTTP API, with its mount prefix.
        previous: The secret before the last rotation. Links that it signed remain
            valid until they expire, and callback URLs until their jobs end.
        valid_for: How long a link is valid after the wait's deadline; without a
            deadline, from now. A link outlives the deadline so that a late reader sees
            why the call cannot be decided. 7 days by default.
        clock: The clock for expiry; the system clock by default.

    Raises:
        InvalidInput: A secret is too short, `base_url` is not an HTTP URL, or an option
            has a wrong type.
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
        self._signer = Signer(secret, previous, purpose="signing links")
        self._callback_signer = Signer(secret, previous, purpose="signing callbacks")
        self._base_url = _checked_url(base_url)
        check_type("valid_for", valid_for, timedelta, "a timedelta")
        self._valid_for = valid_for
        self._clock = clock or SystemClock()

    @property
    def cursor_secret(self) -> bytes:
        """The secret from which the key of sealed cursors is derived."""
        return self._signer.derive("sealing cursors")

    def __repr__(self) -> str:
        """Name the base URL and the ids of the keys, never a key."""
        return f"<Links to {self._base_url}, keys {self._signer.key_ids}>"

    def link(
        self,
        wait: Wait,
        *,
        allowed: Collection[VerdictKind] | None = None,
        actor: str | None = None,
        until: datetime | None = None,
    ) -> str:
        """Return a URL that lets its holder decide a wait.

        Args:
            wait: The wait.
            allowed: The kinds of decision that the link allows; by default all that
                the wait accepts.
            actor: The person who gets the link. The decision is recorded under this
                name.
            until: When the link expires; by default `valid_for` after the deadline.

        Returns:
            The URL.

        Raises:
            InvalidInput: No decision ends the wait, the wait does not accept a kind in
                `allowed`, `actor` is empty or longer than 255 bytes, or `until` has no
                time zone.
        """
        return f"{self._base_url}/d/{self.token(wait, allowed, actor, until)}"

    def token(
        self,
        wait: Wait,
        allowed: Collection[VerdictKind] | None = None,
        actor: str | None = None,
        until: datetime | None = None,
    ) -> str:
        """Return only the token of a link; see `link`.

        Args:
            wait: The wait.
            allowed: The kinds of decision that the link allows.
            actor: The person who gets the link.
            until: When the link expires.

        Returns:
            The token, which is the last part of the link's path.

        Raises:
            InvalidInput: An option is invalid; see `link`.
        """
        check_type("wait", wait, Wait, "a Wait, as runner.wait returns it")
        fitting = tuple(wait.rules.verdicts)
        kinds = fitting if allowed is None else _checked_kinds(allowed)
        if not fitting:
            raise InvalidInput(
                f"wait {wait.id} has no link: a wait of kind {wait.kind} is ended by "
                f"{wait.rules.ended_by}. Make links for waits that a decision ends, "
                "such as approvals and questions."
            )
        if not kinds or not set(kinds) <= set(fitting):
            raise InvalidInput(
                f"allowed must be some of {', '.join(fitting)} for wait {wait.id} of "
                f"kind {wait.kind}, got {', '.join(map(str, kinds)) or 'nothing'}."
            )
        head = _HEADER.pack(
            _timestamp(until or self._default_until(wait)),
            sum(1 << VERDICT_KINDS.index(kind) for kind in set(kinds)),
            _fingerprint(wait.digest),
        )
        return self._signer.sign(
            head + pack_text(wait.id) + pack_text(_checked_actor(actor))
        )

    def read(self, token: str) -> LinkPayload:
        """Return the claims of a link.

        Args:
            token: The last part of the link's path.

        Returns:
            The claims.

        Raises:
            LinkInvalid: The token is not one valid token of these secrets.
        """
        try:
            payload = _decode_payload(self._signer.read(token))
        except TokenInvalid:
            raise LinkInvalid from None
        if self._clock.now() >= payload.until:
            raise LinkInvalid
        return payload

    def callback_url(self, wait_id: str) -> str:
        """Return the URL to which another system sends the result of its job.

        Pass this method to the runner, and its tools get the URL as
        `ctx.callback_url`: `Runner(..., callback_url=links.callback_url)`. The URL
        ends this wait only, by a result or an error.

        Args:
            wait_id: The id of the wait, `ctx.wait_id` of a tool.

        Returns:
            The URL.
        """
        return (
            f"{self._base_url}/callbacks/{self._callback_signer.sign(wait_id.encode())}"
        )

    def read_callback(self, token: str) -> str:
        """Return the id of the wait that a callback ends.

        Args:
            token: The part of the callback's path after `/callbacks/`.

        Returns:
            The id of the wait.

        Raises:
            CallbackInvalid: The token is not one valid token of these secrets.
        """
        try:
            return self._callback_signer.read(token).decode()
        except TokenInvalid:
            raise CallbackInvalid from None

    def _default_until(self, wait: Wait) -> datetime:
        try:
            return (wait.deadline or self._clock.now()) + self._valid_for
        except OverflowError:  # after the year 9999
            return datetime.max.replace(tzinfo=UTC)


def _fingerprint(digest: str) -> bytes:
    return sha256(digest.encode()).digest()[:16]


def _decode_payload(payload: bytes) -> LinkPayload:
    """Return the claims of a payload that was signed."""
    until, bits, fingerprint = _HEADER.unpack_from(payload)
    wait_id, rest = unpack_text(payload[_HEADER.size :])
    actor, _ = unpack_text(rest)
    return LinkPayload(
        wait_id=wait_id,
        allowed=tuple(
            kind for bit, kind in enumerate(VERDICT_KINDS) if bits >> bit & 1
        ),
        actor=actor or None,
        until=datetime.fromtimestamp(until, UTC),
        fingerprint=fingerprint,
    )


def _timestamp(until: datetime) -> int:
    check_type("until", until, datetime, "a datetime with a time zone")
    if until.tzinfo is None:
        msg = "until must have a time zone, for example datetime(..., tzinfo=UTC)."
        raise InvalidInput(msg)
    # Round down, and stay within the four bytes of the format.
    return max(0, min(int(until.timestamp()), _MAX_TIMESTAMP))


def _checked_kinds(allowed: object) -> tuple[VerdictKind, ...]:
    if isinstance(allowed, str) or not isinstance(allowed, Collection):
        msg = f"allowed must be a list of decisions, got {type(allowed).__name__}."
        raise InvalidInput(msg)
    kinds = tuple(cast("Collection[object]", allowed))
    for kind in kinds:
        check_type("each kind in allowed", kind, str, "a string")
    return cast("tuple[VerdictKind, ...]", kinds)


def _checked_actor(actor: str | None) -> str:
    if actor is None:
        return ""
    check_type("actor", actor, str, "a name or None")
    try:
        fits = 0 < len(actor.encode()) <= _MAX_TEXT_BYTES
    except UnicodeEncodeError:
        fits = False
    if not fits:
        msg = f"actor must be a name of 1 to {_MAX_TEXT_BYTES} bytes, or None."
        raise InvalidInput(msg)
    from continuations.core.identity import checked_person  # noqa: PLC0415 - not to read one

    return checked_person("actor", actor) or ""


def _checked_url(url: str) -> str:
    check_type("base_url", url, str, "a URL")
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        good = False
        parts = None
    if parts is None or not good or parts.query or parts.fragment:
        raise InvalidInput(
            "base_url must be the public URL of the HTTP API, for example "
            "https://example.com/agents."
        )
    return url.rstrip("/")
