"""The acts of a person on a run: plain forms, each by its right.

An act that is one call of the runner is a row of a table; `past_pages` has one more.

Cancel and erase ask on a page of their own first. After a success, the browser is sent
to the page of the run (303), so that a reload repeats nothing. A person without the
right to view the run reads its id only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from continuations.core.rows.run import ENDED_STATUSES
from continuations.errors import StaleRun
from continuations.ledger import layout
from continuations.present.times import counted
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.http import problems
from continuations.serve.operation_calls import Sender, arguments_of, goes_on
from continuations.serve.operations import OPERATIONS
from continuations.serve.pages.run_view import run_title, wait_title

if TYPE_CHECKING:
    from continuations.serve.http.request_response import Response
    from continuations.wire.continuation import Continuation

_MAX_REASON_CHARS = 4000
_OPERATIONS = {each.id: each for each in OPERATIONS}

Fields: TypeAlias = Mapping[str, Any]


# The table ----------------------------------------------------------------------


def _no_fields(_: Page) -> Fields:
    return {}


class RunAct(NamedTuple):
    """One form that calls the runner.

    The operation says which right the person needs, which method is called, which facts
    about the sender the method takes, and whether the dispatcher gets the run.

    Attributes:
        part: The part of the address of the form, after that of the run.
        operation: The id of the operation. It is the name of the method too, if the
            operation has a function of its own over HTTP.
        fields: Reads the arguments of the method from the form, beside the id of the
            run.
        leads_to: The page that the person sees next; `result` is that of the method. A
            page of the run contains `{run}`: a person who may not view the run sees
            only that the request is recorded.
        if_stale: Returns the page after `StaleRun`: the form as it would be now.
        unconfirmed: Returns the page that asks again, if the form does not confirm the
            act; otherwise `None`. After a page, nothing is called.
        hands_over: Whether the dispatcher, if there is one, does it instead.
    """

    part: str
    operation: str
    fields: Callable[[Page], Fields] = _no_fields
    leads_to: str = "/runs/{run}"
    if_stale: Callable[[Page, StaleRun], Awaitable[Response]] | None = None
    unconfirmed: Callable[[Page], Awaitable[Response | None]] | None = None
    hands_over: bool = False

    @property
    def route(self) -> PageRoute:
        """The route of the form."""
        right = _OPERATIONS[self.operation].right
        rights = () if right is None else (right,)
        path = f"/runs/{{run}}/{self.part}"
        return PageRoute(path, self.perform, ("POST",), rights)

    async def perform(self, page: Page) -> Response:
        """Call the method, give the run to the dispatcher, and show the next page.

        Args:
            page: The posted form.

        Returns:
            The next page, or the page that asks again.

        Raises:
            RequestRefused: The form is invalid.
            ContinuationsError: The method failed; see `AsyncRunner`.
        """
        operation = _OPERATIONS[self.operation]
        asked = None if self.unconfirmed is None else await self.unconfirmed(page)
        if asked is not None:
            return asked
        if self.hands_over and page.dispatcher is not None:
            await page.dispatcher.wake(page.run_id)
            return await _next_page(page, self.leads_to)
        given = {"run_id": page.run_id, **self.fields(page)}
        sender = Sender(page.identity, page.door)
        values, named = arguments_of(operation, given, sender)
        method = getattr(page.runner, operation.call or operation.id)
        try:
            result = await method(*values, **named)
        except StaleRun as error:
            if self.if_stale is None:
                raise
            return await self.if_stale(page, error)
        if operation.wakes and goes_on(result):
            await page.wake(page.run_id)
        return await _next_page(page, self.leads_to, result)


async def _next_page(
    page: Page, path: str = "/runs/{run}", result: object = None
) -> Response:
    if "{run}" in path and not await page.may("view", page.run_id):
        return page.see_other(f"/recorded?run={page.run_id}")
    return page.see_other(path.format(run=page.run_id, result=result))


def _reopen_fields(_: Page) -> Fields:
    return {"reopen": True}


def _cancel_fields(page: Page) -> Fields:
    form = page.form
    reason = form.get("reason", "").strip()
    if len(reason) > _MAX_REASON_CHARS:
        raise problems.malformed(
            f"The reason has over {_MAX_REASON_CHARS} characters. Go back, and "
            "shorten it."
        )
    return {"call": form.get("call") or None, "reason": reason or None}


def _message_fields(page: Page) -> Fields:
    return {"text": page.posted_text, "id": page.form.get("id") or None}


def _signal_fields(page: Page) -> Fields:
    return {"name": page.form.get("name", "")}


def _grant_fields(page: Page) -> Fields:
    return {"grant": page.form.get("grant", "")}


async def _unconfirmed_erase(page: Page) -> Response | None:
    """Ask again unless the person typed the id of the run."""
    if page.form.get("typed", "").strip() == page.run_id:
        return None
    return await ask_erase(page, "This is not the id of the run.")


_ACTS = (
    RunAct("resume", "resume", hands_over=True),
    RunAct("pause", "pause"),
    RunAct("unpause", "unpause"),
    RunAct("signals", "dropSignals", _signal_fields),
    RunAct("wake", "wake"),
    RunAct("messages", "send", _message_fields, "/runs/{run}/messages"),
    RunAct("cancel", "cancel", _cancel_fields),
    RunAct("grants", "revokeGrant", _grant_fields, "/grants"),
    # This process asks again about calls whose tool its own code lacks.
    RunAct("reopen", "resume", _reopen_fields),
    RunAct("erase", "erase", leads_to="/runs", unconfirmed=_unconfirmed_erase),
)


# Pages of their own ------------------------------------------------------


async def recorded(page: Page) -> Response:
    """Say to a person who may not view a run that the request is recorded."""
    run_id = layout.check_run_id(page.query.get("run", ""))
    return page.message(
        "Your request is recorded",
        "It takes effect at once, or when a worker next works on the run. You have no "
        f"right to view the run {run_id}.",
        {page.url("/inbox"): "Inbox"},
    )


async def actions(page: Page) -> Response:
    """List how the person may end the run, and the signals that it has not taken."""
    run_id = page.run_id
    run = await page.runner.look(run_id)
    state = await page.shown(run.run_state)
    is_live = run.status not in ENDED_STATUSES
    return page.render(
        "run_actions.html",
        here=page.addresses(),
        title=run_title(state),
        may_cancel=is_live and await page.may("cancel", run_id),
        signals=await _signals(page, run_id) if is_live else (),
        may_erase=await page.may("erase", run_id),
    )


async def _signals(page: Page, run_id: str) -> list[tuple[str, str]]:
    """Return the names of the signals that no wait has taken, and how many."""
    names = Counter(each.name for each in await page.runner.signals(run_id))
    return [(name, counted(count, "signal")) for name, count in names.items()]


async def ask_cancel(page: Page) -> Response:
    """Ask whether to cancel the run, or one of its calls."""
    run = await page.runner.look(page.run_id)
    call = page.query.get("call", "")
    row = run.run_state.calls.get(call)
    if call and row is None:
        raise problems.malformed(
            "The run has no open call with this id. Choose it on the page of the run."
        )
    may_view = await page.may("view", page.run_id)
    return page.render(
        "cancel.html",
        here=page.addresses(),
        run=await _title(page, run),
        call=call,
        tool=row.tool if row and may_view else "",
        effect=_effect(run, call) if may_view else "",
        error="",
    )


async def _title(page: Page, run: Continuation) -> str:
    """Return the title of the run; its id for a person who may not view it."""
    if await page.may("view", page.run_id):
        return run_title(await page.shown(run.run_state))
    return page.run_id


def _effect(run: Continuation, call: str) -> str:
    """Return the effect of a call as its wait names it; "" for another call."""
    found = (wait for wait in run.waits if call and wait.call_id == call)
    return next((wait_title(wait) for wait in found), "")


async def ask_erase(page: Page, error: str = "") -> Response:
    """Ask whether to erase the run."""
    run = await page.runner.look(page.run_id)
    return page.render(
        "erase.html",
        status=400 if error else 200,
        here=page.addresses(),
        run=await _title(page, run),
        error=error,
    )


ROUTES = (
    PageRoute("/runs/{run}/actions", actions, rights=("view",)),
    PageRoute("/recorded", recorded),
    *(act.route for act in _ACTS),
    PageRoute("/runs/{run}/cancel", ask_cancel, rights=("cancel",)),
    PageRoute("/runs/{run}/erase", ask_erase, rights=("erase",)),
)
