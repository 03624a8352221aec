"""The log of a run: its durable events in sentences, the newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.attachment_parts import is_reference, labelled_text
from continuations.core.reading import run_stream
from continuations.core.rows.calls import Nested
from continuations.core.rows.run import ENDED_STATUSES, Claim
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.visible_text import shorten
from continuations.present.times import TimeView, counted, day_view, second_view
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from continuations.core.reading.run_past import VersionEvents, VersionWindow
    from continuations.wire.arrivals import InboxMessage


def arguments_text(arguments_json: str, max_chars: int) -> str:
    """Return arguments as `to: Kim, cents: 500`; a single one without its name."""
    if not arguments_json:
        return ""
    try:
        fields = jsontext.as_object(jsontext.parse(arguments_json))
    except jsontext.NotJson:
        fields = None  # such as arguments that are not shown
    if fields is None:
        return shorten(arguments_json, max_chars)
    values = [_value_text(value, max_chars) for value in fields.values()]
    if len(values) == 1:
        return values[0]
    pairs = zip(fields, values, strict=True)
    return shorten(", ".join(f"{name}: {text}" for name, text in pairs), max_chars)


def _value_text(value: object, max_chars: int) -> str:
    text = value if isinstance(value, str) else jsontext.dump(value)
    return shorten(text, max_chars)


LINES_PER_PAGE = 40
_TEXT_CHARS = 200
_ENDED_WELL = ("returned", "answered", "not_executed", None)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One event in a sentence: who (or what), what happened, and its details.

    Attributes:
        icon: Name of an icon.
        tone: The class of its color.
        before: Words before the name.
        name: The name that the line is about.
        after: Words after the name.
        quote: A text of a model, tool or person, shortened; or "".
        call: Id of the call, for a link; or `None`.
        wait: Id of the wait, for a link; or "".
        cursor: The cursor of the event.
        day: The day, if the line above has another one; otherwise `None`. The script
            of the page places the days of the reader's zone.
        clock: The time of day.
    """

    icon: str
    tone: str
    before: str
    name: str = ""
    after: str = ""
    quote: str = ""
    call: str | None = None
    wait: str = ""
    cursor: str = ""
    day: TimeView | None = None
    clock: TimeView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLog:
    """One page of the log.

    Attributes:
        lines: The lines, the newest first.
        older: Cursor before which the next page begins, or "".
        earlier: Number of the last version that the page does not know, or 0.
    """

    lines: tuple[LogLine, ...]
    older: str
    earlier: int


def run_log(
    window: VersionWindow,
    *,
    before: str = "",
    unread: Iterable[InboxMessage] = (),
) -> RunLog:
    """Return one page of the log.

    Args:
        window: The versions.
        before: Only lines before this cursor. Default: all.
        unread: Messages that the run has not read yet: the first page begins with them.
    """
    numbers: dict[str, int] = {}
    agents, workflows = _agent_calls(window), workflow_frames(window)
    found: list[tuple[str, datetime, LogLine]] = []
    claim = None if window.before is None else window.before.run.claim
    for version in window.versions:
        for event in version.events:
            if isinstance(event, run_stream.Attempt):
                numbers.setdefault(event.worker, len(numbers) + 1)
            said = _said(event, numbers, version.number, workflows)
            if said is not None and not _repeats(event, agents):
                found.append((event.cursor, version.at, said))
        if claim is not None and version.run.claim is None:
            cursor = f"{version.number}.{len(version.events) + 1}"
            found.append((cursor, version.at, _released(version, claim)))
        claim = version.run.claim
    found.reverse()
    waiting: list[tuple[str, datetime, LogLine]] = []
    if before:
        place = _place(before)
        found = [each for each in found if _place(each[0]) < place]
    else:
        waiting = [("", each.at, _unread(each)) for each in unread if not each.closes]
        waiting.reverse()
    shown = found[:LINES_PER_PAGE]
    return RunLog(
        lines=_lines(waiting + shown),
        older=shown[-1][0] if len(found) > len(shown) else "",
        earlier=window.first_number - 1,
    )


def _agent_calls(window: VersionWindow) -> set[str]:
    """Return the calls whose tool is an agent."""
    found = {
        call.id
        for state in (window.before, window.state)
        if state is not None
        for call in state.calls.values()
        if isinstance(call.state, Nested)
    }
    for version in window.versions:
        for event in version.events:
            if isinstance(event, run_stream.FrameStarted | run_stream.FrameEnded):
                found.add(event.call or "")
    return found


def _repeats(event: run_stream.StreamEvent, agents: set[str]) -> bool:
    """Return whether the begin or end of an agent tells the same."""
    if isinstance(event, run_stream.CallStarted | run_stream.CallEnded):
        return event.call in agents
    return False


def _lines(found: list[tuple[str, datetime, LogLine]]) -> tuple[LogLine, ...]:
    lines: list[LogLine] = []
    day = None
    for cursor, at, said in found:
        this_day = at.date()
        lines.append(
            replace(
                said,
                quote=shorten(said.quote.replace("\n", " "), _TEXT_CHARS),
                cursor=cursor,
                day=None if this_day == day else day_view(at),
                clock=second_view(at),
            )
        )
        day = this_day
    return tuple(lines)


def _place(cursor: str) -> tuple[int, int]:
    version, _, ordinal = cursor.partition(".")
    try:
        return int(version), int(ordinal or 0)
    except ValueError:
        return 0, 0


def _released(version: VersionEvents, claim: Claim) -> LogLine:
    if version.at > claim.until:
        return LogLine("warn", "od", "The worker was gone: its claim was over.")
    if version.run.status in ENDED_STATUSES:
        return LogLine("clock", "id", "The worker released the run.")
    if version.run.rests:
        return LogLine("clock", "id", "The thread rests: no process works on it.")
    return LogLine("clock", "id", "Suspended: nothing runs, nothing is paid for.")


def _said(  # noqa: PLR0911, PLR0912, C901 - one return for each type
    event: run_stream.StreamEvent,
    numbers: dict[str, int],
    version: int,
    workflows: frozenset[str],
) -> LogLine | None:
    name = event.path[-1] if event.path else ""
    match event:
        case run_stream.RunRepaired():
            text = "The run was repaired: it goes on from an earlier state."
            return LogLine("warn", "dg", text)
        case run_stream.RunRewound():
            text = f"The run was rewound: it goes on from version {event.version}."
            return LogLine("warn", "dg", text)
        case run_stream.Attempt():
            number, attempt = numbers[event.worker], event.number
            again = f", attempt {attempt}" if attempt > 1 else ""
            text = f"Worker {number} claimed the run, version {version}{again}"
            return LogLine("clock", "id", text)
        case run_stream.FrameStarted():
            return LogLine("agent", "id", "", name, "began", call=event.call)
        case run_stream.FrameEnded(output=output, call=call):
            return LogLine("agent", "ok", "", name, "ended", output or "", call=call)
        case run_stream.MessageAdded():
            return _message(event, name, is_workflow=event.frame in workflows)
        case (
            run_stream.StateChanged()
            | run_stream.Compacted()
            | run_stream.Handoff()
            | run_stream.CallsLeftOpen()
        ):
            return _change(event, name)
        case run_stream.CallProposed():
            quote = arguments_text(event.arguments_json or "", _TEXT_CHARS)
            agent = event.path[-2] if event.path[1:] else "The model"
            text = f"{agent} asks for"
            return LogLine("tool", "id", text, _name(event), "", quote, call=event.call)
        case run_stream.CallStarted():
            return LogLine("tool", "id", "", _name(event), "started", call=event.call)
        case run_stream.CallEnded():
            quote = event.result or ""
            if event.frame in workflows:
                quote = result_text(quote)
            tone = "ok" if event.end in _ENDED_WELL else "dg"
            return LogLine(
                "tool", tone, "", _name(event), "ended", quote, call=event.call
            )
        case run_stream.WaitOpened():
            return _wait(event)
        case run_stream.WaitDecided():
            return _decision(event, name)
        case run_stream.GuardrailTripped():
            text = f"tripped ({event.stage})"
            return LogLine(
                "shield", "dg", "Guardrail", event.guardrail, text, event.reason
            )
        case run_stream.ReplyGiven() | run_stream.RunEnded():
            return _end(event)


def _change(
    event: run_stream.StateChanged
    | run_stream.Compacted
    | run_stream.Handoff
    | run_stream.CallsLeftOpen,
    name: str,
) -> LogLine:
    """Return what changed about an agent."""
    match event:
        case run_stream.StateChanged(changes_json=quote):
            return LogLine("agent", "id", "State of", name, "changed", quote)
        case run_stream.Compacted():
            after = counted(event.tokens_after, "token")
            text = f"shortened: {event.tokens_before:,} to {after}"
            return LogLine("agent", "id", "History of", name, text)
        case run_stream.Handoff():
            words = f"{event.previous} hands over to"
            unread = run_stream.unread_words(event).removeprefix(", ")
            return LogLine("agent", "id", words, event.agent, unread)
        case run_stream.CallsLeftOpen(calls=calls):
            text = f"ended before {counted(len(calls), 'call')}"
            quote = ", ".join(calls)
            return LogLine("agent", "id", "The function of", name, text, quote)


def _unread(message: InboxMessage) -> LogLine:
    who = message.by or "Somebody"
    text = "sent a message, which the run has not read yet"
    quote = message_text(message.message.data.get("content"), "user")
    return LogLine("person", "wt", "", who, text, quote)


def _name(
    event: run_stream.CallProposed | run_stream.CallStarted | run_stream.CallEnded,
) -> str:
    """Return the name of a tool; a workflow waits by itself with `.ask` and so on."""
    return event.tool.removeprefix(".")


def _message(
    event: run_stream.MessageAdded, name: str, *, is_workflow: bool
) -> LogLine | None:
    message = jsontext.as_object(jsontext.parse(event.message_json)) or {}
    content = message_text(message.get("content"), message.get("role"))
    match message.get("role"):
        case "user" if is_workflow:
            quote = arguments_text(content, _TEXT_CHARS)
            return LogLine("agent", "id", "Arguments of", name, "", quote)
        case "user" if len(event.path) <= 1:
            return LogLine("person", "id", "Message to", name, "", content)
        case "assistant" if content:
            return LogLine("agent", "id", "", name, "wrote", content)
        case _:
            # Other lines tell of calls, results and inputs of sub-agents.
            return None


def message_text(content: object, role: object = None) -> str:
    """Return the text of a message's content, which may have several parts.

    With the role of a user or tool message, labels stand for its attachments.
    """
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in jsontext.as_array(content) or []:
        fields = jsontext.as_object(part) or {}
        text = fields.get("text")
        if text is None and role is not None and is_reference(part):
            text = labelled_text(role, [part]) or None
        texts.append(text if isinstance(text, str) else f"[{fields.get('type', '?')}]")
    return "\n".join(texts)


def _wait(event: run_stream.WaitOpened) -> LogLine:
    wait, rules = event.wait, event.wait.rules
    tone = "id"
    if rules.asks_person:
        tone = "od" if rules.may_have_run else "wt"
    icon = {"od": "warn", "wt": "shield"}.get(tone, "clock")
    quote = wait.title or wait.question or wait.event or wait.policy or ""
    text = f"waits for {rules.awaited}"
    link = wait.id if rules.has_object else ""
    return LogLine(icon, tone, "", wait.tool, text, quote, wait.call_id, link)


_VERBS = {
    "approve": "approved",
    "deny": "denied",
    "answer": "answered",
    "fail": "reported a failure of",
    "cancel": "cancelled",
}


def _decision(event: run_stream.WaitDecided, name: str) -> LogLine:
    link = event.wait_id if event.kind is not None else ""
    tone = "ok" if event.kind in ("approve", "answer", None) else "dg"
    if event.kind is None:
        return LogLine("clock", tone, "The wait of", name, "is over")
    if event.kind == "expire":
        return LogLine("clock", tone, "The deadline of", name, "passed", wait=link)
    verb = _VERBS[event.kind]
    return LogLine("person", tone, f"{event.by or 'Somebody'} {verb}", name, wait=link)


def _end(event: run_stream.ReplyGiven | run_stream.RunEnded) -> LogLine:
    failure = event.failure
    quote = event.output or "" if failure is None else failure.message
    icon, tone = ("ok", "ok") if failure is None else ("warn", "dg")
    if isinstance(event, run_stream.ReplyGiven):
        what = "was answered" if failure is None else "failed"
        text = f"Message {event.message_number} {what}"
        return LogLine(icon, tone, text, quote=quote)
    return LogLine(icon, tone, f"The run is {event.status}", quote=quote)


def is_workflow(state: RunState) -> bool:
    """Return whether the root of a run is a workflow, which reads no messages."""
    root = state.frames.get(ROOT_FRAME_ID)
    return root is not None and bool(root.step)


def workflow_frames(window: VersionWindow) -> frozenset[str]:
    """Return the ids of the frames of some versions that are workflows."""
    known = {
        frame.id
        for state in (window.before, window.state)
        if state is not None
        for frame in state.frames.values()
        if frame.step
    }
    # No state has a frame that began and ended in between. The calls of a workflow have
    # our ids; those of a model have the ids of the provider.
    between = {
        event.frame
        for version in window.versions
        for event in version.events
        if isinstance(event, run_stream.CallProposed)
        and event.frame is not None
        and event.call == event.tool_call_id
    }
    return frozenset(known | between)


def result_text(result_json: str) -> str:
    """Return the result of a call of a workflow: a text without its quotes.

    Args:
        result_json: The JSON of a value, or the words of an error.

    Returns:
        The text, if the value is one; otherwise `result_json`.
    """
    if not result_json.startswith('"'):
        return result_json
    try:
        value: object = jsontext.parse(result_json)
    except jsontext.NotJson:
        return result_json
    return value if isinstance(value, str) else result_json
