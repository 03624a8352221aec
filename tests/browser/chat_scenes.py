"""A thread behind a console whose process has no worker; others work on it."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from continuations import Agent, Approve, AsyncRunner, Deny, Runner, tool
from continuations.attachments import File
from continuations.models.interface import Message, ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Money
from continuations_storage import MemoryStore
from tests.browser.served_app import serve_console
from tests.clocks import OffsetClock

if TYPE_CHECKING:
    from collections.abc import Generator
    from threading import Event


@tool(read_only=True)
def find_order(order: str) -> str:
    """Find an order."""
    if order == "unknown":
        msg = "there is no such order"
        raise ValueError(msg)
    return f"found {order}"


@tool(approval=True, summary="Refund {cents} to {customer}")
def refund(customer: str, cents: Annotated[int, Money("EUR", 100)]) -> str:
    """Give money back."""
    return f"{cents} to {customer}"


def reply(request: Any) -> Any:
    """Return the reply to the last message."""
    last = request.messages[-1]
    text = str(last.content)
    if last.role != "user":
        return f"The tool says: {text}"
    if text.startswith("find"):
        return [ToolCall("find_order", {"order": each}) for each in text.split()[1:]]
    if text.startswith("refund"):
        return [ToolCall("refund", {"customer": "Jane Okafor", "cents": 4250})]
    return f"You wrote: {text}"


class HeldModel:
    """A model that writes nothing before it may."""

    name = "held"

    def __init__(self, may_reply: Event) -> None:
        self._may_reply = may_reply

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return a reply once it is allowed."""
        del request
        while not self._may_reply.is_set():  # noqa: ASYNC110 - another thread
            await asyncio.sleep(0.01)
        data = {"role": "assistant", "content": "The reply of another process."}
        return ModelReply(message=Message.from_mapping(data))


@dataclass
class ChatScenes:
    """A store with a thread, and the console that shows it to kim.

    Attributes:
        base_url: The address of the console.
        run_id: The run of the thread.
        clock: The clock of all processes.
    """

    base_url: str = ""
    run_id: str = ""
    clock: OffsetClock = field(default_factory=OffsetClock)

    def __post_init__(self) -> None:
        self.store = MemoryStore()
        self.agent = Agent(
            "support", tools=[find_order, refund], model=ScriptedModel(reply)
        )
        self.runner = Runner(self.agent, store=self.store, clock=self.clock)

    @property
    def url(self) -> str:
        """The address of the chat."""
        return f"{self.base_url}/threads/{self.run_id}"

    def say(self, text: Any, by: str = "jane") -> None:
        """Send a message, and let a worker of another process reply."""
        thread = self.runner.thread("support", key="customer 42")
        self.run_id = thread.send(text, by=by).run_id

    def decide(self, verdict: Approve | Deny) -> None:
        """Decide the open wait, and let a worker go on."""
        [wait] = self.runner.look(self.run_id).waits
        self.runner.decide(wait.id, verdict)
        self.runner.resume(self.run_id)

    def fill(self) -> None:
        """Add a message, reply or line of each kind."""
        self.say("Where is my parcel?")
        self.say(["My receipt", File(b"%PDF", "application/pdf", "receipt.pdf")])
        self.say("find B-7731 unknown")
        self.say("find " + " ".join(f"B-{number}" for number in range(30)))
        self.say("refund me")
        self.decide(Deny(by="kim", reason="The parcel is on its way."))
        self.say("refund me, please")
        self.decide(Approve(by="kim"))
        self.say("refund me again")

    def held(self, may_reply: Event) -> AsyncRunner:
        """Return a worker of another process, whose model waits for an event."""
        agent = Agent("support", tools=[find_order, refund], model=HeldModel(may_reply))
        return AsyncRunner(agent, store=self.store, clock=self.clock)


@contextmanager
def run_chat() -> Generator[ChatScenes]:
    """Serve a console without a worker."""
    scenes = ChatScenes()
    with serve_console(scenes) as scenes.base_url:
        yield scenes
