"""The acts of a person on a run: plain forms, each by its right.

Cancel and erase ask on a page of their own first. After a success, the browser is sent
to the page of the run (303), so that a reload repeats nothing. A person without the
right to view the run reads its id only.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from continuations.core.operator_waits import operator_waits
from continuations.core.run import ENDED_STATUSES
from continuations.ledger import layout
from continuations.present.times import counted
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.http import problems
from continuations.serve.pages.run_addresses import RunAddresses
from continuations.serve.pages.run_view import run_title, wait_title
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.serve.http.request_response import Response
    from continuations.serve.rights import Act
    from continuations.wire.continuation import Continuation


_MAX_REASON_CHARS = 4000


async def _run_id(page: Page, act: Act) -> str:
    """Return the run of the path; refuse a person without the right."""
    run_id = layout.check_run_id(page.params["run"])
    await page.require(act, run_id)
    return run_id


async def _back(page: Page, run_id: str) -> Response:
    if await page.can("view", run_id):
        return page.see_other(f"/runs/{run_id}")
    return page.see_other(f"/recorded?run={run_id}")


async def recorded(page: Page) -> Response:
    """Say to a person who may not view a run that the request is recorded."""
    run_id = layout.check_run_id(page.query.get("run", ""))
    return page.render(
        "message.html",
        title="Your request is recorded",
        text=f"A worker carries it out. You have no right to view the run {run_id}.",
        facts=(),
        values={},
        links={page.url("/inbox"): "Inbox"},
    )


async def actions(page: Page) -> Response:
    """List what the person may do."""
    run_id = await _run_id(page, "view")
    run = await page.runner.look(run_id)
    state = await page.shown(run.run_state)
    is_live = run.status not in ENDED_STATUSES
    may_message = is_live and await page.can("message", run_id)
    may_cancel = is_live and await page.can("cancel", run_id)
    return page.render(
        "run_actions.html",
        here=RunAddresses(root=page.shell.root, run_id=run_id),
        title=run_title(state),
        run_id=run_id,
        may_resume=may_message,
        may_wake=may_message and any(w.rules.may_wake for w in state.waits.values()),
        may_pause=may_cancel,
        is_paused=bool(operator_waits(state)),
        may_cancel=may_cancel,
        signals=await _signals(page, run_id) if is_live else (),
        may_fork=await page.can("fork", run_id),
        may_erase=await page.can("erase", run_id),
    )


async def _signals(page: Page, run_id: str) -> list[tuple[str, str]]:
    """Return the names of the signals that no wait has taken, and how many."""
    names = Counter(each.name for each in await page.runner.signals(run_id))
    return [(name, counted(count, "signal")) for name, count in names.items()]


async def drop_signals(page: Page) -> Response:
    """Drop the signals of one name that no wait has taken."""
    run_id = await _run_id(page, "cancel")
    await page.runner.drop_signals(
        run_id,
        name=page.form.get("name", ""),
        by=page.identity.name,
        door=page.door,
    )
    return await _back(page, run_id)


async def pause(page: Page) -> Response:
    """Pause the run."""
    run_id = await _run_id(page, "cancel")
    await page.runner.pause(run_id, by=page.identity.name, door=page.door)
    return await _back(page, run_id)


async def unpause(page: Page) -> Response:
    """End the pause, and let the run go on."""
    run_id = await _run_id(page, "cancel")
    run = await page.runner.unpause(run_id, by=page.identity.name, door=page.door)
    if run.status == "suspended":
        await page.wake(run_id)
    return await _back(page, run_id)


async def resume(page: Page) -> Response:
    """Give the run to the dispatcher; without one, resume it in this process."""
    run_id = await _run_id(page, "message")
    if page.dispatcher is None:
        await page.runner.resume(run_id)
    else:
        await page.dispatcher.wake(run_id)
    return await _back(page, run_id)


async def reopen(page: Page) -> Response:
    """Resume the run in this process, and ask again about calls without their tool."""
    run_id = await _run_id(page, "message")
    await page.runner.resume(run_id, reopen=True)
    return await _back(page, run_id)


async def wake(page: Page) -> Response:
    """End the waits of the run for its models."""
    run_id = await _run_id(page, "message")
    if await page.runner.wake(run_id, by=page.identity.name, door=page.door):
        await page.wake(run_id)
    return await _back(page, run_id)


async def send(page: Page) -> Response:
    """Send a message to the run."""
    run_id = await _run_id(page, "message")
    text = page.form.get("text", "").strip()
    if not text:
        raise problems.malformed("The message is empty. Go back, and write a text.")
    own_id = page.form.get("id") or None
    await page.runner.send(run_id, text, by=page.identity.name, id=own_id)
    await page.wake(run_id)
    if not await page.can("view", run_id):
        return await _back(page, run_id)
    return page.see_other(f"/runs/{run_id}/messages")


async def ask_cancel(page: Page) -> Response:
    """Ask whether to cancel the run, or one of its calls."""
    run_id = await _run_id(page, "cancel")
    run = await page.runner.look(run_id)
    call = page.query.get("call", "")
    row = run.run_state.calls.get(call)
    if call and row is None:
        raise problems.malformed(
            "The run has no open call with this id. Choose it on the page of the run."
        )
    effect = _effect(run, call)
    may_view = await page.can("view", run_id)
    title = run_title(await page.shown(run.run_state)) if may_view else run_id
    tool = row.tool if row and may_view else ""
    form = cancel_form(title, call, tool, effect if may_view else "")
    here = RunAddresses(root=page.shell.root, run_id=run_id)
    return page.render("confirm.html", form=form, here=here, error="")


def _effect(run: Continuation, call: str) -> str:
    """Return the effect of a call as its wait names it; "" for another call."""
    found = (wait for wait in run.waits if call and wait.call_id == call)
    return next((wait_title(wait) for wait in found), "")


async def cancel(page: Page) -> Response:
    """Cancel the run, or one of its calls."""
    run_id = await _run_id(page, "cancel")
    reason = page.form.get("reason", "").strip()
    if len(reason) > _MAX_REASON_CHARS:
        raise problems.malformed(
            f"The reason has over {_MAX_REASON_CHARS} characters. Go back, and "
            "shorten it."
        )
    run = await page.runner.cancel(
        run_id,
        call=page.form.get("call") or None,
        reason=reason or None,
        by=page.identity.name,
        door=page.door,
    )
    if run.status == "suspended":
        await page.wake(run_id)
    return await _back(page, run_id)


async def ask_erase(page: Page, error: str = "") -> Response:
    """Ask whether to erase the run."""
    run_id = await _run_id(page, "erase")
    run = await page.runner.look(run_id)
    may_view = await page.can("view", run_id)
    title = run_title(await page.shown(run.run_state)) if may_view else run_id
    form = erase_form(title, run_id)
    here = RunAddresses(root=page.shell.root, run_id=run_id)
    status = 400 if error else 200
    return page.render("confirm.html", status=status, form=form, here=here, error=error)


async def erase(page: Page) -> Response:
    """Erase the run, if the person typed its id."""
    run_id = await _run_id(page, "erase")
    if page.form.get("typed", "").strip() != run_id:
        return await ask_erase(page, "This is not the id of the run.")
    await page.runner.erase(run_id)
    return page.see_other("/runs")


ROUTES = (
    PageRoute("/runs/{run}/actions", actions),
    PageRoute("/recorded", recorded),
    PageRoute("/runs/{run}/pause", pause, ("POST",)),
    PageRoute("/runs/{run}/unpause", unpause, ("POST",)),
    PageRoute("/runs/{run}/signals", drop_signals, ("POST",)),
    PageRoute("/runs/{run}/resume", resume, ("POST",)),
    PageRoute("/runs/{run}/reopen", reopen, ("POST",)),
    PageRoute("/runs/{run}/wake", wake, ("POST",)),
    PageRoute("/runs/{run}/messages", send, ("POST",)),
    PageRoute("/runs/{run}/cancel", ask_cancel),
    PageRoute("/runs/{run}/cancel", cancel, ("POST",)),
    PageRoute("/runs/{run}/erase", ask_erase),
    PageRoute("/runs/{run}/erase", erase, ("POST",)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmForm:
    """One question, and the form that answers yes.

    Attributes:
        act: The last part of the address of the form.
        title: The question.
        text: The consequences.
        button: The words of the button.
        field: Name of the text field.
        label: Label of the text field.
        is_required: Whether the field must be filled in.
        call: Id of the call, for a hidden field; or "".
        effect: The effect of the call in one sentence; or "".
    """

    act: str
    title: str
    text: str
    button: str
    field: str
    label: str
    is_required: bool = False
    call: str = ""
    effect: str = ""


def cancel_form(title: str, call: str, tool: str, effect: str = "") -> ConfirmForm:
    """Return the question before a run, or one of its calls, is cancelled."""
    if call:
        return ConfirmForm(
            act="cancel",
            title=f"Cancel the call of {tool}?" if tool else f"Cancel the call {call}?",
            text="A call that has begun is not stopped: it returns, and its result is "
            "kept. A call that has not begun never begins. The run goes on, and the "
            "model reads your reason.",
            button="Cancel the call",
            field="reason",
            label="Reason",
            call=call,
            effect=effect,
        )
    return ConfirmForm(
        act="cancel",
        title=f"Cancel the run: {title}?",
        text="The run ends, and its open waits are closed. "
        "Effects of its calls remain.",
        button="Cancel the run",
        field="reason",
        label="Reason, for the record",
    )


def erase_form(title: str, run_id: str) -> ConfirmForm:
    """Return the question before a run is erased."""
    return ConfirmForm(
        act="erase",
        title=f"Erase the run: {title}?",
        text="Everything that the store holds of the run is deleted: messages, "
        "decisions and its past. This cannot be taken back.",
        button="Erase the run",
        field="typed",
        label=f"Type the id of the run: {run_id}",
        is_required=True,
    )
