"""A support chat: replies stream, and a refund waits for a colleague.

    STAFF_PASSWORD=sesame uvicorn app:app       # in this folder

    http://localhost:8000                       a customer: a new conversation
    http://localhost:8000/staff/chats/KEY       the same one, with buttons to decide

Kill the server with `kill -9` while it writes, and start it again: the open pages
connect again, and the reply begins anew. Each text appears once.
"""

import asyncio
import os
import re
import secrets
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, HTTPException
from fastapi import Path as InPath
from fastapi.responses import FileResponse, RedirectResponse
from fastapi.security import HTTPBasic, HTTPBasicCredentials
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, Field

from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    Continuation,
    ContinuationsError,
    Deny,
    tool,
)
from continuations.errors import AlreadyDecided
from continuations.events import (
    LiveTranscript,
    MessageAdded,
    ReplyGiven,
    TextDelta,
    WaitDecided,
    WaitOpened,
)
from continuations.models.interface import (
    ModelDelta,
    ModelReply,
    ModelRequest,
    PendingReply,
)
from continuations.models.scripted import ScriptedModel, ScriptedReply, ToolCall
from continuations.serve.lifespan import worker_lifespan

PAGE = Path(__file__).with_name("chat.html")
REFUNDS = Path("refunds.txt")  # takes the place of a bank
WORD_SECONDS = float(os.environ.get("WORD_SECONDS", "0.06"))
STAFF_PASSWORD = os.environ.get("STAFF_PASSWORD") or secrets.token_urlsafe(16)

# The agent -------------------------------------------------------------------------


@tool(approval=True, summary="Refund {cents:money/100} EUR for order {order}")
def refund(order: str, cents: int) -> str:
    """Pay the money for an order back to its customer."""
    with REFUNDS.open("a") as bank:
        bank.write(f"{cents} cents for {order}\n")
    return f"{cents / 100:.2f} EUR are on their way for order {order}."


def scripted_reply(request: ModelRequest) -> ScriptedReply:
    """Return the reply of a model, so that the example runs without an API key."""
    last = request.messages[-1]
    text = str(last.content)
    if last.role == "tool":
        if text.startswith("DENIED"):
            return f"I am sorry, a colleague looked at it and said no. {text[8:]}"
        return f"Good news: {text} It takes about three days."
    order = re.search(r"\b[A-Z]-\d{1,6}\b", text)
    if order:
        return ToolCall("refund", {"order": order[0], "cents": 1250})
    if re.search("refund|money|broken", text, re.IGNORECASE):
        return "I am sorry to hear that. Which order is it? The number looks like A-17."
    return (
        "Hello, and thank you for your message! I can look up an order, explain how to "
        "send something back, or refund what arrived broken. A colleague checks each "
        "refund before I pay it. What can I do for you today?"
    )


class SlowModel(ScriptedModel):
    """A scripted model that writes as slowly as a real one."""

    async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
        """Reply, one word after the other."""
        hand_on = request.on_delta
        if hand_on is None:
            return await super().reply(request)

        async def hand_on_slowly(delta: ModelDelta) -> None:
            await asyncio.sleep(WORD_SECONDS)
            await hand_on(delta)

        return await super().reply(replace(request, on_delta=hand_on_slowly))


support = Agent(
    "support",
    instructions="You help customers. Broken goods are refunded in full.",
    tools=[refund],
    model="gpt-5-mini" if "OPENAI_API_KEY" in os.environ else SlowModel(scripted_reply),
)

runner = AsyncRunner(
    support,
    store=os.environ.get("STORE", "sqlite:chats.db"),
    lease=5,  # a restarted server takes over after so many seconds
)

# The application -------------------------------------------------------------------

Key = Annotated[str, InPath(pattern="^[A-Za-z0-9_-]{1,64}$")]
app = FastAPI(title="Support chat", lifespan=worker_lifespan(runner, interval=1))


def staff(credentials: Annotated[HTTPBasicCredentials, Depends(HTTPBasic())]) -> str:
    """Return the name of a colleague who knows the password."""
    given, right = credentials.password.encode(), STAFF_PASSWORD.encode()
    if not credentials.username or not secrets.compare_digest(given, right):
        raise HTTPException(401, headers={"WWW-Authenticate": "Basic"})
    return credentials.username


Staff = Annotated[str, Depends(staff)]


class NewMessage(BaseModel):
    """A message of a page; a page sends it again until it has a response."""

    id: str = Field(min_length=1, max_length=64)
    text: str = Field(min_length=1, max_length=4000)


class Verdict(BaseModel):
    """The decision of a colleague about what the page showed."""

    wait: str
    shown: str
    decision: Literal["approve", "deny"]
    reason: str | None = None


@app.get("/")
async def new_chat() -> RedirectResponse:
    """Begin a conversation; its key is its secret."""
    return RedirectResponse(f"/chats/{secrets.token_urlsafe(16)}", status_code=303)


@app.get("/chats/{key}")
async def chat_page(key: Key) -> FileResponse:
    """Show the page of a customer."""
    del key  # the page reads it from its address
    return FileResponse(PAGE)


@app.get("/staff/chats/{key}")
async def staff_page(key: Key, _: Staff) -> FileResponse:
    """Show the page of a colleague."""
    del key
    return FileResponse(PAGE)


@app.post("/chats/{key}/messages", status_code=202)
async def send(key: Key, message: NewMessage) -> dict[str, int]:
    """Store a message; the worker of this process, or of another one, answers it."""
    thread = runner.thread("support", key=key)
    ticket = await thread.post(message.text, by="customer", id=message.id)
    return {"number": ticket.number}


@app.post("/staff/decisions")
async def decide(verdict: Verdict, person: Staff) -> dict[str, str]:
    """Record a decision; it covers only what the colleague saw."""
    decision = (
        Approve(by=person, reason=verdict.reason)
        if verdict.decision == "approve"
        else Deny(by=person, reason=verdict.reason)
    )
    try:
        await runner.decide(verdict.wait, decision, shown=verdict.shown)
    except AlreadyDecided as error:
        raise HTTPException(409, str(error)) from None
    except ContinuationsError as error:
        raise HTTPException(422, str(error)) from None
    return {"decision": verdict.decision}


@app.get("/chats/{key}/events", response_class=EventSourceResponse)
async def events(key: Key) -> AsyncGenerator[ServerSentEvent]:
    """Stream a conversation: first as a whole, then each change."""
    thread = runner.thread("support", key=key)
    state = await thread.look()
    yield ServerSentEvent(data=conversation(state), retry=500)
    writing = LiveTranscript()
    async for event in thread.follow(after=state or "", words=True):
        writing.add(event)
        if isinstance(event, TextDelta):  # a word costs no look at the store
            yield ServerSentEvent(data={"writing": being_written(writing)})
        elif isinstance(event, MessageAdded | ReplyGiven | WaitOpened | WaitDecided):
            shown = conversation(await thread.look())
            yield ServerSentEvent(data={**shown, "writing": being_written(writing)})


def being_written(transcript: LiveTranscript) -> str:
    """Return the beginning of the reply that is being written, or ""."""
    texts = [each.text for each in transcript.texts if not each.is_complete]
    return texts[0] if texts else ""


def conversation(state: Continuation | None) -> dict[str, Any]:
    """Return all that a page shows."""
    if state is None:
        return {"messages": [], "waits": [], "writing": "", "status": "resting"}
    failure = state.failure
    return {
        "messages": [
            {"role": each["role"], "text": each["content"]}
            for each in state.root.messages
            if each["role"] in ("user", "assistant") and each.get("content")
        ],
        "waits": [
            {"id": wait.id, "shown": wait.digest, "title": wait.title or wait.tool}
            for wait in state.waits
            if wait.rules.asks_person
        ],
        "writing": "",
        "status": state.status,
        "failure": None if failure is None else failure.code,
    }
