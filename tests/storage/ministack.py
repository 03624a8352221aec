"""ministack, a local S3 server: started, used, and stopped by its process id."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

__all__ = ["ENVIRONMENT", "make_bucket", "run_server"]

# Credentials of the test server, and no settings of this machine.
ENVIRONMENT: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}

_SECONDS = 20.0


@contextmanager
def run_server(folder: Path) -> Generator[str]:
    """Run the server and yield its URL; its log and files stay in the folder."""
    port = free_port()
    environment = {
        **os.environ,
        "BIND_HOST": "127.0.0.1",  # by default, every address of the machine
        "GATEWAY_PORT": str(port),
        "SERVICES": "s3",
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "LOG_LEVEL": "ERROR",
        "TMPDIR": str(folder),
        "STATE_DIR": str(folder / "state"),
        "S3_DATA_DIR": str(folder / "data"),
    }
    with (folder / "ministack.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "ministack"],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
        try:
            _wait_for_port(server, port, folder)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(5)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def make_bucket(url: str, bucket: str, *, versioned: bool = False) -> None:
    """Make a bucket; ministack needs no signature for this request."""
    _put(f"{url}/{bucket}")
    if versioned:
        status = b"<Status>Enabled</Status>"
        body = b"<VersioningConfiguration>%s</VersioningConfiguration>" % status
        _put(f"{url}/{bucket}?versioning", body)


def _put(url: str, body: bytes = b"") -> None:
    request = urllib.request.Request(url, data=body, method="PUT")  # noqa: S310
    urllib.request.urlopen(request).close()  # noqa: S310 -- our own loopback


def _wait_for_port(server: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    log = (folder / "ministack.log").read_text(errors="replace")
    raise RuntimeError(f"ministack does not answer at {port}: {log[-2000:]}")
