"""Endpoint URLs: their check, and the variables of the environment that name them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_endpoint", "describe_place", "endpoint_of_environment"]

# By scheme; the first one wins. boto3 and obstore read the same ones for S3.
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}


def check_endpoint(endpoint: str | None) -> None:
    """Raise ValueError for an endpoint with a password: errors quote the endpoint."""
    if endpoint is not None and "@" in urlsplit(endpoint).netloc:
        raise ValueError("endpoint must not contain a user name or password")


def endpoint_of_environment(scheme: str = "s3") -> str | None:
    """Return the endpoint that the environment names, or None."""
    names = _VARIABLES.get(scheme, ())
    return next(filter(None, map(os.environ.get, names)), None)


def describe_place(url: str, endpoint: str | None) -> str:
    """Return a bucket's URL and its endpoint for errors, without any credentials."""
    parts = urlsplit(endpoint or "")
    host = parts.netloc.rpartition("@")[2]
    return f"{url} at {parts.scheme}://{host}{parts.path}" if host else url
