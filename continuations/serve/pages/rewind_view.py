"""The consequences of a rewind, before it is made and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.run import ENDED_STATUSES
from continuations.core.visible_text import shorten
from continuations.serve.pages.argument_words import arguments_text
from continuations.serve.pages.run_view import run_title, wait_title
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.run_past import BegunCall, RewindPlan, TakenMessage
    from continuations.core.state import RunState

_TEXT_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingWait:
    """A wait that the rewind closes.

    Attributes:
        wait_id: Its id, for a link; or "".
        title: Its title.
        is_decided: Whether it has a decision that the run has not taken in.
    """

    wait_id: str
    title: str
    is_decided: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneCall:
    """A call that was started since the version.

    Attributes:
        tool: Name of the tool.
        path: Names from the root agent down to the tool.
        arguments: Its arguments, shortened; secret values are masked.
        version: Number of the version that recorded its start.
    """

    tool: str
    path: str
    arguments: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMessage:
    """A message that was read since the version: its number, sender and text."""

    number: int
    by: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindView:
    """The consequences of a rewind.

    Attributes:
        title: Title of the run.
        version: Number of the earlier version.
        newest: Number of the version that is rewound.
        digest: The digest of that version.
        waits: The waits that are closed.
        calls: The calls that are not undone.
        messages: The messages that are not read again.
        refusal: Why the run is not rewound; or "".
        has_ended: Whether the run has ended, so that it can only be forked.
    """

    title: str
    version: int
    newest: int
    digest: str
    waits: tuple[EndingWait, ...]
    calls: tuple[DoneCall, ...]
    messages: tuple[ReadMessage, ...]
    refusal: str
    has_ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedOn:
    """The change of a run since the page of a rewind was shown.

    Attributes:
        shown: Number of the newest version of that page.
        is_newer: Whether the run has a newer version now.
        text: The change, in words.
    """

    shown: int
    is_newer: bool
    text: str


def moved_on(shown: str, now: RewindView) -> MovedOn:
    """Return what changed since a page with the digest `shown`."""
    # A digest begins with the number of the newest version.
    number = int(shown.partition("-")[0])
    decided = [wait.title for wait in now.waits if wait.is_decided]
    if number != now.newest:
        text = f"the run moved on from version {number} to version {now.newest}."
    elif decided:
        titles = ", ".join(f"“{title}”" for title in decided)
        text = f"meanwhile, this was decided: {titles}."
    else:
        text = "meanwhile, something was decided for the run, or a grant was revoked."
    return MovedOn(shown=number, is_newer=number < now.newest, text=text)


def rewind_view(plan: RewindPlan, state: RunState) -> RewindView:
    """Return the consequences of a rewind of a run.

    Args:
        plan: The plan.
        state: The newest state of the run.
    """
    waits = (
        EndingWait(
            wait_id=wait.id if wait.rules.has_object else "",
            title=wait_title(wait) or f"Waits for {wait.rules.awaited}",
            is_decided=wait.id in plan.decided,
        )
        for wait in plan.waits
    )
    return RewindView(
        title=run_title(state),
        version=plan.version,
        newest=plan.newest,
        digest=plan.digest,
        waits=tuple(waits),
        calls=tuple(map(_call, plan.calls)),
        messages=tuple(map(_message, plan.messages)),
        refusal=plan.refusal or "",
        has_ended=state.run.status in ENDED_STATUSES,
    )


def _call(call: BegunCall) -> DoneCall:
    return DoneCall(
        tool=call.tool,
        path=" > ".join(call.path),
        arguments=arguments_text(call.arguments_json or "", _TEXT_CHARS),
        version=call.version,
    )


def _message(message: TakenMessage) -> ReadMessage:
    return ReadMessage(
        number=message.number,
        by=message.by or "",
        text=shorten(message.text, _TEXT_CHARS),
    )
