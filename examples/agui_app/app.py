"""A support chat by AG-UI: the agent asks the customer, and a colleague approves.

    npm install && npm run build                # in this folder, once
    STAFF_PASSWORD=sesame uvicorn app:app

    http://localhost:8000                       a customer: a new conversation
    http://localhost:8000/staff/KEY             the same one for a colleague

Any number of servers may share one store. Each turn may go to another one, also after
`kill -9` of the server that asked.
"""

import asyncio
import base64
import binascii
import os
import re
import secrets
from dataclasses import replace
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request as PageRequest
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from continuations import Agent, ApprovalPolicy, AsyncRunner, Identity, ask_person, tool
from continuations.interop import agui
from continuations.models.interface import (
    ModelDelta,
    ModelReply,
    ModelRequest,
    PendingReply,
)
from continuations.models.scripted import ScriptedModel, ScriptedReply, ToolCall
from continuations.serve.http.api import Request
from continuations.serve.lifespan import worker_lifespan
from continuations.serve.rights import Act

FOLDER = Path(__file__).parent
SCRIPT = Path(os.environ.get("PAGE_SCRIPT", FOLDER / "page.js"))
REFUNDS = Path("refunds.txt")  # takes the place of a bank
WORD_SECONDS = float(os.environ.get("WORD_SECONDS", "0.06"))
STAFF_PASSWORD = os.environ.get("STAFF_PASSWORD") or secrets.token_urlsafe(16)

# The agent -------------------------------------------------------------------------


@tool(
    approval=ApprovalPolicy(approvers=["group:staff"]),
    summary="Refund {cents:money/100} EUR for order {order}",
)
def refund(order: str, cents: int) -> str:
    """Pay the money for an order back to its customer."""
    with REFUNDS.open("a") as bank:
        bank.write(f"{cents} cents for {order}\n")
    return f"{cents / 100:.2f} EUR are on their way for order {order}."


def scripted_reply(request: ModelRequest) -> ScriptedReply:
    """Return the reply of a model, so that the example runs without an API key."""
    last = request.messages[-1]
    text = str(last.content)
    order = re.search(r"\b[A-Z]-\d{1,6}\b", text)
    if last.role == "tool" and text.startswith("DENIED"):
        return "I am sorry, a colleague looked at it and said no."
    if last.role == "tool" and "on their way" in text:
        return f"Good news: {text} It takes about three days."
    if order:
        question = "May we ask what was wrong with it?"
        calls = [ToolCall("ask_person", {"question": question})]
        pay_back = ToolCall("refund", {"order": order[0], "cents": 1250})
        return [*calls * (last.role == "user"), pay_back]
    if last.role == "tool":
        return "I cannot find this order. Please look at your receipt and write again."
    if re.search("refund|money|broken", text, re.IGNORECASE):
        question = "Which order is it? The number looks like A-17."
        return ToolCall("ask_person", {"question": question})
    return (
        "Hello, and thank you for your message! I refund what arrived broken. "
        "A colleague checks each refund before I pay it. What can I do for you today?"
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
    tools=[refund, ask_person],
    model="gpt-5-mini" if "OPENAI_API_KEY" in os.environ else SlowModel(scripted_reply),
)

runner = AsyncRunner(
    support,
    store=os.environ.get("STORE", "sqlite:chats.db"),
    lease=5,  # another server takes over after so many seconds
)

# Who sends a turn, and what they may -------------------------------------------------


def colleague(authorization: str) -> Identity | None:
    """Return the colleague who knows the password."""
    try:
        login = base64.b64decode(authorization.removeprefix("Basic ")).decode()
    except (binascii.Error, ValueError):
        return None
    name, _, password = login.partition(":")
    is_right = secrets.compare_digest(password.encode(), STAFF_PASSWORD.encode())
    return Identity(name, groups=["staff"]) if name and is_right else None


def verify_colleague(request: Request) -> Identity | None:
    """Return the colleague who sends a turn."""
    return colleague(request.headers.get("authorization", ""))


def verify_customer(request: Request) -> str:
    """Return the name of all customers; the key of a conversation is its secret."""
    del request
    return "customer"


def can(identity: Identity, act: Act, run: str | None) -> bool:
    """Customers write and answer; the approval policy says who approves a refund."""
    del identity, run
    return act in ("view", "read", "message", "decide")


# The pages ---------------------------------------------------------------------------


async def new_chat(request: PageRequest) -> Response:
    """Begin a conversation."""
    del request
    return RedirectResponse(f"/chats/{secrets.token_urlsafe(16)}", status_code=303)


async def page(request: PageRequest) -> Response:
    """Show a conversation."""
    authorization = request.headers.get("authorization", "")
    if request.url.path.startswith("/staff/") and not colleague(authorization):
        challenge = {"www-authenticate": 'Basic realm="staff"'}
        return Response("Log in.", status_code=401, headers=challenge)
    return FileResponse(FOLDER / "page.html")


async def script(request: PageRequest) -> Response:
    """Serve the script of the page: `page.mjs` with the client of AG-UI."""
    del request
    return FileResponse(SCRIPT, media_type="text/javascript")


app = Starlette(
    routes=[
        Route("/", new_chat),
        Route("/chats/{key}", page),
        Route("/page.js", script),
        Mount("/agent", agui.app(runner, verify=verify_customer, can=can)),
        # Browsers send a login to addresses beside and below that of the page.
        Mount("/staff/agent", agui.app(runner, verify=verify_colleague, can=can)),
        Route("/staff/{key}", page),
    ],
    lifespan=worker_lifespan(runner, interval=1),
)
