"""Tutorial, step 4: runs in a bucket, decisions over HTTP."""

import hmac
import os

from continuations import Agent, AsyncRunner, Wait, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.dispatch import InlineDispatcher
from continuations.serve.http import asgi
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.links import Links


@tool(approval=True)
def refund(order: str, cents: int) -> str:
    """Refund an order."""
    return f"Refunded {cents} cents for order {order}."


model = ScriptedModel(
    [ToolCall("refund", {"order": "A-17", "cents": 1250}), "The refund is on its way."]
)
support = Agent("support", tools=[refund], model=model)

links = Links(os.environ["LINK_SECRET"], base_url="https://agents.example.com")


def notify(wait: Wait) -> None:
    """Send the link to a person; this example prints it."""
    print(f"Approve {wait.tool} {wait.arguments}? {links.link(wait)}", flush=True)


def verify(request: Request) -> str | None:
    """Return the name of the caller, or None for an unknown caller."""
    given = request.headers.get("authorization", "")
    expected = f"Bearer {os.environ['API_KEY']}"
    return "kim" if hmac.compare_digest(given.encode(), expected.encode()) else None


# RUNS_STORE is "s3://bucket/prefix" in production.
runner = AsyncRunner(support, store=os.environ["RUNS_STORE"], notify=notify)
api = HttpApi(runner, verify=verify, links=links, dispatcher=InlineDispatcher(runner))
app = asgi.app(api)
