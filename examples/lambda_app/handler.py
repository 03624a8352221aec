"""What AWS calls: `handler.handle`, for the desk and for the worker (template.yaml).

The worker is told by AGENTS which agents it runs; the desk has none, and decides only.
"""

import hmac
import os

from continuations import Wait
from continuations.serve.aws_lambda import handler
from continuations.serve.http.links import Links
from continuations.serve.http.request_response import Request

# The worker makes the links. The desk only reads them and needs no address for that,
# which is just as well: a function cannot be told its own URL by its template.
links = Links(
    os.environ["LINK_SECRET"],
    base_url=os.environ.get("DESK_URL", "https://nowhere.invalid"),
)


def verify(request: Request) -> str | None:
    """Tell who asks: one program, by its token. Put your own identities here."""
    token = os.environ.get("API_TOKEN")
    given = request.headers.get("authorization", "")
    if token and hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        return "api"
    return None


def notify(wait: Wait) -> None:
    """Send the approver a link; whoever holds it may decide this one wait."""
    import boto3  # noqa: PLC0415 - the desk never gets here

    boto3.client("sns").publish(
        TopicArn=os.environ["APPROVERS"],
        Subject="A run waits for you",
        # Its arguments are for the page, which shows them safely and to you alone.
        Message=f"{' > '.join(wait.path)}: look and decide at\n\n{links.link(wait)}\n",
    )


handle = handler(
    store=os.environ["STORE"],
    agents=os.environ.get("AGENTS"),
    verify=verify,
    links=links,
    wake=f"sqs:{os.environ['WAKES_URL']}",
    notify=notify,
)
