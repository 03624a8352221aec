"""Threads: their list, and each one as a chat of messages, calls and waits."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from continuations.core.reading import run_stream
from continuations.core.rows.run import ENDED_STATUSES, RunRow
from continuations.errors import InvalidInput
from continuations.ledger import missing_code
from continuations.ledger.arrivals import thread_arrivals
from continuations.ledger.objects import Objects
from continuations.present.times import TimeView, time_view
from continuations.present.wait_words import DECISION_WORDS
from continuations.serve.console.known_runs import RunQuery
from continuations.serve.console.live_runs import replaces_words
from continuations.serve.console.messages_page import (
    CHAT_SCRIPT,
    ChatCall,
    attachment_views,
    call_words,
    without_attachments,
)
from continuations.serve.console.page import Page, PageRoute, RunAddresses
from continuations.serve.console.run_page import (
    following,
    live_shell,
    number_of,
    snapshot_of,
)
from continuations.serve.console.runs_page import list_page
from continuations.serve.console.wait_list import counted_shell
from continuations.serve.http import problems
from continuations.serve.pages.run_log import message_text
from continuations.serve.pages.run_states import run_state
from continuations.serve.pages.run_view import can_go_on, run_title
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from continuations.core.reading.run_past import VersionEvents, VersionWindow
    from continuations.core.rows.waits import Wait
    from continuations.serve.http.request_response import Response
    from continuations.serve.pages.environment import Shell
    from continuations.wire.arrivals import InboxMessage


LINES_PER_PAGE = 50
# After this time, a page says that no worker has read a message.
ABSENCE = timedelta(minutes=2)
# Root agent and tool.
_OWN_CALL = 2

_ENDS: Mapping[str | None, str] = {
    "returned": "done",
    "answered": "answered by a person",
    "denied": "denied",
    "expired": "expired",
    "cancelled": "cancelled",
    "not_executed": "did not happen",
    "invalid": "refused: invalid arguments",
    "error": "failed",
    None: "ended",
}
_ENDED_BADLY = frozenset({"denied", "expired", "cancelled", "invalid", "error"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatLine:
    """One line of a chat.

    Attributes:
        key: Names the line: the cursor of its event.
        kind: `user`, `assistant`, `calls`, `wait`, or `note`.
        at: When it was stored.
        who: The name of the person or agent.
        text: The text of a message or note, or the effect of a wait.
        files: The attachments of a message.
        calls: The calls of a line of them.
        wait_id: The wait.
        is_open: Whether the wait can be decided.
        state: The end of a wait in words, or "".
        is_bad: Whether it ended in another way than with an approval or answer.
    """

    key: str
    kind: str
    at: TimeView
    who: str = ""
    text: str = ""
    files: tuple[dict[str, str], ...] = ()
    calls: tuple[ChatCall, ...] = ()
    wait_id: str = ""
    is_open: bool = False
    state: str = ""
    is_bad: bool = False


def chat_view(
    window: VersionWindow,
    now: datetime,
    here: RunAddresses,
    *,
    before: str = "",
    decided: Collection[str] = (),
    unread: Collection[InboxMessage] = (),
) -> dict[str, Any]:
    """Return a thread as a chat, for the template.

    Args:
        window: Its last versions.
        now: The time of the report.
        here: The addresses of the run.
        before: Only the lines before the one with this key.
        decided: Ids of waits whose decision is recorded, but not yet applied.
        unread: Messages that the agent has not read yet.
    """
    run = window.state.run
    # An older version does not say whether its waits are open now.
    is_old = here.version is not None
    known = () if is_old else {*window.state.waits} - {*decided}
    built = _Lines(now, here, known)
    for version in window.versions:
        for event in version.events:
            built.add(event, version)
    lines = built.grouped()
    keys = [line.key for line in lines]
    end = keys.index(before) if before in keys else len(lines)
    begin = max(end - LINES_PER_PAGE, 0)
    earlier = ""
    if begin:
        earlier = here.chat_before(lines[begin].key, here.version)
    elif window.first_number > 1:
        earlier = here.chat_before("", window.first_number - 1)
    waiting = [each for each in unread if not (each.closes or before)]
    return {
        "title": run_title(window.state),
        "agent": run.agent,
        "key": run.thread_key or "",
        "state": run_state(window.state, now, decided=decided, is_old=is_old),
        # The oldest one first.
        "lines": lines[begin:end],
        "unread": [_unread_line(each, now) for each in waiting],
        # Address of the page with the lines before, or "".
        "earlier": earlier,
        # The last stored reply replaces the words of every lower fence.
        "floor": built.floor,
        "has_ended": run.status in ENDED_STATUSES,
        **_activity(window, waiting, now, decided),
    }


# The agent and its worker -----------------------------------------------------------


def _activity(
    window: VersionWindow,
    waiting: Collection[InboxMessage],
    now: datetime,
    decided: Collection[str],
) -> dict[str, Any]:
    """Return what is known of the worker: whether it is at work, or is missing.

    `again` is the time in seconds after which a page knows more without any change of
    the run; 0 for never. `absent` has the length of a worker's absence in words.
    """
    run = window.state.run
    if run.claim is not None and now < run.claim.until:
        left = run.claim.until - now
        return {**_hint(run, is_at_work=True), "again": _seconds(left), "absent": ""}
    is_due = run.status == "resting" or can_go_on(window.state, decided)
    if not waiting or not is_due:
        return {**_hint(run, is_at_work=False), "again": 0, "absent": ""}
    oldest = min(each.at for each in waiting)
    age = now - oldest
    if age < ABSENCE:
        again = _seconds(ABSENCE - age)
        return {**_hint(run, is_at_work=False), "again": again, "absent": ""}
    return {
        **_hint(run, is_at_work=False),
        "again": 60,
        "absent": _rounded(age),
        "last_work": time_view(window.versions[-1].at, now),
    }


def _seconds(length: timedelta) -> int:
    return int(length.total_seconds()) + 1


def _rounded(length: timedelta) -> str:
    """Return a length in its largest unit: the page is not renewed more often."""
    minutes = int(length.total_seconds()) // 60
    hours, days = minutes // 60, minutes // 1440
    if days:
        return f"{days} d"
    return f"{hours} h" if hours else f"{minutes} min"


def _hint(run: RunRow, *, is_at_work: bool) -> dict[str, Any]:
    text = "The agent rests: a worker reads your message."
    if is_at_work:
        text = "The agent is at work: your message is read next."
    elif run.status == "suspended":
        text = "The agent waits: your message is read after its present reply."
    return {"hint": text, "is_at_work": is_at_work}


def _unread_line(message: InboxMessage, now: datetime) -> ChatLine:
    return ChatLine(
        key=f"unread.{message.number}",
        kind="user",
        at=time_view(message.at, now),
        who=message.by or "user",
        text=message_text(message.message.data.get("content"), "user"),
    )


# The lines --------------------------------------------------------------------------


class _Lines:
    """The lines of the events of a thread, in their order.

    A call is a line from its request on, and each later event changes that line. A
    wait for a person takes the place of its call.
    """

    def __init__(
        self, now: datetime, here: RunAddresses, open_waits: Collection[str]
    ) -> None:
        self.floor = 0
        self._now, self._here, self._open_waits = now, here, open_waits
        self._lines: list[ChatLine] = []
        # Places of lines: by the ids of calls, and of waits.
        self._calls: dict[str, int] = {}
        self._waits: dict[str, int] = {}
        # The decisions of persons in words, by the places of the waits.
        self._verdicts: dict[int, str] = {}

    def grouped(self) -> list[ChatLine]:
        """Return the lines; calls one after the other are one line."""
        lines: list[ChatLine] = []
        for line in self._lines:
            if line.kind == "calls" and lines and lines[-1].kind == "calls":
                lines[-1] = replace(lines[-1], calls=lines[-1].calls + line.calls)
            else:
                lines.append(line)
        return lines

    def add(self, event: run_stream.StreamEvent, version: VersionEvents) -> None:
        """Take the next event."""
        at = time_view(version.at, self._now)
        if len(event.path) <= 1 and replaces_words(event):
            self.floor = version.number
        match event:
            case run_stream.RunRepaired() | run_stream.RunRewound():
                self._begin_anew(event, at)
            case run_stream.MessageAdded() if len(event.path) == 1:
                self._add_message(event, version, at)
            case run_stream.WaitOpened() if event.wait.rules.asks_person:
                self._add_wait(event.wait, event.cursor, at)
            case run_stream.WaitDecided():
                self._end_wait(event)
            case _ if _note(event):
                self._append(event.cursor, "note", at, text=_note(event))
            case _:
                self._add_to_calls(event, at)

    def _add_to_calls(self, event: run_stream.StreamEvent, at: TimeView) -> None:
        match event:
            case (
                run_stream.CallProposed()
                | run_stream.CallStarted()
                | run_stream.CallEnded()
            ) if len(event.path) == _OWN_CALL:
                self._add_call(event, at)
            case run_stream.FrameStarted(call=str() as call):
                self._change_call(call, is_agent=True)
            case run_stream.FrameEnded(call=str() as call, end=end):
                self._change_call(call, state=_ENDS[end], is_bad=end in _ENDED_BADLY)
            case run_stream.WaitOpened(wait=wait):
                state = f"waits for {wait.rules.awaited}"
                self._change_call(wait.call_id or "", state=state)
            case _:
                pass

    def _append(self, key: str, kind: str, at: TimeView, **fields: Any) -> None:
        self._lines.append(ChatLine(key=key, kind=kind, at=at, **fields))

    def _begin_anew(
        self, event: run_stream.RunRepaired | run_stream.RunRewound, at: TimeView
    ) -> None:
        """Forget everything: the events after it describe the state anew."""
        self._lines.clear()
        self._calls.clear()
        self._waits.clear()
        self._verdicts.clear()
        text = "The conversation was repaired: it goes on from an earlier state."
        if isinstance(event, run_stream.RunRewound):
            text = f"The conversation was rewound to version {event.version}."
        self._append(event.cursor, "note", at, text=text)

    def _add_message(
        self, event: run_stream.MessageAdded, version: VersionEvents, at: TimeView
    ) -> None:
        message = event.message
        role, content = message.get("role"), message.get("content")
        text = message_text(without_attachments(role, content))
        files = tuple(attachment_views(role, content, self._here))
        if role not in ("user", "assistant") or not (text or files):
            return
        who = event.path[0] if role == "assistant" else version.run.asker or "user"
        self._append(event.cursor, role, at, who=who, text=text, files=files)

    def _add_call(
        self,
        event: run_stream.CallProposed | run_stream.CallStarted | run_stream.CallEnded,
        at: TimeView,
    ) -> None:
        ids = [event.call] if event.call else []
        if not isinstance(event, run_stream.CallStarted):
            # A provider may use an id again in a later turn.
            ids.append(f"provider {event.tool_call_id}")
        is_known = any(each in self._calls for each in ids)
        if isinstance(event, run_stream.CallProposed) or not is_known:
            self._calls.update(dict.fromkeys(ids, len(self._lines)))
            call = ChatCall(tool=event.tool.removeprefix("."))
            self._append(event.cursor, "calls", at, calls=(call,))
        known = next(each for each in ids if each in self._calls)
        match event:
            case run_stream.CallProposed(arguments_json=arguments):
                address = self._here.call(event.call) if event.call else ""
                words = call_words(arguments)
                self._change_call(known, arguments=words, address=address)
            case run_stream.CallStarted():
                self._change_call(known, state="runs")
            case run_stream.CallEnded(end=end):
                self._change_call(known, state=_ENDS[end], is_bad=end in _ENDED_BADLY)

    def _change_call(self, call_id: str, **changes: Any) -> None:
        """Change the line of a call; that of its wait keeps the words of a person."""
        place = self._calls.get(call_id)
        if place is None:
            return
        line = self._lines[place]
        if line.kind == "calls":
            calls = (replace(line.calls[0], **changes),)
            self._lines[place] = replace(line, calls=calls)
        elif "state" in changes and not changes.get("is_bad"):
            words = f"{self._verdicts.get(place, '')}, {changes['state']}"
            self._lines[place] = replace(line, state=words.removeprefix(", "))

    def _add_wait(self, wait: Wait, key: str, at: TimeView) -> None:
        text = wait.title or wait.question or wait.rules.question
        is_open = wait.id in self._open_waits
        line = ChatLine(
            key=key,
            kind="wait",
            at=at,
            who=" > ".join(wait.path[1:-1]),
            text=text.replace("{tool}", wait.tool),
            wait_id=wait.id,
            is_open=is_open,
            state="" if is_open or self._here.version is not None else "decided",
        )
        place = self._calls.get(wait.call_id or "")
        if place is None or self._lines[place].kind != "calls":
            place = len(self._lines)
            self._lines.append(line)
        self._lines[place] = line
        self._waits[wait.id] = place

    def _end_wait(self, event: run_stream.WaitDecided) -> None:
        place = self._waits.get(event.wait_id)
        if place is None:
            return
        word = DECISION_WORDS[event.kind].lower() if event.kind else "over"
        by = f" by {event.by}" if event.by else ""
        self._verdicts[place] = words = f"{word}{by}"
        is_denied = event.kind not in ("approve", "answer", None)
        self._lines[place] = replace(self._lines[place], state=words, is_bad=is_denied)


def _note(event: run_stream.StreamEvent) -> str:
    """Return what a reader of the chat must know besides its messages, or ""."""
    if len(event.path) > 1:
        return ""
    match event:
        case run_stream.Handoff(previous=previous, agent=agent):
            return f"{previous} hands over to {agent}."
        case run_stream.ReplyGiven(failure=failure) if failure is not None:
            return f"This message has no reply: {failure.message}"
        case run_stream.GuardrailTripped(guardrail=name, reason=reason):
            return f"The guardrail {name} tripped: {reason}"
        case run_stream.RunEnded(status=status, failure=failure):
            why = "" if failure is None else f": {failure.message}"
            return f"The conversation is {status}{why}"
        case _:
            return ""


_LIVE_THREADS = RunQuery(status="live", is_thread=True)


async def list_threads(page: Page) -> Response:
    """Show a page of live threads, the last change first."""
    after = page.query.get("after", "")
    found = await list_page(page, _LIVE_THREADS, after)
    if found is None:
        return page.unchanged()
    return page.render(
        "threads.html",
        shell=await counted_shell(page),
        found=found,
        rows=found.rows,
        first=page.url("/threads"),
        next=page.next_page("/threads", found.next),
        is_first=not after,
    )


async def show(page: Page) -> Response:
    """Show a thread as a chat."""
    run_id = page.run_id
    version = number_of(page.query.get("version"), "version")
    snapshot = await snapshot_of(page, run_id, version)
    if snapshot is None:
        return page.unchanged()
    snapshot = snapshot.shown(await page.detail(run_id))
    window = snapshot.window
    if window.state.run.thread_key is None:
        return page.see_other(f"/runs/{run_id}")
    before = page.query.get("before", "")
    is_newest = version is None and not before
    follow = following(page, snapshot) if is_newest else None
    here = page.addresses(version)
    chat = chat_view(
        window,
        page.clock.now(),
        here,
        before=before,
        decided=snapshot.decided,
        unread=snapshot.unread,
    )
    lacked = await _lacked(page, window.last_number) if chat["absent"] else ""
    return page.render(
        "thread.html",
        shell=_shell(page, follow),
        follow=follow,
        here=here,
        chat=chat,
        lacked=lacked,
        is_newest=is_newest,
        may_send=is_newest and await page.may("message", run_id),
        message_id=secrets.token_hex(8),
    )


def _shell(page: Page, follow: dict[str, str] | None) -> Shell:
    shell = live_shell(page, follow)
    return replace(shell, scripts=(*shell.scripts, CHAT_SCRIPT))


async def _lacked(page: Page, number: int) -> str:
    """Return what a worker lacked that left the thread to others, or ""."""
    objects = Objects(page.runner.store)
    lacked = await missing_code.read(objects, page.run_id, number)
    return "" if lacked is None else lacked.text


async def send(page: Page) -> Response:
    """Post a message to the newest run of a thread; a repeated form posts it once."""
    run_id = page.run_id
    text, own_id = page.posted_text, page.form.get("id", "")
    run = (await page.runner.look(run_id)).run_state.run
    if run.thread_key is None:
        raise problems.malformed(
            "This run is not a thread. Send the message on the page of the run."
        )
    try:
        thread = page.runner.thread(run.agent, key=run.thread_key)
    except InvalidInput:
        # This process does not have the agent: another one answers the message.
        await page.runner.send(run_id, text, by=page.identity.name, id=own_id or None)
    else:
        objects = Objects(page.runner.store)
        newest = await thread_arrivals.newest_generation(
            objects, run.agent, run.thread_key
        )
        await page.require("message", newest.run_id or run_id)
        ticket = await thread.post(
            text, by=page.identity, id=own_id or None, door=page.door
        )
        run_id = ticket.run_id
    await page.wake(run_id)
    return page.see_other(f"/threads/{run_id}")


ROUTES = (
    PageRoute("/threads", list_threads),
    PageRoute("/threads/{thread}", show, rights=("view",)),
    PageRoute("/threads/{thread}", send, ("POST",), ("message",)),
)
