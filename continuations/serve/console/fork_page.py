"""Fork a run: "rerun from Wednesday with another answer".

A wait of the chosen version stays open in the fork, or it gets a denial or an answer.
An approval is given on the page of the fork's own wait, as everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.rows.decisions import Answer, Deny
from continuations.core.rows.state import ROOT_FRAME_ID
from continuations.present import wait_words
from continuations.present.wait_view import argument_views
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.console.run_page import number_of
from continuations.serve.http import problems
from continuations.serve.http.run_handlers import new_fork_id
from continuations.serve.pages.run_view import run_title
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.rows.decisions import Verdict
    from continuations.core.rows.waits import Wait
    from continuations.present.wait_view import ArgumentView
    from continuations.serve.http.request_response import Response
    from continuations.wire.continuation import Continuation


async def ask(page: Page) -> Response:
    """Show the version, and ask what is different in the fork."""
    run_id = page.run_id
    version = number_of(page.query.get("version"), "version")
    run = await page.runner.look(run_id, version=version)
    may_decide = await page.can("decide", run_id)
    return page.render(
        "fork.html",
        here=page.addresses(),
        fork=fork_view(
            run,
            new_fork_id(run_id),
            title=run_title(await page.shown(run.run_state)),
            may_decide=may_decide,
        ),
    )


async def fork(page: Page) -> Response:
    """Make the fork; a repeated form makes it once."""
    run_id, form = page.run_id, page.form
    version = number_of(form.get("version"), "version")
    if version is None:
        raise problems.malformed(
            "The form does not name the version that it showed. Open the page of the "
            "fork again, and send its form."
        )
    run = await page.runner.look(run_id, version=version)
    decisions = {
        wait.id: verdict
        for wait in run.waits
        if (verdict := _verdict(page, wait)) is not None
    }
    if decisions:
        await page.require("decide", run_id)
    message = form.get("message", "").strip()
    own_id = form.get("run_id") or new_fork_id(run_id)
    # The right to fork one run gives none to write under the id of another.
    await page.require("fork", own_id)
    new_id = await page.runner.fork(
        run_id,
        run.version,
        run_id=own_id,
        decisions=decisions,
        messages={ROOT_FRAME_ID: message} if message else None,
        by=page.identity,
        door=page.door,
    )
    return page.see_other(f"/runs/{new_id}")


def _verdict(page: Page, wait: Wait) -> Verdict | None:
    """Return what the form says about a wait; `None` leaves it open."""
    form = page.form
    text = form.get(f"text-{wait.id}", "").strip()
    match form.get(f"verdict-{wait.id}", "open"):
        case "open":
            return None
        case "deny":
            return Deny(by=page.identity, reason=text or None)
        case "answer":
            if not text:
                raise problems.malformed(
                    "An answer has no text. Go back, and write it."
                )
            return Answer(_value(wait, text), by=page.identity)
        case _:
            raise problems.malformed(
                "A decision of the form is unknown. Go back, and choose one."
            )


def _value(wait: Wait, text: str) -> object:
    """Return the value of an answer: JSON, unless the wait takes a text."""
    if wait.answer_type_name in (None, "string"):
        return text
    try:
        return jsontext.parse(text)
    except jsontext.NotJson:
        msg = f"The answer must be JSON of type {wait.answer_type_name}."
        raise problems.malformed(msg) from None


ROUTES = (
    PageRoute("/runs/{run}/fork", ask, rights=("view", "fork")),
    PageRoute("/runs/{run}/fork", fork, ("POST",), ("fork",)),
)


_VERDICTS = (("deny", "Deny"), ("answer", "Answer"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkWait:
    """One open wait of the version.

    Attributes:
        wait_id: Its id.
        title: Its title.
        arguments: The arguments, whole, as on the page of the wait.
        verdicts: The verdicts that the form offers: value and words.
        answer: The type of an answer, in words.
    """

    wait_id: str
    title: str
    arguments: tuple[ArgumentView, ...]
    verdicts: tuple[tuple[str, str], ...]
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkView:
    """The form.

    Attributes:
        title: Title of the run.
        version: Number of the version.
        run_id: Id of the fork, unless the person changes it.
        waits: The open waits, if the person may decide.
    """

    title: str
    version: int
    run_id: str
    waits: tuple[ForkWait, ...]


def fork_view(
    run: Continuation, fork_id: str, *, title: str, may_decide: bool
) -> ForkView:
    """Return the form that forks a run.

    Args:
        run: The version.
        fork_id: Id of the fork, unless the person changes it.
        title: Title of the run.
        may_decide: Whether the person may decide the waits.
    """
    waits = [wait for wait in run.waits if wait.rules.asks_person]
    return ForkView(
        title=title,
        version=run.version,
        run_id=fork_id,
        waits=tuple(map(_wait, waits)) if may_decide else (),
    )


def _wait(wait: Wait) -> ForkWait:
    is_text = wait.answer_type_name in (None, "string")
    return ForkWait(
        wait_id=wait.id,
        title=wait_words.title(wait),
        arguments=argument_views(wait),
        verdicts=tuple(each for each in _VERDICTS if each[0] in wait.rules.verdicts),
        answer="a text" if is_text else f"JSON of type {wait.answer_type_name}",
    )
