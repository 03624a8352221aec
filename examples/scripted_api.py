"""A chat completions API with scripted replies, for three_deep.py without an API key.

It prints its URL and serves until its standard input is closed, so it never outlives
the process that started it. It has no state: the conversation in a request determines
the reply. Like the real API, it returns status 400 for a conversation in which a tool
call has no result or a result has no tool call.
"""

import json
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from typing import Any

# The replies of each agent, turn by turn; the key is a part of its system prompt. A str
# is a final reply, in which {0}, {1}, ... are the results of the last tool calls. A
# list contains tool calls: the name of the tool and its arguments.
SCRIPT: dict[str, list[str | list[tuple[str, dict[str, Any]]]]] = {
    "You are the orchestrator": [
        [
            (
                "hr",
                {
                    "input": "Jane Doe starts on Monday: bonus of 500.00 EUR, access "
                    "to payroll."
                },
            )
        ],
        "Jane Doe's first day is prepared. {0}",
    ],
    "You are HR": [
        [
            ("accounts", {"input": "Pay Jane Doe a welcome bonus of 500.00 EUR."}),
            ("grant_access", {"person": "Jane Doe", "system": "payroll"}),
        ],
        "Bonus: {0} Access: {1}",
    ],
    "You are accounts": [
        [("balance", {"account": "bonuses"})],
        [("transfer", {"recipient": "Jane Doe", "cents": 50_000})],
        "{0}",
    ],
}


def check_conversation(messages: list[dict[str, Any]]) -> None:
    """Raise `ValueError` for a conversation that the real API would reject."""
    open_call_ids: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_call_ids:
                raise ValueError(
                    "a tool message has no tool call in the turn before it"
                )
            open_call_ids.remove(message["tool_call_id"])
            continue
        if open_call_ids:
            break
        open_call_ids = [call["id"] for call in message.get("tool_calls") or ()]
        if not open_call_ids and not isinstance(message.get("content"), str):
            raise ValueError(f"a message of role {message['role']} has no content")
    if open_call_ids:
        raise ValueError(f"tool calls without a result: {', '.join(open_call_ids)}")


def reply_to(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the scripted assistant message for a conversation."""
    prompt = messages[0]["content"]
    (replies,) = (replies for key, replies in SCRIPT.items() if key in prompt)
    turn = sum(message["role"] == "assistant" for message in messages)
    reply = replies[turn]
    if isinstance(reply, str):
        last = takewhile(lambda message: message["role"] == "tool", reversed(messages))
        results = [message["content"] for message in last][::-1]
        return {"role": "assistant", "content": reply.format(*results)}
    calls = [
        {
            "id": f"call_{turn}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for place, (name, arguments) in enumerate(reply)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def completion(body: bytes) -> dict[str, Any]:
    """Return the completion for a request; raise an error for an invalid one."""
    request = json.loads(body)
    check_conversation(request["messages"])
    message = reply_to(request["messages"])
    finish = "tool_calls" if "tool_calls" in message else "stop"
    prompt_tokens, completion_tokens = len(body) // 4, len(json.dumps(message)) // 4
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


class Handler(BaseHTTPRequestHandler):
    """Handles POST /v1/chat/completions."""

    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        """Serve a connection; ignore a client that is killed or disconnects."""
        with suppress(ConnectionError):
            super().handle()

    def do_POST(self) -> None:
        """Send a completion, or status 400 for an invalid request."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            self.send_json(200, completion(body))
        except (LookupError, TypeError, ValueError) as error:
            details = {"message": str(error), "type": "invalid_request_error"}
            self.send_json(400, {"error": details})

    def send_json(self, status: int, body: dict[str, Any]) -> None:
        """Send a JSON body."""
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Log nothing: the process that started this one reads its output."""


def main() -> None:
    """Serve on a free port of 127.0.0.1."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    sys.stdin.read()  # returns when the process that started this one closes it or dies


if __name__ == "__main__":
    main()
