"""Ready-made identities for `console.app(verify=...)`.

- `local`: the person at this machine, by a token that works once.
- `proxy_jwt`: a person whom a login proxy names in a signed assertion.
- `proxy_header`: a person whom a login proxy names in a plain header.

A function of your own does as well: it takes a `Request` and returns a name, an
`Identity` or `None`.
"""

from __future__ import annotations

from continuations.serve.console.local_identity import LocalIdentity, local

__all__ = ["LocalIdentity", "local"]
