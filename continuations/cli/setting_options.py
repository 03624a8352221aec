"""Read the option `--setting NAME=VALUE`."""

from __future__ import annotations

import re
from typing import Any

from continuations.cli.errors import UsageError
from continuations.core import jsontext

# A word needs no quotes: --setting reasoning_effort=low
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9 ._-]*\Z")


def parse_settings(options: list[str]) -> dict[str, Any] | None:
    """Return the settings that the options give; raises `UsageError`."""
    settings: dict[str, Any] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not name or not equals or name in settings:
            msg = (
                f"--setting {name!r} is not valid: it must be NAME=JSON, with another "
                "name for each setting. Pass for example --setting temperature=0."
            )
            raise UsageError(msg)
        settings[name] = _parse_value(name, text)
    return settings or None


def _parse_value(name: str, text: str) -> Any:
    try:
        return jsontext.parse(text)
    except jsontext.NotJson as error:
        if _WORD.match(text):
            return text
        msg = (
            f"--setting {name!r} is not valid: its value is neither JSON nor a word: "
            f"{error}. Quote a text: '{name}=\"...\"'."
        )
        raise UsageError(msg) from None
