"""Signed tokens: short claims that only a holder of the secret can have made.

    token    = base64url(claims + mac), without padding
    claims   1   format, 1
             4   id of the key that signed the token
             n   the body, for each purpose its own
    mac     16   HMAC-SHA256 of the claims, its left half (RFC 2104, section 5)

Each purpose derives a key of its own from the secret. So a token of one purpose is not
valid for another one.
"""

from __future__ import annotations

import binascii
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode

from continuations.errors import InvalidInput
from continuations.value_class import dataclass

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
            msg = (
                f"secret must have at least {MIN_SECRET_BYTES} random bytes. Make one "
                "with `openssl rand -hex 32`."
            )
            raise InvalidInput(msg)
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
