"""A console for uvicorn in a process of its own, with a worker unless TEST_WORKS is no.

TEST_STORE is the store, and TEST_LIVE is how pages hear of changes. Its agent writes as
`tests.stepped_writer` says.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, cast

from continuations import AsyncRunner
from continuations.serve import console
from continuations.serve.console import live_pages
from continuations.serve.lifespan import worker_lifespan
from tests.stepped_writer import make_runner

if TYPE_CHECKING:
    from continuations.serve.http.request_response import Request

_WORKS = os.environ.get("TEST_WORKS") != "no"


def _verify(_: Request) -> str:
    """Trust every client of this test."""
    return "kim"


_store = os.environ["TEST_STORE"]
runner = make_runner(_store) if _WORKS else AsyncRunner([], store=_store)
live_pages.POLL_SECONDS = 1
app = console.app(
    runner,
    verify=_verify,
    live=cast("Literal['events', 'poll']", os.environ["TEST_LIVE"]),
    lifespan=worker_lifespan(runner, interval=0.05) if _WORKS else None,
)
