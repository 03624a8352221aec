"""A cloud for one test: S3 and SQS by ministack, and cold functions of AWS's client.

The Runtime API that the functions ask is in `examples.local_cloud`: one for each
process, and a fresh process for each event unless a test says otherwise.
"""

from __future__ import annotations

import json
import os
import threading
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from examples import local_cloud
from tests import effect_log

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.scripts import Script

ROOT = Path(__file__).parents[3]
BUCKET = "continuations"
HANDLER = "tests.serve.aws.deployed_handler.handle"
REPORTING_HANDLER = "tests.serve.aws.deployed_handler.handle_and_report"


def make_bucket(url: str) -> None:
    """Make the bucket; a request that needs no signature here."""
    request = urllib.request.Request(f"{url}/{BUCKET}", method="PUT")  # noqa: S310
    urllib.request.urlopen(request).close()  # noqa: S310 -- our own loopback


@dataclass(frozen=True)
class LambdaTestCloud:
    """One store with its ledgers, one queue, and the functions that use them."""

    url: str
    folder: Path
    queue: str = ""
    settings: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def store(self) -> str:
        """The URL of the store, as the functions see it."""
        return f"s3://{BUCKET}/{self.folder.name}"

    @property
    def environment(self) -> dict[str, str]:
        """What a function has in its environment."""
        return {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'storage'}",
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
        """Return the same cloud, with functions that are set up in another way."""
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
        """Have a cold function answer one event, and end it."""
        with self.start_environment(**more) as environment:
            environment.send_event(event)
            return environment.result()

    def http_request(
        self, method: str, path: str, body: object = None, *, who: str = "kim"
    ) -> tuple[int, Any]:
        """Have a cold function answer a request; returns the status and the body."""
        event = local_cloud.url_event(method, path, body, **{"x-who": who})
        answer = self.invoke(event)
        return answer["statusCode"], json.loads(answer["body"])

    def start(self, run_id: str = "r-1") -> list[dict[str, Any]]:
        """Start a run with the task "go", over HTTP; returns what it waits for."""
        status, told = self.http_request(
            "POST", "/runs", {"input": "go", "run_id": run_id}
        )
        assert 200 == status, told
        waits: list[dict[str, Any]] = told["waits"]
        return waits

    def approve(self, wait: dict[str, Any]) -> tuple[int, Any]:
        """Say yes to a wait, over HTTP."""
        return self.decide(wait, {"decision": "approve"})

    def decide(self, wait: dict[str, Any], body: object) -> tuple[int, Any]:
        """Decide a wait, over HTTP."""
        return self.http_request("POST", f"/waits/{wait['id']}/decision", body)

    # The queue ---------------------------------------------------------------

    def with_queue(self) -> LambdaTestCloud:
        """Return the same cloud, with a queue of its own that runs are woken by."""
        answer = self._sqs("CreateQueue", QueueName=self.folder.name)
        url: str = answer["QueueUrl"].replace("http://localhost", "http://127.0.0.1")
        wake = {"WAKE": f"sqs:{url}"}
        return LambdaTestCloud(self.url, self.folder, url, {**self.settings, **wake})

    def receive_messages(self) -> list[str]:
        """Take all messages out of the queue."""
        answer = self._sqs("ReceiveMessage", MaxNumberOfMessages=10)
        found = answer.get("Messages", [])
        for message in found:
            self._sqs("DeleteMessage", ReceiptHandle=message["ReceiptHandle"])
        return [message["Body"] for message in found]

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
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            found: dict[str, Any] = json.loads(answer.read() or b"{}")
            return found

    # What happened -----------------------------------------------------------

    def effects(self) -> list[str]:
        """Return what the tools did, in order."""
        lines = effect_log.read_lines(self.folder / "effects")
        return [f"{line['tool']} {line['what']}" for line in lines]

    def turns(self) -> list[tuple[str, int]]:
        """Return what the model was asked, in order."""
        lines = effect_log.read_lines(self.folder / "turns")
        return [(line["task"], line["turn"]) for line in lines]

    def worker_pids(self) -> list[int]:
        """Return the process of each effect, in order."""
        return [line["pid"] for line in effect_log.read_lines(self.folder / "effects")]

    def log(self) -> str:
        """Return what all functions logged."""
        return (self.folder / "continuations.log").read_text()


# Lambda's own API ---------------------------------------------------------------


class InvocationApi:
    """Takes what is invoked without waiting, as the API of Lambda does."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str, Any]] = []
        self._server = _Server(("127.0.0.1", 0), _InvocationHandler)
        self._server.invocations = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def serve(self) -> None:
        """Answer until `close`."""
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
        """Say nothing."""


@contextmanager
def serve_invocation_api() -> Generator[InvocationApi]:
    """Serve the API of Lambda."""
    api = InvocationApi()
    threading.Thread(target=api.serve, daemon=True).start()
    try:
        yield api
    finally:
        api.close()
