"""A chat completions API on loopback that replies from a script.

It is a real HTTP server, so that other processes can use it. It refuses the requests
that the API refuses, by the rules in `tests/models/chat_api.py`. In a test:

    with ModelServer({"You are hr": [{"content": "Hello."}]}) as server:
        model = OpenAIChat("gpt-5-mini", base_url=server.url, api_key=server.key)
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Self, TypeAlias, cast

from tests.local_server import LocalHandler, LocalServer
from tests.models.chat_api import RequestRejected, check_request, parse_body

# A rule gets the messages and the name of the model, and returns a reply: a mapping.
#
# A reply has one of these keys, and may have a `delay` in seconds.
# With `content` or `tool_calls` it is a completion. A call has `name`, `arguments` (an
# object or a text) and `id`. `finish_reason` and `usage` (null: left out) may be set.
# Every other key becomes a field of the message.
# With `status` it is an error, with `body` (JSON or a text) and `headers`.
# With `raw` it is the text of the whole body.
# With `hang_up` the connection is closed without a response.
Rule: TypeAlias = Callable[[list[dict[str, Any]], str], Mapping[str, Any]]

# A rule that gets the whole request, in place of the script.
SettingsRule: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]

# A key is a part of the system prompt, or the whole name of the model. The key "" fits
# every request. The reply with index k is returned while the conversation has k
# assistant messages.
Script: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]

_REPLY_OPTIONS = frozenset({"content", "tool_calls", "finish_reason", "usage", "delay"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A response and its delay in seconds."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay: float = 0.0
    hang_up: bool = False


class ModelServer:
    """The server.

    Each request is recorded before its response is sent: index, status, model,
    messages, and the rest of the body as `settings`.

    Attributes:
        url: The base URL; it ends with `/v1`.
        key: The API key that the server accepts.
        requests: The records in order.
    """

    def __init__(
        self,
        script: Script | Rule,
        *,
        key: str = "sk-test",
        settings_rule: SettingsRule | None = None,
    ) -> None:
        self.key = key
        self.requests: list[dict[str, Any]] = []
        self._rule: Rule = script if callable(script) else rule_from_script(script)
        self._settings_rule = settings_rule
        self._recording = threading.Lock()
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which another process uses this server."""
        return {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": self.key}

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve(self) -> None:
        """Handle requests until another thread calls `close`."""
        self._server.serve_forever(poll_interval=0.05)

    def close(self) -> None:
        """Stop the server and close all connections."""
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()

    def respond(
        self, path: str, headers: Mapping[str, str], body: bytes
    ) -> HttpResponse:
        """Record one request and return the response."""
        request: dict[str, Any] = {}
        try:
            self._check_access(path, headers)
            request = parse_body(body)
            check_request(request)
            response = self._scripted_response(request, len(body))
        except RequestRejected as rejected:
            error = json.dumps({"error": rejected.error}).encode()
            response = HttpResponse(status=rejected.status, body=error)
        self._log_request(request, response.status)
        return response

    def _check_access(self, path: str, headers: Mapping[str, str]) -> None:
        if path.partition("?")[0] != "/v1/chat/completions":
            raise RequestRejected(f"Invalid URL (POST {path})", status=404)
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if bearer != self.key:
            shown = f"{bearer[:8]}***{bearer[-4:]}"
            text = f"Incorrect API key provided: {shown}."
            raise RequestRejected(text, code="invalid_api_key", status=401)
        kind = headers.get("content-type", "")
        if kind.partition(";")[0] != "application/json":
            raise RequestRejected(f"Unsupported media type: '{kind}'.", status=415)

    def _scripted_response(self, request: dict[str, Any], size: int) -> HttpResponse:
        try:
            reply = (
                self._rule(request["messages"], request["model"])
                if self._settings_rule is None
                else self._settings_rule(request)
            )
            return _make_response(reply, request, size)
        except Exception as error:
            # An error of the test. Clients do not retry this status.
            text = f"{type(error).__name__}: {error}"
            raise RequestRejected(text, kind="script_error") from error

    def _log_request(self, request: dict[str, Any], status: int) -> None:
        rest = {k: v for k, v in request.items() if k not in ("model", "messages")}
        with self._recording:
            self.requests.append(
                {
                    "index": len(self.requests),
                    "status": status,
                    "model": request.get("model"),
                    "messages": request.get("messages"),
                    "settings": rest,
                }
            )


# Replies ----------------------------------------------------------------------


def rule_from_script(script: Script) -> Rule:
    """Return the rule for a script. The rule keeps no state."""

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
    calls = [
        _tool_call(c, turn, i) for i, c in enumerate(reply.get("tool_calls") or ())
    ]
    message: dict[str, Any] = {"role": "assistant", "content": reply.get("content")}
    if "tool_calls" in reply:
        message["tool_calls"] = calls
    message |= {"refusal": None, "annotations": []}
    message |= {k: v for k, v in reply.items() if k not in _REPLY_OPTIONS}
    finish = reply.get("finish_reason", "tool_calls" if calls else "stop")
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


def _tool_call(call: Mapping[str, Any], turn: int, index: int) -> dict[str, Any]:
    arguments = call.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "id": call.get("id", f"call_{turn}_{index}"),
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


# HTTP -------------------------------------------------------------------------


class _Server(LocalServer):
    def __init__(self, model: ModelServer) -> None:
        super().__init__(0, _Handler)
        self.model = model


class _Handler(LocalHandler, BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        server = cast("_Server", self.server)
        headers = {name.lower(): value for name, value in self.headers.items()}
        response = server.model.respond(self.path, headers, body)
        server.closing.wait(response.delay)
        if response.hang_up or server.closing.is_set():
            self.close_connection = True
            return
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        self.wfile.write(response.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Print nothing: `ModelServer.requests` has the records."""
