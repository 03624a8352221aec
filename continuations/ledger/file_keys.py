"""The keys of the attachments of a run (docs/object-layout.md).

    runs/{run}/x/{nonce}-{digest}-{size}

`nonce` is the run's own: two processes that start a run under one id at the same time
never share a key. The keys sort after the versions, so a look at a run does not list
them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from continuations.core.attachment_parts import MAX_RUN_BYTES
from continuations.ledger import layout
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.attachment_parts import Attachment

_NAME = re.compile(r"([0-9a-z]{1,40})-([0-9a-f]{64})-([1-9][0-9]{0,8})\Z")
_OTHER = re.compile(r"[^0-9a-z]")


@dataclass(frozen=True, slots=True)
class FileKey:
    """The parts of the key of an attachment."""

    nonce: str
    digest: str
    size: int


def files_prefix(run_id: str) -> str:
    """Return the prefix of all attachments under a run id."""
    return f"{layout.run_prefix(run_id)}x/"


def nonce_prefix(run_id: str, run_nonce: str) -> str:
    """Return the prefix of the attachments of a run."""
    # The nonces of runs that other programs wrote may have other characters.
    nonce = _OTHER.sub("", run_nonce.lower())[:40] or "0"
    return f"{files_prefix(run_id)}{nonce}-"


def file_key(run_id: str, run_nonce: str, digest: str, size: int) -> str:
    """Return the key of an attachment; `digest` begins with `sha256:`."""
    hexadecimal = digest.removeprefix("sha256:")
    return f"{nonce_prefix(run_id, run_nonce)}{hexadecimal}-{size}"


def key_of(run_id: str, run_nonce: str, attachment: Attachment) -> str:
    """Return the key of the attachment that a message refers to."""
    return file_key(run_id, run_nonce, attachment.digest, attachment.size)


def is_file_key(key: str) -> bool:
    """Return whether a key is below the attachments of a run."""
    return key.startswith("runs/") and key.split("/", 3)[2:3] == ["x"]


def parse_file_key(key: str) -> FileKey | None:
    """Return the parts of the key of an attachment, or `None` for another key."""
    match = _NAME.match(key.rsplit("/", 1)[1])
    if match is None or int(match[3]) > MAX_RUN_BYTES:
        return None
    return FileKey(match[1], f"sha256:{match[2]}", int(match[3]))
