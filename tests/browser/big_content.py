"""Runs with big content behind a console and signed links, in real servers."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from continuations import Agent, AsyncRunner, Runner, ask, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http import asgi
from continuations.serve.http.api import HttpApi
from continuations.serve.http.links import Links
from continuations_storage import MemoryStore
from tests.browser.served_app import serve_console, served
from tests.clocks import OffsetClock

if TYPE_CHECKING:
    from collections.abc import Generator


SIZE = 1 << 20
END = "the end of the text"


def filled(part: str) -> str:
    """Return a text of 1,048,576 characters; its end shows that it is whole."""
    return (part * (SIZE // len(part) + 1))[: SIZE - len(END)] + END


# Chromium needs a minute and more for some of them, in one element.
TEXTS = {
    "words": filled("a text of many words, "),
    "solid": filled("x"),
    "lines": filled("short\n"),
    "hebrew": filled("\u05e9\u05dc\u05d5\u05dd "),
    "emoji": filled("\U0001f469\u200d\U0001f469 "),
    "hidden": filled("a\u202e\x00"),
}
Choice: Any = Literal[tuple(f"option {number}" for number in range(5000))]
FewChoices: Any = Literal[tuple(f"option {number}" for number in range(50))]
LEVELS, CALLS, MESSAGES, QUESTIONS = 150, 1000, 10_000, 60


def nested(levels: int) -> Any:
    """Return a value inside so many objects."""
    value: Any = END
    for _ in range(levels):
        value = {"in": value}
    return value


@tool(approval=True)
def publish(text: str) -> str:
    """Publish a text."""
    return f"published {len(text)}"


@tool(approval=True)
def publish_value(value: dict[str, Any]) -> str:
    """Publish a value."""
    return f"published {len(value)}"


@tool(read_only=True)
def fetch(number: int) -> str:
    """Fetch a page: the first one is long."""
    return TEXTS["words"] if number == 0 else f"page {number}"


@tool
def ask_long() -> Any:
    """Ask a long question."""
    return ask(TEXTS["words"])


@tool
def choose() -> Any:
    """Ask for a choice."""
    return ask("Which one?", Choice)


@tool
def choose_some() -> Any:
    """Ask for some choices."""
    return ask("Which ones?", list[Choice])


@tool
def choose_several() -> Any:
    """Ask for some of fewer choices."""
    return ask("Which ones?", list[FewChoices])


TOOLS: list[Any] = [publish, publish_value, fetch]
TOOLS.extend([choose, choose_some, choose_several, ask_long])
PUBLISH = ToolCall("publish", {"text": "short"})


def tower(levels: int) -> Agent[Any]:
    """Return an agent that calls an agent, so many times; the lowest one waits."""
    below: Agent[Any] = Agent("low", tools=TOOLS, model=ScriptedModel([PUBLISH]))
    for number in range(1, levels):
        model = ScriptedModel([ToolCall(below.name, {"input": "go"})])
        below = Agent(f"level-{number}", tools=[below], model=model)
    return below


@dataclass
class BigContent:
    """A store with runs of big content, and the addresses of their pages.

    Attributes:
        console_url: The address of the console.
        links_url: The address of the signed links.
        threads: The runs of threads, by their names.
    """

    console_url: str = ""
    links_url: str = ""
    clock: OffsetClock = field(default_factory=OffsetClock)
    threads: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.store = MemoryStore()
        self.reader = Runner([], store=self.store, clock=self.clock)
        self.links = Links("0123456789abcdef" * 2, base_url="http://x")

    def start(self, run_id: str, *turns: Any, text: Any = "go") -> None:
        """Start a run with these turns."""
        agent = Agent("writer", tools=TOOLS, model=ScriptedModel([*turns, "done"]))
        runner = Runner(agent, store=self.store, clock=self.clock)
        runner.start(text, run_id=run_id, by="ines")

    def talk(self, key: str, *turns: Any, messages: list[Any]) -> None:
        """Let an agent reply to messages of a thread."""
        agent = Agent("support", tools=TOOLS, model=ScriptedModel([*turns]))
        runner = Runner(agent, store=self.store, clock=self.clock)
        thread = runner.thread("support", key=key)
        for each in messages:
            self.threads[key] = thread.send(each).run_id

    def fill(self) -> None:
        """Add the runs."""
        for name, text in TEXTS.items():
            self.start(name, ToolCall("publish", {"text": text}))
        self.start("nested", ToolCall("publish_value", {"value": nested(190)}))
        fields = {f"key {number}": number for number in range(20_000)}
        self.start("fields", ToolCall("publish_value", {"value": fields}))
        self.start("option", ToolCall("choose"))
        self.start("question", ToolCall("ask_long"))
        self.start("options", ToolCall("choose_some"))
        self.start("several", ToolCall("choose_several"))
        fetches = [ToolCall("fetch", {"number": number}) for number in range(CALLS)]
        self.start("calls", fetches, PUBLISH)
        waits = [
            ToolCall("publish", {"text": f"text {number}"}) for number in range(CALLS)
        ]
        self.start("waits", waits)
        self.start("message", TEXTS["solid"], text=TEXTS["hebrew"])
        history = [
            {"role": "user", "content": f"message {number}"}
            for number in range(MESSAGES - 1)
        ]
        self.start("history", PUBLISH, text=history)
        runner = Runner(
            tower(LEVELS), store=self.store, clock=self.clock, max_depth=None
        )
        runner.start("go", run_id="levels")
        self.talk(
            "big",
            *(TEXTS["emoji"], fetches, TEXTS["words"]),
            messages=[TEXTS["solid"], "fetch"],
        )
        replies = [f"reply {number}" for number in range(QUESTIONS)]
        questions = [f"question {number}" for number in range(QUESTIONS)]
        self.talk("long", *replies, messages=questions)

    def paths(self, run_id: str) -> dict[str, str]:
        """Return the addresses of the pages about a run, by their names."""
        run = self.reader.look(run_id)
        root = f"{self.console_url}/runs/{run_id}"
        found = {
            "run": root,
            "transcript": f"{root}/messages",
            "fork": f"{root}/fork?version={run.version}",
            "versions": f"{root}/versions",
            "difference": f"{root}/versions?from=1&to={run.version}",
            "rewind": f"{root}/rewind?version=1",
        }
        for wait in run.waits[:1]:
            page = f"{self.console_url}/waits/{quote(wait.id, safe='@')}"
            found |= {
                "call": f"{root}?call={wait.call_id}",
                "wait": page,
                "edit": f"{page}/edit",
                "remember": f"{page}/remember",
                "answer": f"{page}/answer",
                "link": self.links.link(
                    wait, actor="kim", until=self.clock.now().replace(year=2100)
                ).replace("http://x", self.links_url),
            }
        return found


@contextmanager
def run_big_content() -> Generator[BigContent]:
    """Serve the console and the signed links of runs with big content."""
    big = BigContent()
    big.fill()
    runner = AsyncRunner([], store=big.store, clock=big.clock)
    api = HttpApi(runner, links=big.links, clock=big.clock)
    with serve_console(big) as big.console_url, served(asgi.app(api)) as big.links_url:
        yield big
