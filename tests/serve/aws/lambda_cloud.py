"""An AWS account for one test: S3 and SQS from ministack, and functions.

A function is a process with the runtime client of AWS (`examples.local_cloud`). Each
event has a new process, unless a test keeps one.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from examples import local_cloud
from tests import effect_log
from tests.python_path import python_path
from tests.scripts import Script

ROOT = Path(__file__).parents[3]
BUCKET = "continuations"
HANDLER = "tests.serve.aws.deployed_handler.handle"
REPORTING_HANDLER = "tests.serve.aws.deployed_handler.handle_and_report"


def make_bucket(url: str) -> None:
    """Create the bucket; the emulator needs no signature."""
    request = urllib.request.Request(f"{url}/{BUCKET}", method="PUT")  # noqa: S310
    urllib.request.urlopen(request).close()  # noqa: S310 -- our own loopback


@dataclass(frozen=True)
class LambdaTestCloud:
    """One store, one queue, the functions that use them, and their effect logs."""

    url: str
    folder: Path
    queue: str = ""
    settings: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def store(self) -> str:
        """The URL of the store."""
        return f"s3://{BUCKET}/{self.folder.name}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of a function."""
        return {
            "PYTHONPATH": python_path(ROOT, ROOT / "storage"),
            "AWS_ENDPOINT_URL": self.url,
            "STORE": self.store,
            "TEST_FOLDER": str(self.folder),
            effect_log.EFFECTS_VARIABLE: str(self.folder / "effects"),
            effect_log.TURNS_VARIABLE: str(self.folder / "turns"),
            **self.settings,
        }

    def with_settings(
        self, *, script: Script | None = None, **settings: str
    ) -> LambdaTestCloud:
        """Return the same account with other settings of the functions."""
        if script is not None:
            settings["TEST_SCRIPT"] = json.dumps(script)
        return LambdaTestCloud(
            self.url, self.folder, self.queue, {**self.settings, **settings}
        )

    # Functions ---------------------------------------------------------------

    def start_environment(
        self, handler: str = HANDLER, **more: Any
    ) -> local_cloud.ExecutionEnvironment:
        """Return a cold execution environment."""
        return local_cloud.ExecutionEnvironment(
            handler, folder=self.folder, environment=self.environment, **more
        )

    def invoke(self, event: object, **more: Any) -> Any:
        """Process one event in a cold function; return its result."""
        with self.start_environment(**more) as environment:
            environment.send_event(event)
            return environment.result()

    def http_request(
        self, method: str, path: str, body: object = None, *, who: str = "kim"
    ) -> tuple[int, Any]:
        """Send a request to a cold function; return the status and the body."""
        event = local_cloud.url_event(method, path, body, **{"x-who": who})
        response = self.invoke(event)
        return response["statusCode"], json.loads(response["body"])

    def start(self, run_id: str = "r-1") -> list[dict[str, Any]]:
        """Start a run with the task "go" over HTTP; return its waits."""
        status, outcome = self.http_request(
            "POST", "/runs", {"input": "go", "run_id": run_id}
        )
        assert 200 == status, outcome
        waits: list[dict[str, Any]] = outcome["waits"]
        return waits

    def approve(self, wait: dict[str, Any]) -> tuple[int, Any]:
        """Approve a wait over HTTP."""
        return self.decide(wait, {"decision": "approve"})

    def decide(self, wait: dict[str, Any], body: object) -> tuple[int, Any]:
        """Decide a wait over HTTP."""
        return self.http_request("POST", f"/waits/{wait['id']}/decision", body)

    # The queue ---------------------------------------------------------------

    def with_queue(self) -> LambdaTestCloud:
        """Return the same account with a queue, from which runs are resumed."""
        response = self._sqs("CreateQueue", QueueName=self.folder.name)
        url: str = response["QueueUrl"].replace("http://localhost", "http://127.0.0.1")
        wake = {"WAKE": f"sqs:{url}"}
        return LambdaTestCloud(self.url, self.folder, url, {**self.settings, **wake})

    def receive_messages(self) -> list[str]:
        """Receive and delete all messages of the queue."""
        response = self._sqs("ReceiveMessage", MaxNumberOfMessages=10)
        messages = response.get("Messages", [])
        for message in messages:
            self._sqs("DeleteMessage", ReceiptHandle=message["ReceiptHandle"])
        return [message["Body"] for message in messages]

    def _sqs(self, action: str, **fields: Any) -> dict[str, Any]:
        if self.queue:
            fields["QueueUrl"] = self.queue
        request = urllib.request.Request(  # noqa: S310 -- our own loopback
            self.url,
            data=json.dumps(fields).encode(),
            headers={
                "content-type": "application/x-amz-json-1.0",
                "x-amz-target": f"AmazonSQS.{action}",
            },
        )
        with urllib.request.urlopen(request) as response:  # noqa: S310
            result: dict[str, Any] = json.loads(response.read() or b"{}")
            return result

    # Results -----------------------------------------------------------

    def effects(self) -> list[str]:
        """Return the effects of the tools, in order."""
        lines = effect_log.read_lines(self.folder / "effects")
        return [f"{line['tool']} {line['what']}" for line in lines]

    def turns(self) -> list[tuple[str, int]]:
        """Return the turns of the models, in order."""
        lines = effect_log.read_lines(self.folder / "turns")
        return [(line["task"], line["turn"]) for line in lines]

    def worker_pids(self) -> list[int]:
        """Return the process of each effect, in order."""
        return [line["pid"] for line in effect_log.read_lines(self.folder / "effects")]

    def log(self) -> str:
        """Return the log of all functions."""
        return (self.folder / "continuations.log").read_text()


# The API of Lambda ---------------------------------------------------------------


class InvocationApi:
    """Record asynchronous invocations, like the API of Lambda."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str, Any]] = []
        self._server = _Server(("127.0.0.1", 0), _InvocationHandler)
        self._server.invocations = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def serve(self) -> None:
        """Serve until `close`."""
        self._server.serve_forever(0.01)

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    invocations: InvocationApi


class _InvocationHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        size = int(self.headers["content-length"])
        function = unquote(self.path.split("/")[3])
        kind = self.headers["x-amz-invocation-type"]
        event = json.loads(self.rfile.read(size))
        assert isinstance(self.server, _Server)
        self.server.invocations.received.append((function, kind, event))
        self.send_response(202)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        """Log nothing."""


@contextmanager
def serve_invocation_api() -> Generator[InvocationApi]:
    """Serve the API of Lambda."""
    api = InvocationApi()
    threading.Thread(target=api.serve, daemon=True).start()
    try:
        yield api
    finally:
        api.close()
