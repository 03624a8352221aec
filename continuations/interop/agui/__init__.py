"""AG-UI 1.0: the conversations of a runner for chat front ends.

    from continuations.interop import agui

    app = agui.app(runner, verify=verify)       # uvicorn module:app

A POST with a `RunAgentInput` is one turn: the answers to the waits that the last turn
ended with, and a new message. The response has the events of the work. The types and
their encoder are those of `ag-ui-protocol` (extra `agui`).
"""

from __future__ import annotations

try:
    from continuations.interop.agui.endpoint import ThreadOf, app
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] == "continuations":
        raise
    msg = (
        f"continuations.interop.agui needs ag-ui-protocol: the package {error.name} is "
        "not installed. Run: pip install "
        "'continuations[agui]'."
    )
    raise ModuleNotFoundError(msg, name=error.name) from None

__all__ = ["ThreadOf", "app"]
