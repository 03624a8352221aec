"""The handler that the tests deploy: the office of `tests.engine`, set up by its world.

STORE, WAKE, MARGIN and LEASE say the rest; who asks is believed from a header.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from continuations.serve.aws_lambda import handler

if TYPE_CHECKING:
    from continuations.serve.aws.lambda_runner import LambdaContext
    from continuations.serve.http.request_response import Request


def verify(request: Request) -> str | None:
    """Believe a header: who can forge it is not the matter of these tests."""
    return request.headers.get("x-who")


handle = handler(
    store=os.environ["STORE"],
    agents=os.environ.get("AGENTS", "tests.sample_app:agents"),
    verify=verify,
    wake=os.environ.get("WAKE", "inline"),
    margin=float(os.environ.get("MARGIN", "10")),
    lease=float(os.environ.get("LEASE", "30")),
)


def handle_and_report(event: object, context: LambdaContext) -> dict[str, Any]:
    """Answer, and tell which process did so and what it had to import."""
    answer = handle(event, context)
    return {"answer": answer, "pid": os.getpid(), "modules": sorted(sys.modules)}
