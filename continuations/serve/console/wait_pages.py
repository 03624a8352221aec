"""The page of one wait: `GET` shows it, `POST` decides it.

A form posts the digest of the call that its page showed. A post without it decides
nothing, and a post with the digest of another call gets the new page. The reply to a
decision is a page that says what was recorded. It has no button that decides: a person
who presses again decides nothing unread.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

from continuations.core.reading import run_stream
from continuations.core.rows.decisions import Decision
from continuations.engine.event_reading import read_window
from continuations.engine.tool_contexts import idempotency_key
from continuations.errors import (
    AlreadyDecided,
    Cancelled,
    ContinuationsError,
    DecisionRefused,
    RunErased,
    WaitExpired,
)
from continuations.ledger.arrivals.arrivals import read_cancel_request
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.objects import Objects
from continuations.present.json_forms import decided_values
from continuations.present.times import PageText, time_view
from continuations.present.wait_view import wait_view
from continuations.present.wait_words import agent_state, decision_word
from continuations.serve.console.decided_page import titles_of
from continuations.serve.console.page import Page, PageRoute, run_of_wait
from continuations.serve.console.run_page import snapshot_of
from continuations.serve.console.wait_list import WaitList
from continuations.serve.http import decision_bodies
from continuations.serve.http.answer_forms import field_errors
from continuations.serve.http.link_pages import EXPIRED_TEXT, decision_facts
from continuations.serve.http.request_response import Response, see_other
from continuations.serve.pages.decision_view import (
    Decider,
    decider_of,
    decision_view,
    form_view,
    recorded_view,
)
from continuations.serve.pages.run_tree import RunRows
from continuations.serve.pages.run_view import evidence_lines, run_title
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.reading.run_past import VersionWindow
    from continuations.core.rows.waits import Wait
    from continuations.engine.runner.async_runner import AsyncRunner

_CONFLICT, _REFUSED = 409, 422
_NEW_CALL = (
    "Nothing is recorded: the call is not the one that you saw.",
    "This page shows the call as it is now. Read it again before you decide.",
)
_CLOSED_TEXT = (
    "Closed",
    "The run was cancelled, has failed or was repaired. Nothing was approved.",
)
_NO_RIGHT = "You cannot decide this: you have no right to decide waits of this run."


async def show(page: Page) -> Response:
    """Show a wait, open or decided, and change nothing."""
    wait_id = page.params["wait"]
    try:
        wait = await page.runner.wait(wait_id)
    except AlreadyDecided as error:
        return await _decided_page(page, error.decision)
    except (WaitExpired, Cancelled) as error:
        return await _ended_page(page, error)
    return await wait_page(page, wait, await decider(page, wait))


async def decide(page: Page) -> Response:
    """Decide a wait, once."""
    wait_id = page.params["wait"]
    fields = page.form
    if fields.get("as") == "fields":
        wait = await page.runner.wait(wait_id)
        errors = field_errors(wait, fields)
        if errors:
            return await _again(page, wait, fields, errors)
    posted = decision_bodies.decision_from_fields(fields, page.identity)
    return await record(page, posted, fields)


async def record(
    page: Page, posted: decision_bodies.PostedDecision, fields: Mapping[str, str] | None
) -> Response:
    """Record a posted decision; return the page that says so.

    A refused decision gets the page of the wait with the posted fields. Without fields,
    the error is raised.
    """
    wait_id = page.params["wait"]
    before = await _open_wait(page)
    following = await WaitList.of(page).following(wait_id)
    try:
        result = await page.runner.decide(
            wait_id, posted.verdict, shown=posted.shown, door=page.door
        )
    except DecisionRefused as error:
        wait = await page.runner.wait(wait_id)
        if posted.shown != wait.digest:
            return await wait_page(
                page, wait, await decider(page, wait), _NEW_CALL, status=_CONFLICT
            )
        if fields is None:
            raise
        return await _again(page, wait, fields, {"": str(error)})
    if isinstance(result, Decision):
        page.live.waits.known.forget(wait_id)
        await page.wake(page.run_id)
    return page.render(
        "recorded.html",
        recorded=recorded_view(result, before),
        values=decided_values(result) if before else {},
        following=following,
        here=page.url(f"/waits/{wait_id}{WaitList.of(page).query}"),
        inbox=inbox_address(page),
        run=page.url(f"/runs/{page.run_id}") if before else "",
    )


async def _open_wait(page: Page) -> Wait | None:
    """Return the wait before its decision; `None` if the person may not read it.

    A decision that is posted twice finds no open wait, and is recorded once.
    """
    wait_id = page.params["wait"]
    if not await page.may("view", page.run_id):
        return None
    try:
        return await page.runner.wait(wait_id)
    except (AlreadyDecided, WaitExpired, Cancelled):
        return None


async def decider(page: Page, wait: Wait) -> Decider:
    """Return what the person of a request may do with a wait."""
    if not await page.may("decide", wait.run_id):
        return Decider(objection=_NO_RIGHT)
    person = page.identity
    groups = person.groups or None
    return decider_of(wait, person.name, groups=groups)


async def wait_page(
    page: Page,
    wait: Wait,
    person: Decider,
    bar: tuple[str, ...] = (),
    *,
    status: int = 200,
) -> Response:
    """Return the page of an open wait, with its neighbours in the list."""
    here = WaitList.of(page)
    bar = bar or _own_vote(person)
    events = _events(page, wait, person)
    around = await read_surroundings(page, wait)
    return page.render(
        "wait.html",
        shell=replace(page.shell, is_live=events is not None),
        status=status,
        wait=wait_view(wait, agent_state=around.agent_state, now=page.clock.now()),
        decision=decision_view(wait, person, page.clock.now()),
        bar=bar,
        is_refused=status == _CONFLICT,
        crumbs=await here.crumbs(wait.id),
        events=events,
        others=_others(page, wait, person, here.query),
        links={
            "Run": page.url(f"/runs/{wait.run_id}"),
            "evidence": page.url(f"/waits/{wait.id}/evidence"),
        },
        run_title=around.title if around.title != wait.run_id else "",
        started=around.started,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The facts about a wait that its run has.

    Attributes:
        title: The title of the run, or an empty text.
        agent_state: The stored state of the agent whose call waits, as JSON.
        started: When a call with an unknown outcome was started, by which process, and
            its idempotency key, by labels.
    """

    title: str = ""
    agent_state: str = ""
    started: Mapping[str, PageText] = field(default_factory=dict[str, PageText])


async def read_surroundings(page: Page, wait: Wait) -> Surroundings:
    """Read the run of a wait: its newest version, or its last ones for a start.

    A wait may be decided although the newest version of its run cannot be read.
    """
    with suppress(ContinuationsError):
        started: Mapping[str, PageText] = {}
        if wait.rules.may_have_run:
            window = await read_window(Objects(page.runner.store), wait.run_id)
            state, started = window.state, _start_facts(window, wait)
        else:
            state = (await page.runner.look(wait.run_id)).run_state
        return Surroundings(
            title=run_title(await page.shown(state)),
            agent_state=agent_state(state, wait),
            started=started,
        )
    return Surroundings()


def _start_facts(window: VersionWindow, wait: Wait) -> dict[str, PageText]:
    """Return what helps to look up in another system whether a call took effect."""
    facts: dict[str, PageText] = {}
    worker = ""
    for version in window.versions:
        for event in version.events:
            if isinstance(event, run_stream.Attempt):
                worker = event.worker
            elif isinstance(event, run_stream.CallStarted) and (
                event.call == wait.call_id
            ):
                facts = {"Started": time_view(version.at), "Process": worker}
    call = window.state.calls.get(wait.call_id)
    if call is not None:
        facts["Idempotency key"] = idempotency_key(window.state.run, call)
    return {label: fact for label, fact in facts.items() if fact}


async def show_evidence(page: Page) -> Response:
    """Lead to the call whose result is evidence of a wait."""
    number, key = page.params["number"], ""
    with suppress(ContinuationsError):  # it was decided meanwhile
        wait = await page.runner.wait(page.params["wait"])
        snapshot = await snapshot_of(page, wait.run_id, None)
        assert snapshot is not None  # noqa: S101 - only an open page gets no news
        rows = RunRows.of_window(snapshot.window, page.clock.now())
        row = rows.find(wait.call_id)
        lines = () if row is None else evidence_lines(row, wait)
        # More digits are the number of no line.
        if number.isdecimal() and int(number[:3]) < len(lines):
            key = lines[int(number[:3])][1]
    here = page.addresses()
    return see_other(here.call(key) if key else here.newest)


async def state(page: Page) -> Response:
    """Tell the reader of an open page who ended the wait; 204 while it is open."""
    wait_id = page.params["wait"]
    sentences: list[str | tuple[PageText, ...]] = []
    try:
        await page.runner.wait(wait_id)
    except AlreadyDecided as error:
        decision = error.decision
        by = ", ".join(decision.voters) or decision.rule or decision.by or "A program"
        title = f"{by} decided first: {decision_word(wait_id, decision.kind)}."
        if decision.reason:
            sentences.append(f"Reason: {decision.reason}")
    except (WaitExpired, Cancelled) as error:
        title = "This wait has ended without a decision."
        if isinstance(error, Cancelled):
            facts = await closing_facts(page.runner, wait_id)
            sentences = [(f"{label}: ", fact) for label, fact in facts.items()]
    except RunErased:
        title = "This run was erased."
    else:
        return page.unchanged()
    here = page.url(f"/waits/{wait_id}")
    return page.render("wait_state.html", title=title, sentences=sentences, here=here)


def _events(page: Page, wait: Wait, person: Decider) -> Mapping[str, str] | None:
    """Return where an open page hears of the end of its wait."""
    if not person.verdicts:
        return None
    return {
        "state": page.url(f"/waits/{wait.id}/state"),
        "stream": page.url(page.live.stream(page.live.waits.cursor)),
    }


async def _again(
    page: Page, wait: Wait, fields: Mapping[str, str], errors: Mapping[str, str]
) -> Response:
    """Return the page with the posted form, its texts, and the errors at its fields."""
    person = await decider(page, wait)
    person = person.with_errors(fields, errors)
    return await wait_page(page, wait, person, status=_REFUSED)


def _own_vote(person: Decider) -> tuple[str, ...]:
    if person.own_vote is None:
        return ()
    rule = "Your vote is recorded and cannot be changed."
    if person.verdicts:
        rule += " You can still end the wait, so that nothing runs."
    return (rule,)


def _others(
    page: Page, wait: Wait, person: Decider, query: str
) -> dict[str, tuple[str, str]]:
    """Return the addresses of the rare ways to decide, their words and what they do."""
    if not wait.rules.follows_policy or "approve" not in person.verdicts:
        return {}
    root = page.url(f"/waits/{wait.id}")
    ways = {
        f"{root}/edit{query}": (
            "Change arguments…",
            "You see the whole changed call before you approve it.",
        ),
        f"{root}/remember{query}": (
            "Approve and remember…",
            "This call runs. You choose which later calls run unasked, and how long.",
        ),
    }
    if wait.editable == () or not wait.arguments:
        del ways[f"{root}/edit{query}"]
    return ways


async def _decided_page(page: Page, decision: Decision) -> Response:
    """Return the page of a decided wait: who decided what, when, and how."""
    titles = await titles_of(page, [decision.wait_id])
    asked = titles.get(decision.wait_id)
    facts = {**({"Asked": asked} if asked else {}), **decision_facts(decision)}
    facts["Wait"] = decision.wait_id
    if decision.door is not None:
        facts["Through"] = decision.door
    run = page.url(f"/runs/{run_of_wait(decision.wait_id)}")
    links = {run: "Open the run", inbox_address(page): "Back to the inbox"}
    return page.message(
        "Already decided",
        "This decision is recorded and cannot be changed.",
        links,
        facts=facts,
        values=decided_values(decision),
    )


def inbox_address(page: Page) -> str:
    """Return the address of the list that a wait was opened from."""
    return page.url(f"/inbox{WaitList.of(page).query}")


async def _ended_page(page: Page, error: Exception) -> Response:
    is_expired = isinstance(error, WaitExpired)
    title, text = EXPIRED_TEXT if is_expired else _CLOSED_TEXT
    links = {inbox_address(page): "Back to the inbox"}
    wait_id = page.params["wait"]
    facts: dict[str, PageText] = {"Wait": wait_id}
    if not is_expired:
        facts |= await closing_facts(page.runner, wait_id)
    return page.message(title, text, links, facts=facts)


async def show_answer(page: Page) -> Response:
    """Show the form for an answer, below the whole call."""
    wait_id = page.params["wait"]
    wait = await page.runner.wait(wait_id)
    person = await decider(page, wait)
    if "answer" not in person.verdicts:
        return await wait_page(page, wait, person)
    form = form_view(wait, "answer", person, page.clock.now())
    return side_page(page, "wait_answer.html", wait, form=form)


def side_page(
    page: Page,
    template: str,
    wait: Wait,
    *,
    is_refused: bool = False,
    back_to: str = "",
    has_address: bool = True,
    **context: object,
) -> Response:
    """Return the page of a rare way to decide: the whole call, and one form.

    Args:
        page: The request.
        template: The name of the template.
        wait: The wait.
        is_refused: Whether the posted form was refused (status 422).
        back_to: The part of the address of the page before, after that of the wait.
        has_address: Whether a GET of the same address makes the same page.
        **context: The further views that the template names.
    """
    return page.render(
        template,
        status=_REFUSED if is_refused else 200,
        has_address=has_address,
        wait=wait_view(wait, now=page.clock.now()),
        back=page.url(f"/waits/{wait.id}{back_to}{WaitList.of(page).query}"),
        **context,
    )


ROUTES = (
    PageRoute("/waits/{wait}", show, rights=("view",)),
    PageRoute("/waits/{wait}", decide, ("POST",), ("decide",)),
    PageRoute("/waits/{wait}/state", state, rights=("view",)),
    PageRoute("/waits/{wait}/evidence/{number}", show_evidence, rights=("view",)),
    PageRoute("/waits/{wait}/answer", show_answer, rights=("decide",)),
    PageRoute("/waits/{wait}/answer", decide, ("POST",), ("decide",)),
)


async def closing_facts(runner: AsyncRunner, wait_id: str) -> dict[str, PageText]:
    """Return who closed a wait, when and why, as far as the store tells.

    A request to cancel the run precedes all that it closes.
    """
    objects = Objects(runner.store)
    closed = await read_decision(objects, wait_id)
    if closed is None:
        return {}
    request = await read_cancel_request(objects, run_of_wait(wait_id))
    if request is not None and closed.by is None and request.at <= closed.at:
        facts: dict[str, PageText | None] = {
            "Cancelled by": request.by,
            "At": time_view(request.at),
            "Reason": request.reason,
            "Through": request.door,
        }
    else:
        facts = {
            "Closed by": closed.by,
            "At": time_view(closed.at),
            "Reason": closed.reason,
        }
    return {label: fact for label, fact in facts.items() if fact}
