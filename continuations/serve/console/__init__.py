"""The web console: what waits, decide it, and look into runs (extra `console`).

    from continuations.serve import console

    app = console.app(runner, verify=verify)     # or verify=console.local()

`continuations ui` starts it on this machine.
"""

from __future__ import annotations

from continuations.serve.console.console_app import app
from continuations.serve.console.identities import local, proxy_header, proxy_jwt

__all__ = ["app", "local", "proxy_header", "proxy_jwt"]
