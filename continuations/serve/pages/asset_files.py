"""The files that pages load: the style sheet and scripts, under their hashes."""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from typing import Any

# The loader reads from a wheel too. `pkgutil` would load three more modules.
_LOADER: Any = globals()["__loader__"]
_FOLDER = os.path.join(os.path.dirname(__file__), "assets")  # noqa: PTH118, PTH120 - pathlib is 2 ms cold
STYLE_SHEET = "console.css"
_MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


@cache
def read_asset(name: str) -> bytes:
    """Return the bytes of an asset; raise `OSError` if there is no such file."""
    extension = name.rpartition(".")[2]
    if "/" in name or "\\" in name or extension not in _MEDIA_TYPES:
        msg = f"{name!r} is not an asset"
        raise FileNotFoundError(msg)
    data: bytes = _LOADER.get_data(os.path.join(_FOLDER, name))  # noqa: PTH118 - as above
    return data


@cache
def asset_path(name: str) -> str:
    """Return the path of an asset below the root of the console.

    The path contains a hash of the bytes, so clients may keep the file forever.
    """
    digest = sha256(read_asset(name)).hexdigest()
    return f"/assets/{digest[:16]}/{name}"


def media_type(name: str) -> str:
    """Return the media type of an asset."""
    return _MEDIA_TYPES[name.rpartition(".")[2]]


def style_text() -> str:
    """Return the style sheet, for pages that contain it."""
    return read_asset(STYLE_SHEET).decode()
