"""JSON as text: what models, tools and people say is kept exactly as it was said.

Arguments, messages, results and schemas are stored as JSON text, so that integers
of any size, lone surrogates, key order and unknown fields come back equal, and so
that nothing in them is ever more than data. NaN and the infinities are not JSON
(RFC 8259, section 6) and are refused.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, NoReturn


class NotJson(ValueError):
    """A value that JSON text cannot hold, or text that is not JSON."""


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is not a JSON number"
    raise NotJson(msg)


def parse(text: str | bytes) -> Any:
    """Return the value of a JSON text; raises `NotJson`, never `RecursionError`."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except NotJson:
        raise
    except RecursionError:
        msg = "it is nested too deep"
        raise NotJson(msg) from None
    except ValueError as error:
        # Python refuses integers of over 4,300 digits with a plain ValueError.
        raise NotJson(str(error)) from None


def dump(value: object) -> str:
    """Return the compact JSON text of a value, with its keys in their own order.

    These are the settings of the openai client, so that joined texts are the very
    bytes which it would send. Raises `NotJson` for what JSON cannot hold.
    """
    return _dump(value, sort_keys=False)


def canonical(value: object) -> str:
    """Return the one text that stands for a value: sorted keys, no white space."""
    return _dump(value, sort_keys=True)


def _dump(value: object, *, sort_keys: bool) -> str:
    try:
        text = json.dumps(
            value,
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
            sort_keys=sort_keys,
        )
    except RecursionError:
        msg = "it is nested too deep"
        raise NotJson(msg) from None
    except (TypeError, ValueError) as error:
        raise NotJson(str(error)) from None
    _refuse_lossy(value)
    return text


def _refuse_lossy(value: object) -> None:
    # json.dumps turns 1, None and True into string keys without a word, and a
    # tuple into a list; what is stored must come back equal. Comes after dumps,
    # which has proved that the value does not refer to itself.
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            for key in item:
                if not isinstance(key, str):
                    msg = f"the key {key!r} is not a string"
                    raise NotJson(msg)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, tuple):
            msg = "a tuple is not a JSON value"
            raise NotJson(msg)


def digest(*parts: str) -> str:
    """Return the SHA-256 of texts, in hexadecimal; no two lists share one."""
    state = sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()
