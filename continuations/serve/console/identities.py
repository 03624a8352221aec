"""Ready-made identities for `console.app(verify=...)`.

- `local`: the person at this machine, by a token that works once.
- `proxy_jwt`: a person whom a login proxy names in a signed assertion.
- `proxy_header`: a person whom a login proxy names in a plain header.

A function of your own does as well: it takes a `Request` and returns a name, an
`Identity` or `None`.
"""

from __future__ import annotations

from continuations.serve.console.local_identity import LocalIdentity, local
from continuations.serve.console.proxy_header import ProxyHeader, proxy_header
from continuations.serve.console.proxy_jwt import ProxyJwt, proxy_jwt

__all__ = [
    "LocalIdentity",
    "ProxyHeader",
    "ProxyJwt",
    "local",
    "proxy_header",
    "proxy_jwt",
]
