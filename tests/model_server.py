"""A chat completions API on loopback that answers from a script.

It is a real HTTP server, so that other processes can use it, and it refuses what the
API refuses by rules of its own (`tests/models/chat_api.py`). In a test:

    with ModelServer({"You are hr": [{"content": "Hello."}]}) as server:
        model = OpenAIChat("gpt-5-mini", base_url=server.url, api_key=server.key)

As a process it prints its URL: `python tests/model_server.py --script f.json`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SHUT_RDWR
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any, TypeAlias, cast

# Run as a file, Python looks for modules beside the file only.
sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.models.chat_api import RequestRejected, check_request, parse_body

if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Self

# Of the messages and the model's name to a reply, which is a mapping with one of
#   content, tool_calls (each: name, arguments as an object or as text, id), or both;
#   status (with body, as JSON or as text, and headers);
#   raw, the text of the whole body;
#   hang_up, true
# and may have a `delay` in seconds. The first may have a `finish_reason`, a `usage`
# (null leaves it out) and any other field, which then stands in the message.
Rule: TypeAlias = Callable[[list[dict[str, Any]], str], Mapping[str, Any]]

# A key is a part of the system prompt or the whole name of the model; "" fits all.
# The k-th reply is given while the conversation has k assistant messages.
Script: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]

_REPLY_OPTIONS = frozenset({"content", "tool_calls", "finish_reason", "usage", "delay"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """What goes back over the wire, and when."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay: float = 0.0
    hang_up: bool = False


class ModelServer:
    """The server; `url` ends in `/v1`, `requests` is what the log has, in order.

    Of each request it notes index, status, model, messages and the rest of the body
    as `settings`, before it is answered: a line of the log, written in one piece, for
    each time that somebody asked. With `keep=False` there is only the log.
    """

    def __init__(
        self,
        script: Script | Rule,
        *,
        key: str = "sk-test",
        log: Path | None = None,
        port: int = 0,
        keep_requests: bool = True,
    ) -> None:
        self.key = key
        self.requests: list[dict[str, Any]] = []
        self._rule: Rule = script if callable(script) else rule_from_script(script)
        self._log = log
        self._keep_requests = keep_requests
        self._noting = threading.Lock()
        self._index = itertools.count()
        self._server = _Server(("127.0.0.1", port), self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def environment(self) -> dict[str, str]:
        """What another process needs in its environment to use this server."""
        return {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": self.key}

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def serve(self) -> None:
        """Answer until `close`, which is called from another thread."""
        self._server.serve_forever(poll_interval=0.05)

    def close(self) -> None:
        """Stop, and hang up on everyone who is still connected."""
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()

    def respond(
        self, path: str, headers: Mapping[str, str], body: bytes
    ) -> HttpResponse:
        """Note one request and return its answer."""
        request: dict[str, Any] = {}
        try:
            self._check_access(path, headers)
            request = parse_body(body)
            check_request(request)
            answer = self._scripted_response(request, len(body))
        except RequestRejected as refused:
            said = json.dumps({"error": refused.error}).encode()
            answer = HttpResponse(status=refused.status, body=said)
        self._log_request(request, answer.status)
        return answer

    def _check_access(self, path: str, headers: Mapping[str, str]) -> None:
        if path != "/v1/chat/completions":
            raise RequestRejected(f"Invalid URL (POST {path})", status=404)
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if bearer != self.key:
            shown = f"{bearer[:8]}***{bearer[-4:]}"
            said = f"Incorrect API key provided: {shown}."
            raise RequestRejected(said, code="invalid_api_key", status=401)
        kind = headers.get("content-type", "")
        if kind.partition(";")[0] != "application/json":
            raise RequestRejected(f"Unsupported media type: '{kind}'.", status=415)

    def _scripted_response(self, request: dict[str, Any], size: int) -> HttpResponse:
        try:
            reply = self._rule(request["messages"], request["model"])
            return _make_response(reply, request, size)
        except Exception as error:
            # A fault of the test: in words, and with a status that nobody retries.
            said = f"{type(error).__name__}: {error}"
            raise RequestRejected(said, kind="script_error") from error

    def _log_request(self, request: dict[str, Any], status: int) -> None:
        rest = {k: v for k, v in request.items() if k not in ("model", "messages")}
        with self._noting:
            entry = {
                "index": next(self._index),
                "status": status,
                "model": request.get("model"),
                "messages": request.get("messages"),
                "settings": rest,
            }
            if self._keep_requests:
                self.requests.append(entry)
            if self._log is not None:
                _append(self._log, json.dumps(entry) + "\n")


def _append(path: Path, line: str) -> None:
    # One write to a file opened with O_APPEND is never mixed with another's.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


# What it answers --------------------------------------------------------------


def rule_from_script(script: Script) -> Rule:
    """Return the rule that a script stands for; it keeps no state."""

    def rule(messages: list[dict[str, Any]], model: str) -> Mapping[str, Any]:
        leading = [m for m in messages if m["role"] in ("system", "developer")]
        prompt = "\n".join(str(message["content"]) for message in leading)
        turn = [message["role"] for message in messages].count("assistant")
        for key, replies in script.items():
            if key == model or key in prompt:
                if turn < len(replies):
                    return replies[turn]
                msg = f"the script of {key!r} ends before reply {turn + 1}"
                raise LookupError(msg)
        msg = f"the script has no key for the model {model!r} and this system prompt"
        raise LookupError(msg)

    return rule


def _make_response(
    reply: Mapping[str, Any], request: dict[str, Any], size: int
) -> HttpResponse:
    delay = float(reply.get("delay", 0))
    if "hang_up" in reply:
        return HttpResponse(body=b"", delay=delay, hang_up=bool(reply["hang_up"]))
    headers = reply.get("headers", {})
    status = reply.get("status", 200)
    if "raw" in reply or "status" in reply:
        body = reply.get("raw", reply.get("body", ""))
        text = body if isinstance(body, str) else json.dumps(body)
        return HttpResponse(
            body=text.encode(), status=status, headers=headers, delay=delay
        )
    completion = _completion(reply, request, size)
    return HttpResponse(
        body=json.dumps(completion).encode(), headers=headers, delay=delay
    )


def _completion(
    reply: Mapping[str, Any], request: dict[str, Any], size: int
) -> dict[str, Any]:
    turn = [message["role"] for message in request["messages"]].count("assistant")
    asked = [
        _tool_call(c, turn, i) for i, c in enumerate(reply.get("tool_calls") or ())
    ]
    message: dict[str, Any] = {"role": "assistant", "content": reply.get("content")}
    if "tool_calls" in reply:
        message["tool_calls"] = asked
    message |= {"refusal": None, "annotations": []}
    message |= {k: v for k, v in reply.items() if k not in _REPLY_OPTIONS}
    finish = reply.get("finish_reason", "tool_calls" if asked else "stop")
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    completion = {
        "id": f"chatcmpl-{turn}",
        "object": "chat.completion",
        "created": 1_750_000_000,
        "model": request["model"],
        "choices": [choice],
        "usage": reply.get("usage", _usage(size // 4, len(json.dumps(message)) // 4)),
        "service_tier": "default",
    }
    if completion["usage"] is None:
        del completion["usage"]
    return completion


def _tool_call(call: Mapping[str, Any], turn: int, place: int) -> dict[str, Any]:
    given = call.get("arguments", {})
    text = given if isinstance(given, str) else json.dumps(given)
    return {
        "id": call.get("id", f"call_{turn}_{place}"),
        "type": "function",
        "function": {"name": call["name"], "arguments": text},
    }


def _usage(prompt: int, completion: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


# The wire ---------------------------------------------------------------------


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # a hundred workers that start at once

    def __init__(self, address: tuple[str, int], model: ModelServer) -> None:
        super().__init__(address, _Handler)
        self.model = model
        self.closing = threading.Event()
        self._open: set[Any] = set()
        self._all_gone = threading.Condition()

    def server_bind(self) -> None:
        # HTTPServer's own asks the name service who 127.0.0.1 is.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._all_gone:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._all_gone:
            self._open.discard(request)
            self._all_gone.notify_all()

    def hang_up(self) -> None:
        """End every connection and wait until its thread has let go of it."""
        self.closing.set()
        with self._all_gone:
            for request in self._open:
                with suppress(OSError):
                    request.shutdown(SHUT_RDWR)
            self._all_gone.wait_for(lambda: not self._open, timeout=5)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that goes away is a test's business; anything else is a fault here.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        server = cast("_Server", self.server)
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = server.model.respond(self.path, headers, body)
        server.closing.wait(answer.delay)
        if answer.hang_up or server.closing.is_set():
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        """Say nothing: the log is `ModelServer.requests`."""


def main() -> None:
    """Serve a script file until a signal ends it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--script", type=Path, required=True)
    options.add_argument("--log", type=Path)
    options.add_argument("--key", default="sk-test")
    options.add_argument("--port", type=int, default=0)
    given = options.parse_args()
    script: Script = json.loads(given.script.read_text("utf-8"))
    server = ModelServer(
        script, key=given.key, log=given.log, port=given.port, keep_requests=False
    )
    asked_to_stop = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        asked_to_stop.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with server:
        print(server.url, flush=True)  # noqa: T201 - this is what the caller waits for
        asked_to_stop.wait()


if __name__ == "__main__":
    main()
