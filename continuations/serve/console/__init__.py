"""The web console: what waits, decide it, and look into runs (extra `console`).

    from continuations.serve import console

    app = console.app(runner, verify=verify)     # or verify=console.local()

`continuations ui` starts it on this machine. In AWS Lambda, it is an option of the
handler: `continuations.serve.aws.lambda_console`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.serve.console.identities import local, proxy_header, proxy_jwt

if TYPE_CHECKING:
    from continuations.serve.console.console_app import app

__all__ = ["app", "local", "proxy_header", "proxy_jwt"]


def __getattr__(name: str) -> Any:
    """Load the web framework with `app`: a function in AWS Lambda needs none."""
    if name != "app":
        msg = f"module 'continuations.serve.console' has no attribute {name!r}"
        raise AttributeError(msg)
    from continuations.serve.console.console_app import app  # noqa: PLC0415 - see above

    globals()["app"] = app
    return app
