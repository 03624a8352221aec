"""Read files for an agent: the option `--file`, and the command `/file` of a chat."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuations.cli.errors import UsageError

if TYPE_CHECKING:
    from continuations.core.attachments import Content


def input_with_files(text: str, paths: list[str]) -> Any:
    """Return a text, or a text and attachments.

    The ending of a name tells the media type. Raises `UsageError` for a file that
    cannot be read, and `InvalidInput` for an empty one.
    """
    return [text, *(read_file("--file", path) for path in paths)] if paths else text


def read_file(option: str, name: str) -> Content:
    """Return a file as an attachment.

    Args:
        option: The option or command that named the file, for errors.
        name: The path of the file.

    Returns:
        The attachment. Only the last part of the path is its name.

    Raises:
        UsageError: The file cannot be read, or is larger than a run can have.
        InvalidInput: The file is empty, or its name is not valid.
    """
    from continuations.core.attachment_parts import MAX_RUN_BYTES  # noqa: PLC0415 - few inputs have a file
    from continuations.core.attachments import make_content  # noqa: PLC0415

    path = Path(name).expanduser()
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= MAX_RUN_BYTES else b""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "the path is not valid"
        msg = (
            f"{option} {name!r} cannot be read: {reason}. Pass the path of a file that "
            "this user may read."
        )
        raise UsageError(msg) from None
    if size > MAX_RUN_BYTES:
        msg = (
            f"{option} {name!r} is too large: it has {size} bytes, and all attachments "
            f"of a run have at most {MAX_RUN_BYTES}. Pass a smaller file."
        )
        raise UsageError(msg)
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return make_content(data, media_type, path.name)
