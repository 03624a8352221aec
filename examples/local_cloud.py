"""AWS on loopback: S3 and SQS from ministack, and Lambda functions in cold processes.

An `ExecutionEnvironment` is a process that runs the runtime client of AWS,
`awslambdaric`, which gets its events from a Runtime API. Each process has its own
Runtime API. With one event for each process, nothing survives in memory.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self, cast
from urllib.parse import urlsplit

REGION = "us-east-1"
ACCOUNT = "000000000000"
# Credentials for the emulator; the configuration of this machine is not read.
CREDENTIALS: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
# A process is killed this long after its timeout, in seconds.
KILL_DELAY = 0.2
# The time limit for the start of a process, in seconds.
START_TIMEOUT = 30.0

# The services -------------------------------------------------------------------


@contextmanager
def serving(folder: Path, services: str = "s3,sqs", **settings: str) -> Generator[str]:
    """Run ministack on a free port and yield its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "BIND_HOST": "127.0.0.1",  # the default is every address of the machine
        "GATEWAY_PORT": str(port),
        "SERVICES": services,
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "LOG_LEVEL": "ERROR",
        "TMPDIR": str(folder),
        "STATE_DIR": str(folder / "state"),
        "S3_DATA_DIR": str(folder / "data"),
        **settings,
    }
    with (
        (folder / "ministack.log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-m", "ministack"],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        ) as server,
    ):
        try:
            _wait_for_port(server, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            try:
                server.wait(5)
            except subprocess.TimeoutExpired:
                server.kill()


def _wait_for_port(server: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + 20
    while server.poll() is None and time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.02)
    raise RuntimeError(f"ministack does not listen on port {port}. See its log.")


class RequestCounter:
    """A proxy in front of S3 that counts the billed requests of all processes."""

    def __init__(self, upstream: str) -> None:
        self.counts: Counter[str] = Counter()
        self.connections: set[socket.socket] = set()
        self.upstream = urlsplit(upstream).netloc
        self._server = _Server.running(_CountingProxy, self)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close_connections(self) -> None:
        """Close every connection, like a server after an idle timeout."""
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop the server."""
        self._server.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    owner: Any

    @classmethod
    def running(cls, kind: type[BaseHTTPRequestHandler], owner: object) -> Self:
        """Return a running server on a free loopback port."""
        server = cls(("127.0.0.1", 0), kind)
        server.owner = owner
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server

    def close(self) -> None:
        """Stop the server."""
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of killed clients."""


class _QuietHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def owner(self) -> Any:
        """The object that the server belongs to."""
        return cast("_Server", self.server).owner

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        """Log nothing."""

    def body(self) -> bytes:
        """Return the body of the request."""
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def reply(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a response."""
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class _CountingProxy(_QuietHandler):
    def setup(self) -> None:
        super().setup()
        self.owner.connections.add(self.connection)

    def _forward(self) -> None:
        listing = self.command == "GET" and "list-type=2" in self.path
        self.owner.counts["LIST" if listing else self.command] += 1
        request_body = self.body()
        with closing(http.client.HTTPConnection(self.owner.upstream)) as ahead:
            ahead.request(
                self.command, self.path, request_body, dict(self.headers.items())
            )
            response = ahead.getresponse()
            body = response.read()
        headers = {name.lower(): value for name, value in response.getheaders()}
        headers.pop("transfer-encoding", None)
        if self.command != "HEAD":
            headers["content-length"] = str(len(body))
        self.reply(response.status, body, headers)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _forward  # noqa: N815


# The functions ------------------------------------------------------------------


class FunctionError(Exception):
    """The function raised an error; `error_type` is the name of its class."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(f"{error_type}: {message}")
        self.error_type = error_type


class FunctionTimedOut(Exception):
    """The function did not respond before its timeout, and was killed."""


class ExecutionEnvironment:
    """One execution environment: a cold process that handles one event at a time."""

    def __init__(
        self,
        handler: str,
        *,
        folder: Path,
        environment: Mapping[str, str],
        timeout: float = 30.0,
        name: str = "continuations",
    ) -> None:
        self.timeout = timeout
        self.deadline = 0.0
        self.arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"
        self.events: SimpleQueue[tuple[str, bytes]] = SimpleQueue()
        self.results: SimpleQueue[tuple[str, bytes]] = SimpleQueue()
        self._server = _Server.running(_RuntimeApi, self)
        self._log = (folder / f"{name}.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "awslambdaric", handler],
            cwd=folder,
            env={
                **CREDENTIALS,
                "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._server.server_port}",
                "AWS_LAMBDA_FUNCTION_NAME": name,
                "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
                "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
                "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{name}",
                "AWS_LAMBDA_LOG_STREAM_NAME": "local",
                **environment,
            },
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send_event(self, event: object, *, request_id: str = "") -> None:
        """Send an event to the process."""
        self.deadline = time.time() + START_TIMEOUT
        self.events.put((request_id or str(uuid.uuid4()), _json_bytes(event)))

    def start_timeout(self) -> float:
        """Start the timeout of the event; as in Lambda, the start does not count."""
        self.deadline = time.time() + self.timeout
        return self.deadline

    def result(self) -> Any:
        """Wait for the result; raise `FunctionError` or `FunctionTimedOut`."""
        while time.time() < self.deadline + KILL_DELAY and self.process.poll() is None:
            with suppress(Empty):
                kind, body = self.results.get(timeout=0.05)
                value = json.loads(body)
                if kind != "response":
                    raise FunctionError(value["errorType"], value["errorMessage"])
                return value
        code = self.process.poll()
        if code is not None:
            raise FunctionError("Runtime.ExitError", f"the process ended with {code}")
        self.process.kill()
        raise FunctionTimedOut(f"after {self.timeout} s")

    def freeze(self) -> None:
        """Freeze the process, as Lambda does between two events."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue the process."""
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill the process, as Lambda does."""
        self.process.kill()
        self.process.wait()
        self._server.close()
        self._log.close()


class _RuntimeApi(_QuietHandler):
    """https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html"""

    def do_GET(self) -> None:
        # The runtime client waits here for the next event, as in Lambda.
        request_id, event = self.owner.events.get()
        headers = {
            "lambda-runtime-aws-request-id": request_id,
            "lambda-runtime-deadline-ms": str(int(self.owner.start_timeout() * 1000)),
            "lambda-runtime-invoked-function-arn": self.owner.arn,
            "content-type": "application/json",
            "content-length": str(len(event)),
        }
        self.reply(200, event, headers)

    def do_POST(self) -> None:
        body = self.body()
        self.reply(202, b"", {"content-length": "0"})
        self.owner.results.put((self.path.rsplit("/", 1)[-1], body))


def invoke(handler: str, event: object, *, folder: Path, **settings: Any) -> Any:
    """Process one event in a cold process."""
    with ExecutionEnvironment(handler, folder=folder, **settings) as environment:
        environment.send_event(event)
        return environment.result()


def _json_bytes(value: object) -> bytes:
    return json.dumps(value).encode()


# Events -----------------------------------------------------------------------------


def url_event(
    method: str, path: str, body: object = None, **headers: str
) -> dict[str, Any]:
    """Return the event of a request to a Function URL (payload 2.0)."""
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json", **headers},
        "requestContext": {
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1"},
            "stage": "$default",
        },
        "body": None if body is None else json.dumps(body),
        "isBase64Encoded": False,
    }


def queue_event(*bodies: str) -> dict[str, Any]:
    """Return the event of messages in an SQS queue."""
    return {
        "Records": [
            {
                "messageId": f"m-{number}",
                "receiptHandle": "r",
                "body": body,
                "attributes": {"ApproximateReceiveCount": "1"},
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:wakes",
                "awsRegion": REGION,
            }
            for number, body in enumerate(bodies)
        ]
    }
