"""Standard Webhooks: the secrets and signatures of posts, in both directions.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import TYPE_CHECKING

from continuations.errors import InvalidInput
from continuations.serve.option_checks import check_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# The specification: a key has 24 to 64 bytes.
_KEY_SIZES = range(24, 65)


def decode_secrets(secret: str | Sequence[str]) -> list[bytes]:
    """Return the keys of a secret or of several; errors do not contain a secret."""
    check_type("secret", secret, str | list | tuple, "a text or a list of texts")
    secrets = [secret] if isinstance(secret, str) else list(secret)
    if not secrets:
        raise InvalidInput("secret must contain at least one secret.")
    return [_decode_secret(each) for each in secrets]


def signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a post, `v1,` and base64."""
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    return f"v1,{base64.b64encode(hmac.digest(key, signed, 'sha256')).decode()}"


def headers(
    keys: Iterable[bytes], message_id: str, timestamp: str, body: bytes
) -> dict[str, str]:
    """Return the headers of a post; each key signs it."""
    signatures = (signature(key, message_id, timestamp, body) for key in keys)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(signatures),
    }


def _decode_secret(secret: str) -> bytes:
    check_type("secret", secret, str, "a text or a list of texts")
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith("whsec_") or len(key) not in _KEY_SIZES:
        raise InvalidInput(
            "secret must be 'whsec_' and the base64 of 24 to 64 random bytes."
        )
    return key
