"""Azurite, Azure's own emulator of its Blob storage, for who has it on the path."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from email.utils import formatdate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

__all__ = ["ACCOUNT", "KEY", "make_container", "serving"]

# Of every Azurite in the world: learn.microsoft.com, "Use the Azurite emulator".
ACCOUNT = "devstoreaccount1"
KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq"
    "/K1SZFPTOtr/KBHBeksoGMGw=="
)

_VERSION = "2021-08-06"
_SECONDS = 20.0


@contextmanager
def serving(folder: Path) -> Generator[str]:
    """Run the server and tell its endpoint; bodies stay in its memory."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = [
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--inMemoryPersistence",
    ]
    quiet = ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    server = subprocess.Popen(
        ["azurite-blob", *place, *quiet],  # noqa: S607 -- wherever npm put it
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    try:
        _await(port)
        yield f"http://127.0.0.1:{port}/{ACCOUNT}"
    finally:
        server.terminate()
        server.wait(10)


def make_container(endpoint: str, name: str) -> None:
    """Make a container; the request is signed by hand, it is only one."""
    date = formatdate(usegmt=True)
    resource = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    stamps = f"x-ms-date:{date}\nx-ms-version:{_VERSION}"
    text = f"PUT{chr(10) * 12}{stamps}\n{resource}"
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    signature = base64.b64encode(digest).decode()
    headers = {
        "x-ms-date": date,
        "x-ms-version": _VERSION,
        "Authorization": f"SharedKey {ACCOUNT}:{signature}",
        "Content-Length": "0",
    }
    url = f"{endpoint}/{name}?restype=container"
    request = urllib.request.Request(url, method="PUT", headers=headers)  # noqa: S310
    urllib.request.urlopen(request).close()  # noqa: S310 -- our own loopback


def _await(port: int) -> None:
    until = time.monotonic() + _SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return
