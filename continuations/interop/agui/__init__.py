"""AG-UI 1.0: the conversations of a runner for chat front ends.

    from continuations.interop import agui

    app = agui.app(runner, verify=verify)       # uvicorn module:app

A POST with a `RunAgentInput` is one turn: the answers to the waits that the last turn
ended with, and a new message. The response has the events of the work. The types and
their encoder are those of `ag-ui-protocol` (extra `agui`).
"""

from __future__ import annotations

from continuations.interop import missing_package

try:
    from continuations.interop.agui.endpoint import ThreadOf, app
except ImportError as error:
    raise missing_package("agui", "'ag-ui-protocol>=1.0,<2' starlette", error) from None

__all__ = ["ThreadOf", "app"]
