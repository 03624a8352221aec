"""The Model Context Protocol: agents as tools of an MCP server, and its client.

The names are imported when they are first used, because they load the package `mcp`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from continuations.interop.mcp.client import McpTools
    from continuations.interop.mcp.server import McpServer, mcp_server

_MODULE_BY_NAME = {"McpServer": "server", "McpTools": "client", "mcp_server": "server"}

__all__ = ["McpServer", "McpTools", "mcp_server"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    module = _MODULE_BY_NAME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
