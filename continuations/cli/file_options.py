"""Read the option `--file PATH`: images, sounds and files of an input."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import Any

from continuations.cli.errors import UsageError


def input_with_files(text: str, paths: list[str]) -> Any:
    """Return the input of a run: a text, or a text and attachments.

    The ending of a name tells the media type. Raises `UsageError` for a file that
    cannot be read, and `InvalidInput` for an empty one.
    """
    return [text, *map(_content, paths)] if paths else text


def _content(name: str) -> Any:
    from continuations.core.attachments import make_content  # noqa: PLC0415 - few inputs have a file

    path = Path(name)
    try:
        data = path.read_bytes()
    except OSError as error:
        msg = (
            f"--file {name!r} cannot be read: {error.strerror}. Pass the path of a "
            "file that this user may read."
        )
        raise UsageError(msg) from None
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return make_content(data, media_type, path.name)
