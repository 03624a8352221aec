"""A model that writes a part when the test allows one, and workers that use it.

`python -m tests.stepped_writer` works on the threads of the store TEST_STORE until it
is killed. A process that shares the folder of TEST_STEPS writes as `Steps` allow.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuations import Agent, AsyncRunner, ToolContext, tool
from continuations.engine.events import word_carrier
from continuations.ledger import layout
from continuations.models.interface import (
    Message,
    ModelDelta,
    ModelReply,
    ModelRequest,
)
from continuations_storage.contract import ephemeral

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from continuations_storage import Store

ROOT = Path(__file__).parents[1]
_CALLS: Mapping[str, tuple[str, str]] = {
    "pay": ("pay", '{"what": "rent"}'),
    "count": ("count", "{}"),
}


@tool(approval=True, summary="Pay {what}")
def pay(what: str) -> str:
    """Pay something."""
    return f"paid {what}"


@tool
async def count(ctx: ToolContext[Any]) -> str:
    """Report how many things were counted, and wait for the test."""
    ctx.progress({"counted": 1})
    await _Pen().wait()
    return "counted"


class SteppedWriter:
    """Replies to "say a|b" in the parts "a" and "b", and to "pay" with a call.

    It writes a part, or stores its reply, when the file TEST_STEPS has one byte more.
    Without the file, it writes at once. "{process}" in a part becomes TEST_PROCESS.
    So a test sees which process wrote it.
    """

    name = "writer"

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Write the parts of one reply."""
        last = request.messages[-1].data
        text = str(last["content"])
        pen = _Pen()
        with (pen.folder / "streams").open("a") as streams:
            streams.write("no " if request.on_delta is None else "yes ")
        if last["role"] == "user" and text in _CALLS:
            name, arguments = _CALLS[text]
            call = {"name": name, "arguments": arguments}
            calls = [{"id": f"{text}-1", "type": "function", "function": call}]
            return _reply({"role": "assistant", "content": None, "tool_calls": calls})
        words = text.removeprefix("say ")
        parts = words.replace("{process}", os.environ["TEST_PROCESS"]).split("|")
        for part in parts:
            await pen.wait()
            if request.on_delta is not None:
                await request.on_delta(ModelDelta(kind="text", text=part))
        await pen.wait()
        return _reply({"role": "assistant", "content": "".join(parts)})


class _Pen:
    """Waits until the test allows one more part. `written` has their number."""

    written = 0

    def __init__(self) -> None:
        self._steps = Path(os.environ["TEST_STEPS"])
        self.folder = self._steps.parent

    async def wait(self) -> None:
        """Wait for the next step of this process."""
        while not self._may_write():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)
        _Pen.written += 1
        (self.folder / "written").write_text(str(_Pen.written))

    def _may_write(self) -> bool:
        with suppress(FileNotFoundError):
            return self._steps.stat().st_size > _Pen.written
        return True


def _reply(data: dict[str, Any]) -> ModelReply:
    return ModelReply(message=Message.from_mapping(data))


def make_runner(store: Any) -> AsyncRunner[Any]:
    """Return a runner whose agent is named support."""
    agent = Agent("support", tools=[pay, count], model=SteppedWriter())
    return AsyncRunner(agent, store=store, lease=0.5, max_attempts=100)


@dataclass
class Steps:
    """Lets the writers of a folder write."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that writes."""
        return {**os.environ, "TEST_STEPS": str(self.folder / "steps")}

    def hold(self) -> None:
        """Let the agent write only as `allow` says, from now on."""
        written = self.folder / "written"
        written_parts = int(written.read_text()) if written.exists() else 0
        (self.folder / "steps").write_bytes(b"." * written_parts)

    def allow(self, parts: int = 1) -> None:
        """Let the agent write some more parts, or store its reply."""
        with (self.folder / "steps").open("ab") as steps:
            steps.write(b"." * parts)

    def release(self) -> None:
        """Let the agent write everything at once."""
        (self.folder / "steps").unlink(missing_ok=True)

    def begin_anew(self) -> None:
        """Count the parts of the next process from the first one."""
        (self.folder / "written").unlink(missing_ok=True)

    @property
    def streams(self) -> list[str]:
        """Whether each request to the model asked for a stream."""
        return (self.folder / "streams").read_text().split()


@dataclass
class Workers:
    """Processes that work on the threads of a store, one at a time.

    Attributes:
        steps: Lets them write.
        store: The address of the store.
        words_seconds: How long their words last after the last one.
        processes: The processes, also those that were killed.
    """

    steps: Steps
    store: str
    words_seconds: float = word_carrier.WORDS_SECONDS
    processes: list[subprocess.Popen[str]] = field(
        default_factory=list[subprocess.Popen[str]]
    )

    def start(self) -> None:
        """Start a worker; its parts say `w1`, the next one's `w2`."""
        name = f"w{len(self.processes) + 1}"
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.stepped_writer"],
            cwd=ROOT,
            env={
                **self.steps.environment,
                "TEST_STORE": self.store,
                "TEST_PROCESS": name,
                "TEST_WORDS_SECONDS": str(self.words_seconds),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        assert process.stdout is not None
        assert "up\n" == process.stdout.readline()

    def kill(self) -> None:
        """Kill the worker as a crash would."""
        process = self.processes[-1]
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        self.steps.begin_anew()


async def until_followed(store: Store) -> None:
    """Wait until a process says in a store that it follows a thread."""
    values = ephemeral(store)
    assert values is not None
    async with asyncio.timeout(30):
        while not await values.names(layout.FOLLOWERS_PREFIX):  # noqa: ASYNC110 - another task or process
            await asyncio.sleep(0.01)


@contextmanager
def run_worker(
    steps: Steps, store: str, words_seconds: float = word_carrier.WORDS_SECONDS
) -> Generator[Workers]:
    """Run a worker of a store, which may be killed and started again."""
    workers = Workers(steps, store, words_seconds)
    workers.start()
    try:
        yield workers
    finally:
        workers.kill()


async def _work() -> None:
    word_carrier.WORDS_SECONDS = float(os.environ["TEST_WORDS_SECONDS"])
    print("up", flush=True)  # noqa: T201 - for the process that waits
    await make_runner(os.environ["TEST_STORE"]).serve_forever(interval=0.05)


if __name__ == "__main__":
    asyncio.run(_work())
