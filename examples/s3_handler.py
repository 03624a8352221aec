"""The handler of s3_demo.py: the agents of three_deep.py, in AWS Lambda."""

import os
from pathlib import Path

from continuations.serve.aws_lambda import handler
from continuations.serve.http.request_response import Request


def verify(request: Request) -> str | None:
    """Return the name in a header, which is enough for an example on loopback."""
    return request.headers.get("x-who")


def effects_file() -> Path:
    """Return the file that records effects; the tools get it as `ctx.context`."""
    return Path(os.environ["LEDGER"])


handle = handler(
    store=os.environ["STORE"],
    agents="three_deep:orchestrator",
    context=effects_file,
    verify=verify,
    wake=f"sqs:{os.environ['QUEUE']}",
)
