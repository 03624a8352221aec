"""The handler of both functions of template.yaml: `handler.handle`.

The environment variable AGENTS names the worker's agents. The API function has none: it
only shows and decides.
"""

import hmac
import os

from continuations import Wait
from continuations.serve.aws_lambda import handler
from continuations.serve.http.links import Links
from continuations.serve.http.request_response import Request

# The worker makes links. The API function only reads them and does not need the URL,
# which a template cannot give to the function that it belongs to.
links = Links(
    os.environ["LINK_SECRET"],
    base_url=os.environ.get("API_URL", "https://unused.invalid"),
)


def verify(request: Request) -> str | None:
    """Return "api" for a request with the token. Add your own identities."""
    token = os.environ.get("API_TOKEN")
    authorization = request.headers.get("authorization", "")
    if token and hmac.compare_digest(
        authorization.encode(), f"Bearer {token}".encode()
    ):
        return "api"
    return None


def notify(wait: Wait) -> None:
    """Send the approver a signed link, which can decide this one wait."""
    import boto3  # noqa: PLC0415 - the API function does not need it

    boto3.client("sns").publish(
        TopicArn=os.environ["APPROVERS"],
        Subject="A run waits for your decision",
        # The arguments may be private, so only the page behind the link shows them.
        Message=f"{' > '.join(wait.path)}: open and decide at\n\n{links.link(wait)}\n",
    )


handle = handler(
    store=os.environ["STORE"],
    agents=os.environ.get("AGENTS"),
    verify=verify,
    links=links,
    wake=f"sqs:{os.environ['WAKE_QUEUE_URL']}",
    notify=notify,
)
