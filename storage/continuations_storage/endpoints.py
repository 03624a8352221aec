"""Where a store over a network is told to go."""

from __future__ import annotations

from urllib.parse import urlsplit

__all__ = ["check_endpoint"]


def check_endpoint(endpoint: str | None) -> None:
    """Refuse one that carries a password: every error would show it."""
    if endpoint is not None and "@" in urlsplit(endpoint).netloc:
        raise ValueError("an endpoint must not carry a user's name and password")
