"""Read a grant that is given with an approval from its JSON form."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from continuations.core import jsontext
from continuations.core.grants import Grant
from continuations.errors import InvalidInput

_FIELDS = frozenset({"tool", "arguments", "until"})


class GrantInvalid(ValueError):
    """A JSON value is no grant; the text says why."""


def parse_grant(value: object) -> Grant:
    """Return the grant of a JSON value (`grant`); raises `GrantInvalid`."""
    fields = jsontext.as_object(value)
    if fields is None or not fields.keys() <= _FIELDS:
        msg = 'it must be an object with "tool", and perhaps "arguments" and "until"'
        raise GrantInvalid(msg)
    until: Any = fields.get("until")
    tool: Any = fields.get("tool", "")
    try:
        if isinstance(until, str):
            until = datetime.fromisoformat(until)
        return Grant(tool, fields.get("arguments"), until)
    except InvalidInput as error:
        raise GrantInvalid(str(error).removesuffix(".")) from None
    except ValueError:
        msg = '"until" must be a time with a time zone, such as 2027-01-01T00:00:00Z'
        raise GrantInvalid(msg) from None
