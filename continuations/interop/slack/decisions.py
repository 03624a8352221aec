"""Show and decide waits for the users of Slack; each result is a modal."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from continuations import Identity, errors
from continuations.interop.slack.modal import review_modal, text_modal
from continuations.interop.slack.posting import ENDINGS, ending_text, headline
from continuations.results import Decision, Door
from continuations.serve.http.decision_bodies import decision_from_fields
from continuations.serve.http.problems import RequestRefused
from continuations.serve.http.request_context import wake_run
from continuations.serve.pages.decision_view import Decider, decider_of, recorded_view

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from continuations import AsyncRunner, Wait
    from continuations.interop.slack.modal import Origin, Submission
    from continuations.serve.dispatch import Dispatcher
    from continuations.serve.rights import Rights

Users: TypeAlias = "Callable[[str, str], Identity | Awaitable[Identity | None] | None]"
"""A function or coroutine function of the ids of a Slack user and of their workspace.

It returns who that is in the application, or `None` for a stranger. A shared channel
has users of other workspaces, so look at both ids.
"""
MakeLink: TypeAlias = "Callable[[Wait, Identity], str]"
"""A function that returns the page on which a person decides a wait."""

_log = logging.getLogger("continuations")
_DOOR = Door("slack", "slack")
_CHANGED = "Nothing is recorded: the call is not the one that you saw. Read it again."
_MAX_HEADLINE = 300
_ENDED = {
    "expire": errors.WaitExpired,
    "cancel": errors.Cancelled,
    "erase": errors.RunErased,
}


class Reply(NamedTuple):
    """The result of an interaction.

    Attributes:
        view: The modal that says so.
        ending: How the wait ended, or an empty text while it is open.
        woken: The run that can go on, or an empty text.
    """

    view: dict[str, Any]
    ending: str = ""
    woken: str = ""


class Decisions:
    """Shows and decides waits for the users of Slack; each error is a modal."""

    def __init__(
        self,
        runner: AsyncRunner,
        users: Users,
        rights: Rights,
        link: MakeLink | None,
        dispatcher: Dispatcher | None,
    ) -> None:
        self._runner = runner
        self._users = users
        self._rights = rights
        self._link = link
        self._dispatcher = dispatcher

    async def wake(self, run_id: str) -> None:
        """Give a run that can go on to the dispatcher."""
        if run_id:
            await wake_run(self._dispatcher, run_id)

    async def show(self, wait_id: str, user: str, team: str, origin: Origin) -> Reply:
        """Return the modal of a wait for a user."""
        try:
            person = await self._identify(user, team)
            if person is None:
                return _stranger(user, team)
            return await self._shown(wait_id, person, origin)
        except Exception:  # noqa: BLE001 - the person must hear of it
            _log.exception("wait %s could not be shown in Slack", wait_id)
            return Reply(
                text_modal(
                    "The call cannot be shown. Click Review again.",
                    f"If this does not help, the log has the cause under {wait_id}.",
                )
            )

    async def record(self, posted: Submission, user: str, team: str) -> Reply:
        """Record a decision; return the modal that says so."""
        try:
            person = await self._identify(user, team)
            if person is None:
                return _stranger(user, team)
            return await self._recorded(posted, person)
        except Exception:  # noqa: BLE001 - the person must hear of it
            _log.exception("wait %s: a decision in Slack failed", posted.wait_id)
            return Reply(
                text_modal("The decision may not be recorded. Click Review again.")
            )

    async def _identify(self, user: str, team: str) -> Identity | None:
        """Return the person of a Slack user; `None` for a stranger."""
        # A plain function may block, for example to ask a directory.
        found: object = await asyncio.to_thread(self._users, user, team)
        if isawaitable(found):
            found = await found
        if found is not None and type(found) is not Identity:
            # A truthy value must not become a person.
            msg = f"users must return an Identity or None, got {type(found).__name__}."
            raise TypeError(msg)
        return found

    async def _shown(
        self,
        wait_id: str,
        person: Identity,
        origin: Origin,
        bar: Sequence[str] = (),
        fields: Mapping[str, str] | None = None,
    ) -> Reply:
        run_id = run_of(wait_id)
        if not await self._rights.allow(person, "view", run_id):
            return Reply(text_modal("You have no right to view this run."))
        try:
            wait = await self._runner.wait(wait_id)
        except errors.ContinuationsError as error:
            return _not_open(error)
        now = datetime.now(UTC)
        decider = await self._decider(wait, person)
        if fields is not None:
            decider = decider.with_errors(fields, {"": " ".join(bar)})
        link = self._link if decider.verdicts else None
        view = review_modal(
            wait,
            decider,
            now=now,
            origin=_with_headline(origin, wait),
            link=None if link is None else partial(link, wait, person),
            bar=bar,
        )
        return Reply(view)

    async def _decider(self, wait: Wait, person: Identity) -> Decider:
        if not await self._rights.allow(person, "decide", wait.run_id):
            why = "You cannot decide this: you have no right to decide waits of this "
            return Decider(objection=f"{why}run.")
        return decider_of(wait, person.name, groups=person.groups or None)

    async def _recorded(self, posted: Submission, person: Identity) -> Reply:
        wait_id, run_id = posted.wait_id, run_of(posted.wait_id)
        for act in ("view", "decide"):
            if not await self._rights.allow(person, act, run_id):
                return Reply(text_modal(f"You have no right to {act} this run."))
        before = await self._wait_before(wait_id)
        try:
            decision = decision_from_fields(posted.fields, person)
            result = await self._runner.decide(
                wait_id, decision.verdict, shown=decision.shown, door=_DOOR
            )
        except (RequestRefused, errors.DecisionRefused) as error:
            return await self._again(posted, person, error)
        except errors.ContinuationsError as error:
            return _not_open(error)
        said = recorded_view(result, before)
        view = text_modal(said["title"], said["effect"], said["outcome"], said["by"])
        if not isinstance(result, Decision):
            return Reply(view)
        return Reply(view, ending=ending_text(result), woken=run_id)

    async def _wait_before(self, wait_id: str) -> Wait | None:
        """Return the open wait; `None` for a submission that comes twice."""
        try:
            return await self._runner.wait(wait_id)
        except errors.ContinuationsError:
            return None

    async def _again(
        self, posted: Submission, person: Identity, error: Exception
    ) -> Reply:
        """Return the modal of a wait again, with why the decision was refused."""
        text = str(error)
        if isinstance(error, RequestRefused):
            text = error.problem.detail or text
        wait = await self._wait_before(posted.wait_id)
        fields: Mapping[str, str] | None = posted.fields
        if wait is not None and wait.digest != posted.fields["shown"]:
            text, fields = _CHANGED, None
        return await self._shown(posted.wait_id, person, posted.origin, (text,), fields)


def _stranger(user: str, team: str) -> Reply:
    return Reply(
        text_modal(
            "You are not known here, so nothing was shown or decided.",
            f"Ask for access with your Slack user id {user} of workspace {team}.",
        )
    )


def _not_open(error: errors.ContinuationsError) -> Reply:
    """Return the modal for a wait that cannot be decided."""
    if isinstance(error, errors.AlreadyDecided):
        ending = ending_text(error.decision)
        reason = error.decision.reason
        said = ("Already decided.", ending, f"Reason: {reason}" if reason else "")
        return Reply(text_modal(*said), ending=ending)
    for kind, each in _ENDED.items():
        if isinstance(error, each):
            view = text_modal(ENDINGS[kind], "Nothing was approved.")
            return Reply(view, ending=ENDINGS[kind])
    if isinstance(error, errors.StoreError):
        text = "The store did not answer, so the decision may not be recorded. "
        return Reply(text_modal(f"{text}Click Review again."))
    return Reply(text_modal(str(error)))


def _with_headline(origin: Origin, wait: Wait) -> Origin:
    """Return the message with a first line that fits into the data of a modal."""
    if 0 < len(origin.headline) <= _MAX_HEADLINE:
        return origin
    return origin._replace(headline=headline(wait, with_title=False))


def run_of(wait_id: str) -> str:
    """Return the run of a wait."""
    return wait_id.partition("@")[2]
