"""The check of an endpoint URL."""

from __future__ import annotations

from urllib.parse import urlsplit

__all__ = ["check_endpoint"]


def check_endpoint(endpoint: str | None) -> None:
    """Raise ValueError for an endpoint with a password: errors quote the endpoint."""
    if endpoint is not None and "@" in urlsplit(endpoint).netloc:
        raise ValueError("endpoint must not contain a user name or password")
