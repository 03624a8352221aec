"""AWS on loopback: S3 and SQS by ministack, and functions in cold processes.

A `Function` is what AWS Lambda makes of a handler: a process that runs AWS's own
runtime client, `awslambdaric`, and asks a Runtime API for its next event. Here each
process has a Runtime API of its own and, unless it is kept, one event: whatever it
leaves behind in memory is gone with it.
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
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import urlsplit

REGION = "us-east-1"
ACCOUNT = "000000000000"
# What a process needs to be let in; nothing of this machine's own is looked at.
CREDENTIALS: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
# A process is stopped this long after its time is up, as Lambda does.
KILL_DELAY = 0.2
# How long a process may take until it asks for its first event.
START_TIMEOUT = 30.0

# The services -------------------------------------------------------------------


@contextmanager
def serving(folder: Path, services: str = "s3,sqs", **settings: str) -> Generator[str]:
    """Run ministack on a free port and tell its URL; stopped by its process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "BIND_HOST": "127.0.0.1",  # without it every address of the machine
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
    raise RuntimeError(f"ministack does not answer at port {port}: see its log")


class RequestCounter:
    """Stands before S3 and counts the requests of all processes, as they are billed."""

    def __init__(self, upstream: str) -> None:
        self.counts: Counter[str] = Counter()
        self.connections: set[socket.socket] = set()
        self.upstream = urlsplit(upstream).netloc
        self._server = _Server.running(_CountingProxy, self)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close_connections(self) -> None:
        """Close every connection, as a server does that hears nothing for long."""
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop."""
        self._server.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    owner: Any

    @classmethod
    def running(cls, kind: type[BaseHTTPRequestHandler], owner: object) -> Self:
        """Serve on a free port of this machine."""
        server = cls(("127.0.0.1", 0), kind)
        server.owner = owner
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server

    def close(self) -> None:
        """Stop."""
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that were killed."""


class _QuietHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def owner(self) -> Any:
        """What it answers for."""
        return cast("_Server", self.server).owner

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        """Say nothing: standard output is for what happens."""

    def body(self) -> bytes:
        """Return what was sent."""
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def reply(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Answer."""
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
        sent = self.body()
        with closing(http.client.HTTPConnection(self.owner.upstream)) as ahead:
            ahead.request(self.command, self.path, sent, dict(self.headers.items()))
            answer = ahead.getresponse()
            body = answer.read()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        headers.pop("transfer-encoding", None)
        if self.command != "HEAD":
            headers["content-length"] = str(len(body))
        self.reply(answer.status, body, headers)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _forward  # noqa: N815


# The functions ------------------------------------------------------------------


class FunctionError(Exception):
    """The function raised; `kind` is the name of the error's class."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.error_type = kind


class FunctionTimedOut(Exception):
    """The function did not answer in its time, and was killed."""


class ExecutionEnvironment:
    """One execution environment: a cold process that answers one event at a time."""

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def send_event(self, event: object, *, request_id: str = "") -> None:
        """Hand it an event."""
        self.deadline = time.time() + START_TIMEOUT
        self.events.put((request_id or str(uuid.uuid4()), _json_bytes(event)))

    def start_timeout(self) -> float:
        """Begin to count: the time to start does not, as in Lambda."""
        self.deadline = time.time() + self.timeout
        return self.deadline

    def result(self) -> Any:
        """Wait for what it answers; raises `FunctionError` and `FunctionTimedOut`."""
        while time.time() < self.deadline + KILL_DELAY and self.process.poll() is None:
            with suppress(Empty):
                verdict, body = self.results.get(timeout=0.05)
                value = json.loads(body)
                if verdict != "response":
                    raise FunctionError(value["errorType"], value["errorMessage"])
                return value
        code = self.process.poll()
        if code is not None:
            raise FunctionError("Runtime.ExitError", f"the process ended with {code}")
        self.process.kill()
        raise FunctionTimedOut(f"after {self.timeout} s")

    def freeze(self) -> None:
        """Stop it in its tracks, as Lambda does between two events."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it without a word, as Lambda does."""
        self.process.kill()
        self.process.wait()
        self._server.close()
        self._log.close()


class _RuntimeApi(_QuietHandler):
    """https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html"""

    def do_GET(self) -> None:
        # The client waits here as long as there is nothing to do, as in Lambda.
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
    """Have a cold process answer one event, and end it."""
    with ExecutionEnvironment(handler, folder=folder, **settings) as environment:
        environment.send_event(event)
        return environment.result()


def _json_bytes(value: object) -> bytes:
    return json.dumps(value).encode()


# What AWS makes of a request, a message and a schedule ----------------------------


def url_event(
    method: str, path: str, body: object = None, **headers: str
) -> dict[str, Any]:
    """Return what a Function URL makes of a request (payload 2.0)."""
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
    """Return what Lambda makes of messages in a queue."""
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
