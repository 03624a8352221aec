"""What the desk answers on each path, and the table of paths.

Each answer translates, calls the runner and translates back. Deciding loads no more
than a runner does: pages and the document are imported where they are answered.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.engine.reports import decision_json, wait_json
from continuations.errors import RunBusy, StaleRun, WaitNotFound
from continuations.ledger import layout
from continuations.ledger.arrivals import decided_waits
from continuations.ledger.objects import Objects
from continuations.serve import problems, verdicts
from continuations.serve.http import Response, as_json

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.waits import Wait, WaitSummary
    from continuations.engine.runner import AsyncRunner
    from continuations.ledger.claims import Clock
    from continuations.serve.dispatch import Dispatcher
    from continuations.serve.http import Request
    from continuations.serve.links import Links
    from continuations.wire.continuation import Continuation

MOST_WAITS = 1000
USUAL_WAITS = 100

_log = logging.getLogger("continuations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request, with who asks, what its path names, and what to answer it with.

    `by` is the verified identity; on a path of its own right it is empty.
    """

    request: Request
    names: Mapping[str, str]
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


Answering: TypeAlias = Callable[[Ask], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One path, with who answers each of its methods.

    `open` ones need no identity; `page` ones are answered with pages for people.
    """

    path: str
    answers: Mapping[str, Answering]
    open: bool = False
    page: bool = False
    _parts: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Split the path once."""
        object.__setattr__(self, "_parts", tuple(self.path.split("/")))

    @property
    def methods(self) -> str:
        """The methods that the path takes, as `Allow` lists them."""
        heads = ["HEAD"] if "GET" in self.answers else []
        return ", ".join(sorted([*self.answers, *heads, "OPTIONS"]))

    def match(self, path: str) -> Mapping[str, str] | None:
        """Return what a path names, or `None` if it is another one."""
        given = path.split("/")
        if len(given) != len(self._parts):
            return None
        names: dict[str, str] = {}
        for part, value in zip(self._parts, given, strict=True):
            if part.startswith("{"):
                names[part[1:-1]] = value
            elif part != value:
                return None
        return names


async def healthz(_: Ask) -> Response:
    """Tell that this process answers; the store is not asked."""
    return as_json({"status": "ok"})


async def openapi(_: Ask) -> Response:
    """Describe the desk."""
    from continuations.serve.openapi import document  # noqa: PLC0415 - rarely needed

    return as_json(document())


async def list_waits(ask: Ask) -> Response:
    """List open waits from their keys alone, a page at a time."""
    limit = _limit(ask.request)
    after = _after(ask.request)
    found: list[dict[str, str]] = []
    last = None
    async for summary in ask.runner.waiting(after=after):
        if len(found) == limit:
            last = found[-1]["id"]
            break
        found.append(_summary(summary))
    return as_json({"waits": found, "next": last})


async def show_wait(ask: Ask) -> Response:
    """Show a wait with all that a decider needs."""
    wait = await ask.runner.wait(ask.names["wait_id"])
    return as_json(_wait(wait, ask.clock.now()))


async def decide(ask: Ask) -> Response:
    """Record a decision, then have the run resumed."""
    wait_id = ask.names["wait_id"]
    verdict = verdicts.from_json(ask.request, ask.by)
    decision = await ask.runner.decide(wait_id, verdict)
    woken = await ask.wake(layout.parse_wait_id(wait_id).run_id)
    return as_json({"decision": decision_json(decision), "woken": woken})


async def start(ask: Ask) -> Response:
    """Begin a run and work on it until it ends or must wait, here and now.

    The caller gives the run's id, so that asking twice begins one run.
    """
    said = verdicts.json_object(ask.request)
    verdicts.refuse_others(said, frozenset({"run_id", "input", "agent"}))
    # As long as a body may be: who may begin runs says what they are about.
    given = verdicts.text(said, "input", most=len(ask.request.body))
    run_id = verdicts.text(said, "run_id")
    if not given or run_id is None:
        raise problems.malformed('A run is begun with a "run_id" and an "input".')
    agent = verdicts.text(said, "agent")
    outcome = await ask.runner.start(given, run_id=run_id, agent=agent)
    return as_json(await _run(ask, outcome.continuation))


async def show_run(ask: Ask) -> Response:
    """Show how a run stands."""
    run = await ask.runner.look(ask.names["run_id"])
    return as_json(await _run(ask, run))


async def resume(ask: Ask) -> Response:
    """Resume a run: by the dispatcher if there is one, else here and now."""
    run_id = layout.check_run_id(ask.names["run_id"])
    if ask.dispatcher is not None:
        await ask.dispatcher.wake(run_id)
        return as_json({"run_id": run_id, "woken": True}, 202)
    outcome = await ask.runner.resume(run_id)
    return as_json(await _run(ask, outcome.continuation))


async def cancel(ask: Ask) -> Response:
    """End a run for good."""
    # A body is asked for so that no form of a foreign page can end a run.
    said = verdicts.json_object(ask.request)
    verdicts.refuse_others(said, frozenset({"reason"}))
    reason = verdicts.text(said, "reason")
    run = await ask.runner.cancel(ask.names["run_id"], reason=reason, by=ask.by)
    return as_json(await _run(ask, run))


async def sweep(ask: Ask) -> Response:
    """Look at every run whose time has come."""
    swept = await ask.runner.sweep()
    now = ask.clock.now()
    failed = {
        run_id: problems.of(error, now=now, doing=f"sweeping run {run_id}").slug
        for run_id, error in swept.failed.items()
    }
    resumed = [
        {"run_id": outcome.run_id, "status": outcome.continuation.status}
        for outcome in swept.resumed
    ]
    return as_json({"looked": swept.looked, "resumed": resumed, "failed": failed})


async def show_page(ask: Ask) -> Response:
    """Show the wait of a signed link; changes nothing."""
    from continuations.serve import clicks  # noqa: PLC0415 - only people need pages

    return await clicks.show(ask)


async def decide_page(ask: Ask) -> Response:
    """Decide the wait of a signed link."""
    from continuations.serve import clicks  # noqa: PLC0415 - only people need pages

    return await clicks.decide(ask)


def _summary(summary: WaitSummary) -> dict[str, str]:
    return {
        "id": summary.id,
        "run_id": summary.run_id,
        "kind": summary.kind,
        "since": summary.since.isoformat(),
    }


def _wait(wait: Wait, now: datetime) -> dict[str, Any]:
    late = wait.deadline is not None and now > wait.deadline
    return {**wait_json(wait), "state": "expired" if late else "open"}


async def _run(ask: Ask, run: Continuation) -> dict[str, Any]:
    over = await _decided(ask, run)
    now = ask.clock.now()
    failure = run.failure
    return {
        "run_id": run.run_id,
        "version": run.version,
        "status": run.status,
        "output": run.output,
        "failure": failure and {"code": failure.code, "message": failure.message},
        "usage": asdict(run.usage),
        "waits": [_wait(wait, now) for wait in run.waits if wait.id not in over],
        "decided": [wait.id for wait in run.waits if wait.id in over],
    }


async def _decided(ask: Ask, run: Continuation) -> set[str]:
    """Return which waits are over: the version that names them may not know yet."""
    if not run.waits:
        return set()
    return set(await decided_waits(Objects(ask.runner.store), run.run_id))


def _limit(request: Request) -> int:
    given = request.query.get("limit", str(USUAL_WAITS))
    digits = given.isascii() and given.isdigit() and len(given) <= len(str(MOST_WAITS))
    if not digits or not 1 <= int(given) <= MOST_WAITS:
        msg = f'"limit" is a number from 1 to {MOST_WAITS}.'
        raise problems.malformed(msg)
    return int(given)


def _after(request: Request) -> str:
    after = request.query.get("after", "")
    try:
        if after:
            layout.parse_wait_id(after)
    except WaitNotFound:
        raise problems.malformed('"after" is the id of a wait.') from None
    return after


ROUTES = (
    Route(path="/healthz", answers={"GET": healthz}, open=True),
    Route(path="/openapi.json", answers={"GET": openapi}),
    Route(path="/waits", answers={"GET": list_waits}),
    Route(path="/waits/{wait_id}", answers={"GET": show_wait}),
    Route(path="/waits/{wait_id}/decision", answers={"POST": decide}),
    Route(path="/runs", answers={"POST": start}),
    Route(path="/runs/{run_id}", answers={"GET": show_run}),
    Route(path="/runs/{run_id}/resume", answers={"POST": resume}),
    Route(path="/runs/{run_id}/cancel", answers={"POST": cancel}),
    Route(path="/sweep", answers={"POST": sweep}),
    Route(
        path="/d/{token}",
        answers={"GET": show_page, "POST": decide_page},
        open=True,
        page=True,
    ),
)
