"""The HTTP API: `api` without a framework, `asgi` on Starlette, and signed `links`."""
