"""A Responses API on loopback that replies from a script.

It refuses the requests that the API refuses, by the rules in
`tests/models/responses_api.py`, and keeps every request as it came, byte for byte:

    with ResponsesServer([response(text("Hello."))]) as server:
        model = OpenAIResponses("gpt-5-mini", base_url=server.url, api_key=server.key)

As a process it prints its URL: `python tests/responses_server.py --script f.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self, TypeAlias, cast

# If it runs as a file, Python looks for modules only in the folder of the file.
sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.local_server import LocalHandler, LocalServer
from tests.models.chat_api import RequestRejected, parse_body
from tests.models.responses_api import check_responses_request

# A reply is a response object, or `{"raw": …}` (a text), or `{"status_code": …,
# "body": …}`, or `{"events": […]}`, or `{"raw_events": …}`. After `{"cut_events": […]}`
# the connection ends in the middle of the body. A rule gets the request.
Reply: TypeAlias = Mapping[str, Any]
Rule: TypeAlias = Callable[[Mapping[str, Any]], Reply]


def text(content: str, **fields: Any) -> dict[str, Any]:
    """Return the output item of a message."""
    annotations: list[Any] = []
    part = {"type": "output_text", "text": content, "annotations": annotations}
    message = {"type": "message", "id": "msg_1", "status": "completed"}
    return {**message, "role": "assistant", "content": [part], **fields}


def call(name: str, arguments: str = "{}", call_id: str = "call_1") -> dict[str, Any]:
    """Return the output item of a function call."""
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def reasoning(encrypted: str = "gAAA+/=", **fields: Any) -> dict[str, Any]:
    """Return the output item of encrypted reasoning."""
    summary = [{"type": "summary_text", "text": "I look it up."}]
    item = {"type": "reasoning", "id": "rs_1", "summary": summary}
    return {**item, "encrypted_content": encrypted, **fields}


def response(*items: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a response object as the API sends it."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_750_000_000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "gpt-5-mini",
        "output": list(items),
        "usage": {
            "input_tokens": 30,
            "input_tokens_details": {"cached_tokens": 20},
            "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 4},
            "total_tokens": 39,
        },
        **fields,
    }


def dump(value: object) -> str:
    """Return the JSON text that the server sends."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def turn_of(request: Mapping[str, Any]) -> int:
    """Return the number of replies that the input of a request contains.

    The items of one reply lie side by side.
    """
    is_output = [
        item.get("role") == "assistant"
        or item.get("type") in ("function_call", "custom_tool_call")
        for item in request["input"]
    ]
    pairs = zip(is_output, [*is_output[1:], False], strict=True)
    return sum(here and not following for here, following in pairs)


class ResponsesServer:
    """The server.

    Attributes:
        url: The base URL; it ends with `/v1`.
        key: The API key that the server accepts.
        bodies: The bodies of all requests to `/responses`, as they came.
        requests: The same as objects.
        paths: Method and path of every request, in order.
        stored: The responses and batches that GET returns, by their id.
        files: The files by their id.
    """

    def __init__(
        self,
        script: Sequence[Reply] | Rule,
        *,
        log: Path | None = None,
        key: str = "sk-test",
    ) -> None:
        self.key = key
        self.bodies: list[bytes] = []
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.stored: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}
        self._rule = script if callable(script) else _rule_of(script)
        self._log = log
        self._lock = threading.Lock()
        self._server = _Server(0, self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def respond(
        self, method: str, path: str, key: str, body: bytes
    ) -> tuple[int, str, str | bytes]:
        """Return status, content type and body of the response to a request."""
        path = path.removeprefix("/v1").partition("?")[0]
        with self._lock:
            self.paths.append(f"{method} {path}")
        try:
            self._check_key(key)
            if method == "GET":
                return self._stored(path)
            if path == "/files":
                return self._keep_file(body)
            request = parse_body(body)
            if path == "/batches":
                return self._make_batch(request)
            return self._reply(request, body)
        except RequestRejected as rejected:
            return _json(rejected.status, {"error": rejected.error})

    def _check_key(self, key: str) -> None:
        if key != f"Bearer {self.key}":
            text = f"Incorrect API key provided: {key[7:15]}***."
            raise RequestRejected(text, code="invalid_api_key", status=401)

    def _reply(
        self, request: dict[str, Any], body: bytes
    ) -> tuple[int, str, str | bytes]:
        with self._lock:
            self.bodies.append(body)
            self.requests.append(request)
            if self._log is not None:
                with self._log.open("ab") as file:
                    file.write(body + b"\n")
        check_responses_request(request)
        reply = self._rule(request)
        if (special := _special(reply)) is not None:
            return special
        if "cut_events" in reply:
            return 0, "text/event-stream", _event_text(reply["cut_events"])
        if "events" in reply:
            return 200, "text/event-stream", _event_text(reply["events"])
        if request.get("background"):
            stored = {**reply, "metadata": request.get("metadata")}
            self.stored.setdefault(reply["id"], stored)
        if request.get("stream"):
            return 200, "text/event-stream", _event_text(events_of(reply))
        return _json(200, reply)

    def _stored(self, path: str) -> tuple[int, str, str | bytes]:
        parts = path.split("/")
        if parts[1] == "files":
            return 200, "application/octet-stream", self.files[parts[2]]
        found = self.stored.get(parts[2])
        if found is None:
            text = f"Response with id '{parts[2]}' not found."
            raise RequestRejected(text, status=404)
        return _special(found) or _json(200, found)

    def _keep_file(self, body: bytes) -> tuple[int, str, str | bytes]:
        file_id = f"file-{len(self.files)}"
        boundary = body.split(b"\r\n", 1)[0]
        parts = [part for part in body.split(boundary) if b"filename=" in part]
        self.files[file_id] = parts[0].split(b"\r\n\r\n", 1)[1]
        file = {"id": file_id, "object": "file", "purpose": "batch", "bytes": 1}
        return _json(200, {**file, "created_at": 1, "filename": "f", "status": "ok"})

    def _make_batch(self, request: dict[str, Any]) -> tuple[int, str, str | bytes]:
        batch = {
            "id": "batch_1",
            "object": "batch",
            "endpoint": request["endpoint"],
            "input_file_id": request["input_file_id"],
            "completion_window": request["completion_window"],
            "created_at": 1,
            "status": "validating",
            "metadata": request.get("metadata"),
        }
        line = json.loads(self.files[request["input_file_id"]].strip(b"\r\n-"))
        check_responses_request(line["body"])
        self.requests.append(line["body"])
        self.stored.setdefault("batch_1", batch)
        return _json(200, batch)


def finished_batch(server: ResponsesServer, line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the batch of a server as completed, with one line of output."""
    server.files["file-out"] = dump(line).encode() + b"\n"
    batch = {**server.stored["batch_1"], "status": "completed"}
    return {**batch, "output_file_id": "file-out"}


def events_of(final: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a stream that ends with a response."""
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**final, "output": []}}
    ]
    for item in final["output"]:
        for part in item.get("summary", ()):
            kind = "response.reasoning_summary_part.added"
            events.append({"type": kind, "part": {**part, "text": ""}})
            kind = "response.reasoning_summary_text.delta"
            events += [{"type": kind, "delta": word} for word in _halves(part["text"])]
        for part in item.get("content", ()):
            kind = "response.output_text.delta"
            events += [{"type": kind, "delta": word} for word in _halves(part["text"])]
        events.append({"type": "response.output_item.done", "item": item})
    status = final.get("status", "completed")
    return [*events, {"type": f"response.{status}", "response": final}]


def _halves(content: str) -> list[str]:
    middle = len(content) // 2
    return [part for part in (content[:middle], content[middle:]) if part]


def _special(reply: Reply) -> tuple[int, str, str | bytes] | None:
    """Return a response that is no response object, or `None`."""
    if "raw" in reply:
        return 200, "application/json", reply["raw"]
    if "raw_events" in reply:
        return 200, "text/event-stream", reply["raw_events"]
    if "status_code" in reply:
        return _json(reply["status_code"], reply["body"])
    return None


def _event_text(events: Sequence[Mapping[str, Any]]) -> str:
    return "".join(f"event: message\ndata: {dump(event)}\n\n" for event in events)


def _json(status: int, value: object) -> tuple[int, str, str | bytes]:
    return status, "application/json", dump(value)


def _rule_of(script: Sequence[Reply]) -> Rule:
    def rule(request: Mapping[str, Any]) -> Reply:
        return script[turn_of(request)]

    return rule


class _Server(LocalServer):
    def __init__(self, port: int, api: ResponsesServer) -> None:
        super().__init__(port, _Handler)
        self.api = api


class _Handler(LocalHandler, BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._respond("GET")

    def do_POST(self) -> None:
        self._respond("POST")

    def _respond(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.headers.get("authorization", "")
        server = cast("_Server", self.server)
        status, kind, content = server.api.respond(method, self.path, key, body)
        data = content.encode() if isinstance(content, str) else content
        is_cut = status == 0
        self.close_connection = is_cut
        self.send_response(200 if is_cut else status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data) + is_cut))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Print nothing: `ResponsesServer.paths` has the records."""


def main() -> None:
    """Serve a script file until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    script = json.loads(options.script.read_text("utf-8"))
    with ResponsesServer(script, log=options.log) as server:
        print(server.url, flush=True)  # noqa: T201 - the caller reads the URL
        sys.stdin.read()


if __name__ == "__main__":
    main()
