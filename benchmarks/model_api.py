"""A chat completions API without latency: every reply calls the same tool.

It has its own process, so that it does not share the interpreter lock of the measured
process. It does not parse the requests, so that it costs both sides the same. It serves
until its standard input is closed.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from benchmarks.child_process import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Generator

_numbers = count(1)


def tool_call_message(number: int) -> dict[str, Any]:
    """Return the message of the model: a call of the tool `note` with a new id."""
    function = {"name": "note", "arguments": json.dumps({"number": number})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _response(number: int) -> bytes:
    choice = {
        "index": 0,
        "message": tool_call_message(number),
        "finish_reason": "tool_calls",
    }
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    completion = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": "gpt-5-mini",
        "choices": [choice],
        "usage": usage,
    }
    body = json.dumps(completion).encode()
    head = (
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _handle_connection(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            fields = head.lower().split(b"content-length:", 1)
            await reader.readexactly(int(fields[1].split(b"\r\n", 1)[0]))
            writer.write(_response(next(_numbers)))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    """Serve on a free port of 127.0.0.1."""
    server = await asyncio.start_server(
        _handle_connection, "127.0.0.1", 0, limit=1 << 24
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextmanager
def serving() -> Generator[str]:
    """Start the server in its own process and yield its URL."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.model_api"],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None  # noqa: S101 - it is a pipe
        yield child.stdout.readline().strip()
        child.communicate()


if __name__ == "__main__":
    asyncio.run(main())
