"""A chat completions API that reads its replies from a script: three_deep.py, offline.

It prints its URL and serves until its standard input is closed, so it never outlives
the process that started it. It keeps nothing: which reply is next follows from the
conversation that it is sent. Like the real API it refuses, with a 400, a conversation
in which a tool call and its result do not stand together.
"""

import json
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from typing import Any

# By a part of the system prompt: what is said in the first turn, the second, ... A text
# is said, with {0}, {1}, ... standing for the results of the tools called before; a
# list holds tool calls.
SCRIPT: dict[str, list[str | list[tuple[str, dict[str, Any]]]]] = {
    "You are the orchestrator": [
        [
            (
                "hr",
                {
                    "input": "Jane Doe starts on Monday: welcome bonus of 500.00 EUR, "
                    "access to the payroll system."
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
    """Raise `ValueError` for a conversation that the real API refuses too."""
    unanswered: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in unanswered:
                raise ValueError("a tool message answers a call of the turn before it")
            unanswered.remove(message["tool_call_id"])
            continue
        if unanswered:
            break
        unanswered = [call["id"] for call in message.get("tool_calls") or ()]
        if not unanswered and not isinstance(message.get("content"), str):
            raise ValueError(f"a message of {message['role']} without content")
    if unanswered:
        raise ValueError(f"tool calls without a result: {', '.join(unanswered)}")


def reply_to(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the assistant message that the script has for a conversation."""
    prompt = messages[0]["content"]
    (part,) = (part for key, part in SCRIPT.items() if key in prompt)
    turn = sum(message["role"] == "assistant" for message in messages)
    line = part[turn]
    if isinstance(line, str):
        last = takewhile(lambda message: message["role"] == "tool", reversed(messages))
        results = [message["content"] for message in last][::-1]
        return {"role": "assistant", "content": line.format(*results)}
    calls = [
        {
            "id": f"call_{turn}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for place, (name, arguments) in enumerate(line)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def completion(body: bytes) -> dict[str, Any]:
    """Return the completion for a request; raises if there is none."""
    request = json.loads(body)
    check_conversation(request["messages"])
    message = reply_to(request["messages"])
    finish = "tool_calls" if "tool_calls" in message else "stop"
    asked, said = len(body) // 4, len(json.dumps(message)) // 4
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": said,
            "total_tokens": asked + said,
        },
    }


class Handler(BaseHTTPRequestHandler):
    """Answers POST /v1/chat/completions."""

    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        """Serve a connection; a client that goes away, or is killed, is no trouble."""
        with suppress(ConnectionError):
            super().handle()

    def do_POST(self) -> None:
        """Answer one request, or refuse it."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            self.send_json(200, completion(body))
        except (LookupError, TypeError, ValueError) as error:
            why = {"message": str(error), "type": "invalid_request_error"}
            self.send_json(400, {"error": why})

    def send_json(self, status: int, body: dict[str, Any]) -> None:
        """Send a JSON body."""
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Say nothing: the standard output is the director's."""


def main() -> None:
    """Serve on a free port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    sys.stdin.read()  # until whoever started us closes it, or dies


if __name__ == "__main__":
    main()
