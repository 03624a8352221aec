"""The process of `console_chat_application`, which a test kills and starts again."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuations import Runner
from continuations.authoring.agent.agent import Agent
from continuations.models.scripted import ScriptedModel
from continuations_storage import open_store
from continuations_storage.sync import SyncStore
from tests.server_process import ServerProcess
from tests.stepped_writer import Steps

if TYPE_CHECKING:
    from collections.abc import Generator

# A worker takes over when the claim of a killed one has ended.
TIMEOUT_MS = 60_000
_ROOT = Path(__file__).parents[2]


@dataclass(kw_only=True)
class ConsoleChat(ServerProcess):
    """A console on a port of its own, with one thread.

    Attributes:
        live: How open pages hear of changes.
        store: The address of the store; by default that of a folder.
        works: Whether the server works on threads.
        thread_id: The run of the thread.
    """

    live: str = "events"
    store: str = ""
    works: bool = True
    thread_id: str = ""

    @property
    def chat(self) -> str:
        """The address of the thread."""
        return f"{self.url}/threads/{self.thread_id}"

    def __post_init__(self) -> None:
        """Name the folder of the store."""
        self.store = self.store or f"file:{self.folder / 'runs'}"
        self.steps = Steps(self.folder)

    def open_thread(self, key: str) -> str:
        """Make a thread with one reply; return its address."""
        agent = Agent("support", model=ScriptedModel(["Hello kim"]))
        thread = Runner(agent, store=self.store).thread("support", key=key)
        # The worker of the server may be quicker, and replies the same.
        reply = thread.send("say Hello kim")
        self.thread_id = reply.run_id
        return self.chat

    def hold(self) -> None:
        """Let the agent write only as `allow` says, from now on."""
        self.steps.hold()

    def allow(self, parts: int = 1) -> None:
        """Let the agent write some more parts, or store its reply."""
        self.steps.allow(parts)

    def release(self) -> None:
        """Let the agent write everything at once."""
        self.steps.release()

    def start(self) -> None:
        """Start a process of the server, and wait until it listens."""
        # The console reads only a store that exists.
        with SyncStore(open_store(self.store)) as store:
            store.probe()
        self.start_uvicorn(
            *("tests.browser.console_chat_application:app", "--log-level", "warning"),
            cwd=_ROOT,
            environment={
                **self.steps.environment,
                "TEST_STORE": self.store,
                "TEST_WORKS": "yes" if self.works else "no",
                "TEST_PROCESS": f"p{len(self.processes) + 1}",
                "TEST_LIVE": self.live,
            },
        )

    def kill(self) -> None:
        """Kill the server as a crash would."""
        super().kill()
        if self.works:
            self.steps.begin_anew()


@contextmanager
def run_console_chat(
    folder: Path, live: str = "events", *, store: str = "", works: bool = True
) -> Generator[ConsoleChat]:
    """Run the server, and yield it."""
    chat = ConsoleChat(folder=folder, live=live, store=store, works=works)
    chat.start()
    try:
        yield chat
    finally:
        chat.kill()


# What a person does and sees -----------------------------------------------------


def texts(tab: Any) -> list[str]:
    """Return the texts that a page shows, also one that is being written."""
    found: list[str] = tab.locator("#chat .value:visible").all_inner_texts()
    return found


def say(tab: Any, text: str) -> None:
    """Write a message and press the button."""
    tab.get_by_label("Message").fill(text)
    tab.get_by_role("button", name="Send").click()


def written(tab: Any, text: str) -> None:
    """Wait until a page shows a reply as far as it is written."""
    tab.wait_for_function(
        "text => document.querySelector('#writing .value').textContent === text",
        arg=text,
    )


def stored(tab: Any, text: str) -> None:
    """Wait until a page shows a stored reply, and none that is being written."""
    tab.locator("#chat .assistant:not(#writing)", has_text=text).last.wait_for()
    tab.locator("#writing").wait_for(state="hidden")
