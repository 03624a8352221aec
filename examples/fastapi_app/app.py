"""A FastAPI application with an agent and the HTTP API to decide its waits.

    uvicorn app:app                                     # in this directory

    curl -X POST localhost:8000/refunds/A-17
    # open the printed link and decide

A suspended run is only in its store: stop this process and start it again before you
decide.
"""

import os
import secrets
from hmac import compare_digest
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, HTTPException
from fastapi import Path as InPath

from continuations import Agent, AsyncRunner, Wait, tool
from continuations.errors import RunNotFound
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ScriptedReply, ToolCall
from continuations.serve.dispatch import InlineDispatcher
from continuations.serve.http import asgi
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.links import Links

REFUNDS = Path("refunds.txt")  # takes the place of a bank
BASE_URL = os.environ.get("BASE_URL", "http://localhost:8000")
# Without LINK_SECRET, links are valid until this process ends.
SECRET = os.environ.get("LINK_SECRET") or secrets.token_hex(32)
# The API keys and their owners: "kim=…,lee=…". An empty key ("kim=$UNSET") is ignored,
# and without keys no one may use the API.
API_KEYS = {
    person: key
    for person, _, key in (
        each.partition("=") for each in os.environ.get("API_KEYS", "").split(",")
    )
    if person and key
}


@tool(approval=True)
def refund(order: str, cents: int) -> str:
    """Pay the money for an order back to its customer."""
    with REFUNDS.open("a") as bank:
        bank.write(f"{cents} cents for {order}\n")
    return f"Refunded {cents} cents for order {order}."


def scripted_reply(request: ModelRequest) -> ScriptedReply:
    """Return the reply of a model, so that the example runs without an API key."""
    last = request.messages[-1]
    if last.role == "user":
        order = str(last.content).rsplit(" ", 1)[-1]
        return ToolCall("refund", {"order": order, "cents": 1250})
    return f"About your order: {last.content}"


support = Agent(
    "support",
    instructions="You help customers. Broken goods are refunded in full.",
    tools=[refund],
    model="gpt-5-mini"
    if "OPENAI_API_KEY" in os.environ
    else ScriptedModel(scripted_reply),
)

links = Links(SECRET, base_url=f"{BASE_URL}/agents")


def notify(wait: Wait) -> None:
    """Print a signed link for a wait."""
    print(f"Decide {wait.tool} {wait.arguments}: {links.link(wait)}", flush=True)


def verify(request: Request) -> str | None:
    """Return the owner of the request's API key, or `None`."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    identity = None
    for person, api_key in API_KEYS.items():
        if compare_digest(api_key.encode(), key.encode()):
            identity = person
    return identity


runner = AsyncRunner(support, store="sqlite:runs.db", notify=notify)
api = HttpApi(runner, verify=verify, links=links, dispatcher=InlineDispatcher(runner))

Order = Annotated[str, InPath(pattern="^[A-Z]-[0-9]{1,6}$")]

app = FastAPI(title="Refunds")
app.mount("/agents", asgi.app(api))


@app.post("/refunds/{order}")
async def request_refund(order: Order) -> dict[str, str]:
    """Start a run for an order; a repeated request starts no second run."""
    outcome = await runner.start(f"Order {order}", run_id=f"refund-{order}")
    return {"run": outcome.run_id, "status": outcome.continuation.status}


@app.get("/refunds/{order}")
async def show_refund(order: Order) -> dict[str, str | None]:
    """Return the status of an order's refund."""
    try:
        run = await runner.look(f"refund-{order}")
    except RunNotFound as error:
        raise HTTPException(404, str(error)) from None
    return {"run": run.run_id, "status": run.status, "output": run.output}
