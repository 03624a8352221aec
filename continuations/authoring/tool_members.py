"""Recognize a tool by the members of `ToolProtocol`."""

from __future__ import annotations

import inspect
from typing import TypeGuard

from continuations.authoring.tool_declaration import ToolDeclaration
from continuations.authoring.tool_protocol import ToolProtocol

_MISSING = object()
_MEMBERS = tuple(
    name
    for part in (ToolDeclaration, ToolProtocol)
    for name in vars(part)
    if not name.startswith("_")
)


def is_tool(value: object) -> TypeGuard[ToolProtocol]:
    """Return whether a value has every member of the protocol."""
    # Not `isinstance` with a runtime-checkable protocol: before Python 3.12,
    # `isinstance` reads every property. It would import pydantic and build each schema.
    return not isinstance(value, type) and all(
        inspect.getattr_static(value, name, _MISSING) is not _MISSING
        for name in _MEMBERS
    )
