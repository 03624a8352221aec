"""The context of a trace as W3C Trace Context writes it in headers.

A context is stored and handed on; nothing here knows who records spans.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias, cast

from continuations.errors import InvalidInput

# The headers with their values, sorted by name; empty for no context.
TraceContext: TypeAlias = tuple[tuple[str, str], ...]

# Patterns are texts, because most runs have no context: `re` compiles them when they
# are used.
_PARENT = r"00-(?!0{32}-)[0-9a-f]{32}-(?!0{16}-)[0-9a-f]{16}-[0-9a-f]{2}\Z"
# A list of at most 32 members `key=value`, as the standard limits them. Members may be
# empty.
_KEY = r"[a-z0-9][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z0-9_\-*/]{1,14}"
_VALUE = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_MEMBER = rf"(?:{_KEY})={_VALUE}\Z"
_MAX_MEMBERS = 32


def is_trace_parent(value: object) -> bool:
    """Return whether a value is a `traceparent` header of version 00."""
    return isinstance(value, str) and bool(re.match(_PARENT, value, re.ASCII))


def is_trace_state(value: object) -> bool:
    """Return whether a value is a `tracestate` header."""
    if not isinstance(value, str):
        return False
    members = [each for each in map(_stripped, value.split(",")) if each]
    return 0 < len(members) <= _MAX_MEMBERS and all(
        re.match(_MEMBER, member, re.ASCII) for member in members
    )


def _stripped(member: str) -> str:
    return member.strip(" \t")


# The names of the headers, and their checks.
_CHECKS = {"traceparent": is_trace_parent, "tracestate": is_trace_state}


def is_trace_context(headers: Mapping[str, object]) -> bool:
    """Return whether headers are a context: a parent, and perhaps a state."""
    known = headers.keys() <= _CHECKS.keys() and "traceparent" in headers
    return known and all(_CHECKS[name](value) for name, value in headers.items())


def check_trace_context(context: object) -> TraceContext:
    """Return the context of `trace_context=`; raises `InvalidInput`.

    Args:
        context: The text of a `traceparent` header, or the headers by their names.
            `None` and an empty mapping are no context.
    """
    if context is None:
        return ()
    if isinstance(context, str):
        context = {"traceparent": context}
    if not isinstance(context, Mapping):
        got = type(context).__name__
        msg = f"trace_context must be a dict, a traceparent or None, got {got}. Pass"
        raise InvalidInput(f"{msg} {{'traceparent': '00-...'}}.")
    headers = {
        str(name).lower(): value
        for name, value in cast("Mapping[object, object]", context).items()
    }
    if not headers or is_trace_context(headers):
        return tuple(sorted(cast("dict[str, str]", headers).items()))
    wrong = sorted(
        name
        for name, value in headers.items()
        if name not in _CHECKS or not _CHECKS[name](value)
    )
    why = "traceparent is missing" if not wrong else f"{wrong[0][:40]!r} is not valid"
    raise InvalidInput(
        f"trace_context is not a W3C trace context: {why}. Pass a valid traceparent, "
        "and tracestate only if it is valid, or leave trace_context out."
    )
