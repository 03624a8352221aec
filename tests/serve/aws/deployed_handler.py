"""The handler that the tests deploy: the sample application, set up by its environment.

STORE, AGENTS, WAKE, MARGIN and LEASE are options of the handler.
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
    """Return the name in a header, which is enough for these tests."""
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
    """Return the result, the process and the imported modules."""
    result = handle(event, context)
    return {"result": result, "pid": os.getpid(), "modules": sorted(sys.modules)}
