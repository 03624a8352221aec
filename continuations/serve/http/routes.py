"""What the desk answers on each path, and the table of paths.

Each answer translates, calls the runner and translates back. Deciding loads no more
than a runner does: pages and the document are imported where they are answered.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from continuations.errors import RunBusy, StaleRun, WaitNotFound
from continuations.ledger import layout
from continuations.present import json_forms
from continuations.serve.http import decision_bodies, problems
from continuations.serve.http.request_response import Response, json_response
from continuations.serve.run_responses import (
    outcome_response,
    run_response,
    sweep_response,
)

if TYPE_CHECKING:
    from continuations.engine.async_runner import AsyncRunner
    from continuations.engine.outcomes import Outcome
    from continuations.ledger.claims import Clock
    from continuations.serve.dispatch import Dispatcher
    from continuations.serve.http.links import Links
    from continuations.serve.http.request_response import Request
    from continuations.wire.continuation import Continuation

MAX_PAGE_SIZE = 1000
DEFAULT_PAGE_SIZE = 100

_log = logging.getLogger("continuations")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """One request, with who asks, what its path names, and what to answer it with.

    `by` is the verified identity; on a path of its own right it is empty.
    """

    request: Request
    path_params: Mapping[str, str]
    by: str
    runner: AsyncRunner
    links: Links | None
    dispatcher: Dispatcher | None
    clock: Clock

    async def wake(self, run_id: str) -> bool:
        """Have a run resumed; `False` if nobody could be asked to, which is logged.

        The decision stands either way, and a sweep finds it.
        """
        if self.dispatcher is None:
            return False
        try:
            await self.dispatcher.wake(run_id)
        except (RunBusy, StaleRun):
            # Whoever holds the run looks at what came before it stops.
            return False
        except Exception:  # noqa: BLE001 - a decision that stands is never an error
            words = "run %s is decided, but could not be woken; a sweep resumes it"
            _log.warning(words, run_id, exc_info=True)
            return False
        return True


RouteHandler: TypeAlias = Callable[[RequestContext], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One path, with who answers each of its methods.

    `open` ones need no identity; `page` ones are answered with pages for people.
    """

    path: str
    handlers: Mapping[str, RouteHandler]
    is_public: bool = False
    is_html_page: bool = False
    _segments: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Split the path once."""
        object.__setattr__(self, "_segments", tuple(self.path.split("/")))

    @property
    def methods(self) -> str:
        """The methods that the path takes, as `Allow` lists them."""
        heads = ["HEAD"] if "GET" in self.handlers else []
        return ", ".join(sorted([*self.handlers, *heads, "OPTIONS"]))

    def match(self, path: str) -> Mapping[str, str] | None:
        """Return what a path names, or `None` if it is another one."""
        given = path.split("/")
        if len(given) != len(self._segments):
            return None
        names: dict[str, str] = {}
        for part, value in zip(self._segments, given, strict=True):
            if part.startswith("{"):
                names[part[1:-1]] = value
            elif part != value:
                return None
        return names


async def healthz(_: RequestContext) -> Response:
    """Tell that this process answers; the store is not asked."""
    return json_response({"status": "ok"})


async def openapi(_: RequestContext) -> Response:
    """Describe the desk."""
    from continuations.serve.http.openapi import document  # noqa: PLC0415 - rarely needed

    return json_response(document())


async def list_waits(context: RequestContext) -> Response:
    """List open waits from their keys alone, a page at a time."""
    limit = _parse_limit(context.request)
    after = _parse_after(context.request)
    found: list[dict[str, str]] = []
    last = None
    async for summary in context.runner.waiting(after=after):
        if len(found) == limit:
            last = found[-1]["id"]
            break
        found.append(json_forms.wait_summary_json(summary))
    return json_response({"waits": found, "next": last})


async def show_wait(context: RequestContext) -> Response:
    """Show a wait with all that a decider needs."""
    wait = await context.runner.wait(context.path_params["wait_id"])
    return json_response(json_forms.wait_json(wait, now=context.clock.now()))


async def decide(context: RequestContext) -> Response:
    """Record a decision, then have the run resumed."""
    wait_id = context.path_params["wait_id"]
    verdict = decision_bodies.verdict_from_json(context.request, context.by)
    decision = await context.runner.decide(wait_id, verdict)
    woken = await context.wake(layout.parse_wait_id(wait_id).run_id)
    return json_response(
        {"decision": json_forms.decision_json(decision), "woken": woken}
    )


async def start(context: RequestContext) -> Response:
    """Begin a run and work on it until it ends or must wait, here and now.

    The caller gives the run's id, so that asking twice begins one run.
    """
    said = decision_bodies.parse_json_object(context.request)
    decision_bodies.refuse_unknown_fields(said, frozenset({"run_id", "input", "agent"}))
    # As long as a body may be: who may begin runs says what they are about.
    given = decision_bodies.optional_text(
        said, "input", max_chars=len(context.request.body)
    )
    run_id = decision_bodies.optional_text(said, "run_id")
    if not given or run_id is None:
        raise problems.malformed('A run is begun with a "run_id" and an "input".')
    agent = decision_bodies.optional_text(said, "agent")
    outcome = await context.runner.start(given, run_id=run_id, agent=agent)
    return await _outcome_response(context, outcome)


async def show_run(context: RequestContext) -> Response:
    """Show how a run stands."""
    run = await context.runner.look(context.path_params["run_id"])
    return await _run_response(context, run)


async def resume(context: RequestContext) -> Response:
    """Resume a run: by the dispatcher if there is one, else here and now."""
    run_id = layout.check_run_id(context.path_params["run_id"])
    if context.dispatcher is not None:
        await context.dispatcher.wake(run_id)
        return json_response({"run_id": run_id, "woken": True}, 202)
    outcome = await context.runner.resume(run_id)
    return await _outcome_response(context, outcome)


async def cancel(context: RequestContext) -> Response:
    """End a run for good."""
    # A body is asked for so that no form of a foreign page can end a run.
    said = decision_bodies.parse_json_object(context.request)
    decision_bodies.refuse_unknown_fields(said, frozenset({"reason"}))
    reason = decision_bodies.optional_text(said, "reason")
    run = await context.runner.cancel(
        context.path_params["run_id"], reason=reason, by=context.by
    )
    return await _run_response(context, run)


async def sweep(context: RequestContext) -> Response:
    """Look at every run whose time has come."""
    return json_response(sweep_response(await context.runner.sweep()))


async def show_link_page(context: RequestContext) -> Response:
    """Show the wait of a signed link; changes nothing."""
    from continuations.serve.http import link_pages  # noqa: PLC0415 - only people need pages

    return await link_pages.show(context)


async def decide_by_link(context: RequestContext) -> Response:
    """Decide the wait of a signed link."""
    from continuations.serve.http import link_pages  # noqa: PLC0415 - only people need pages

    return await link_pages.decide(context)


async def _outcome_response(context: RequestContext, outcome: Outcome) -> Response:
    form = await outcome_response(context.runner.store, context.clock, outcome)
    return json_response(form)


async def _run_response(context: RequestContext, run: Continuation) -> Response:
    return json_response(await run_response(context.runner.store, context.clock, run))


def _parse_limit(request: Request) -> int:
    given = request.query.get("limit", str(DEFAULT_PAGE_SIZE))
    digits = (
        given.isascii() and given.isdigit() and len(given) <= len(str(MAX_PAGE_SIZE))
    )
    if not digits or not 1 <= int(given) <= MAX_PAGE_SIZE:
        msg = f'"limit" is a number from 1 to {MAX_PAGE_SIZE}.'
        raise problems.malformed(msg)
    return int(given)


def _parse_after(request: Request) -> str:
    after = request.query.get("after", "")
    try:
        if after:
            layout.parse_wait_id(after)
    except WaitNotFound:
        raise problems.malformed('"after" is the id of a wait.') from None
    return after


ROUTES = (
    Route(path="/healthz", handlers={"GET": healthz}, is_public=True),
    Route(path="/openapi.json", handlers={"GET": openapi}),
    Route(path="/waits", handlers={"GET": list_waits}),
    Route(path="/waits/{wait_id}", handlers={"GET": show_wait}),
    Route(path="/waits/{wait_id}/decision", handlers={"POST": decide}),
    Route(path="/runs", handlers={"POST": start}),
    Route(path="/runs/{run_id}", handlers={"GET": show_run}),
    Route(path="/runs/{run_id}/resume", handlers={"POST": resume}),
    Route(path="/runs/{run_id}/cancel", handlers={"POST": cancel}),
    Route(path="/sweep", handlers={"POST": sweep}),
    Route(
        path="/d/{token}",
        handlers={"GET": show_link_page, "POST": decide_by_link},
        is_public=True,
        is_html_page=True,
    ),
)
