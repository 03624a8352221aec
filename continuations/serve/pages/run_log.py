"""The sentences of the log of a run: one line for each of its durable events."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from continuations.core import jsontext
from continuations.core.attachment_parts import is_reference, labelled_text
from continuations.core.reading import run_stream
from continuations.core.rows.run import ENDED_STATUSES, Claim
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.visible_text import shorten
from continuations.present.times import counted
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from continuations.core.changes.tool_messages import CallEnd
    from continuations.core.reading.run_past import VersionEvents, VersionWindow
    from continuations.core.rows.slots import Slot
    from continuations.core.rows.waits import Wait
    from continuations.wire.arrivals import InboxMessage

    ArgumentsText: TypeAlias = Callable[[str | None, str, int], str]


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
    return fields_text(fields, max_chars)


def fields_text(fields: Mapping[str, object], max_chars: int) -> str:
    """Return values as `to: Kim, cents: 500`; a single one without its name."""
    values = [
        shorten(each if isinstance(each, str) else jsontext.dump(each), max_chars)
        for each in fields.values()
    ]
    if len(values) == 1:
        return values[0]
    pairs = zip(fields, values, strict=True)
    return shorten(", ".join(f"{name}: {text}" for name, text in pairs), max_chars)


TEXT_CHARS = 200
_ENDED_WELL = ("returned", "answered", "not_executed", None)
# How a call ended, by the code of its end.
_ENDS = {
    "denied": "was denied",
    "expired": "expired",
    "cancelled": "was cancelled",
    "not_executed": "was not run",
    "invalid": "failed",
    "error": "failed",
}


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
    """

    icon: str
    tone: str
    before: str
    name: str = ""
    after: str = ""
    quote: str = ""
    call: str | None = None
    wait: str = ""


def released_line(version: VersionEvents, claim: Claim) -> LogLine:
    """Return the line of a version that has the claim of a worker no more."""
    if version.at > claim.until:
        return LogLine("warn", "od", "The worker was gone: its claim was over.")
    if version.run.status in ENDED_STATUSES:
        return LogLine("clock", "id", "The worker released the run.")
    if version.run.rests:
        return LogLine("clock", "id", "The thread waits for its next message.")
    return LogLine("clock", "id", "The run waits: the worker released it.")


def unread_line(message: InboxMessage) -> LogLine:
    """Return the line of a message that the run has not read yet."""
    who = message.by or "Somebody"
    text = "sent a message, which the run has not read yet"
    quote = message_text(message.message.data.get("content"), "user")
    return LogLine("person", "wt", "", who, text, quote)


@dataclass(frozen=True, slots=True)
class CountedSlot:
    """A vote that counts, an escalation or a new deadline.

    Attributes:
        slot: The slot.
        wait: The wait after it, or before it if it ended the wait.
        votes: How many votes the wait has after it.
    """

    slot: Slot
    wait: Wait
    votes: int


def slot_line(counted: CountedSlot) -> LogLine:
    """Return the line of a vote, an escalation or a new deadline."""
    slot, wait = counted.slot, counted.wait
    if slot.vote is not None:
        verb = VERBS.get(slot.vote.kind, "decided")
        is_no = slot.vote.kind in ("deny", "fail")
        who = f"{slot.vote.by or 'Somebody'} {verb}"
        text = "" if is_no else f"({counted.votes} of {wait.votes_needed} votes)"
        return LogLine(
            icon="person",
            tone="dg" if is_no else "ok",
            before=who,
            name=wait.tool,
            after=text,
            quote=wait_title(wait),
            call=wait.call_id,
            wait=wait.id,
        )
    if slot.kind == "extend":
        who = f"{slot.by or 'Somebody'} moved the deadline of"
        return LogLine("clock", "id", who, wait.tool, wait=wait.id)
    words = "The deadline of", wait.tool, "passed: other people are asked"
    return LogLine("clock", "wt", *words, wait=wait.id)


def wait_title(wait: Wait) -> str:
    """Return the text that says what a wait is about, or ""."""
    return wait.title or wait.question or wait.event or wait.policy or ""


def event_line(  # noqa: PLR0911, C901 - one return for each type
    event: run_stream.StreamEvent,
    numbers: dict[str, int],
    version: int,
    workflows: Collection[str],
    arguments: ArgumentsText,
) -> LogLine | None:
    """Return the line of an event, or `None` if other lines say the same.

    Args:
        event: The event.
        numbers: The numbers of the workers, by id.
        version: Number of the version of the event.
        workflows: Ids of the frames that are workflows.
        arguments: Returns the arguments of a call, in so many characters.
    """
    name = event.path[-1] if event.path else ""
    match event:
        case run_stream.RunRepaired() | run_stream.RunRewound():
            return _anew(event)
        case run_stream.Attempt():
            number = numbers.get(event.worker)
            worker = "A worker" if number is None else f"Worker {number}"
            again = f", attempt {event.number}" if event.number > 1 else ""
            text = f"{worker} claimed the run, version {version}{again}"
            return LogLine("clock", "id", text)
        case run_stream.FrameStarted():
            return LogLine("agent", "id", "", name, "began", call=event.call)
        case run_stream.FrameEnded(output=output, call=call):
            tone, text = _end_words(event.end)
            return LogLine("agent", tone, "", name, text, output or "", call)
        case run_stream.MessageAdded():
            return _message(event, name, is_workflow=event.frame in workflows)
        case (
            run_stream.StateChanged()
            | run_stream.Compacted()
            | run_stream.Handoff()
            | run_stream.CallsLeftOpen()
        ):
            return _change(event, name)
        case (
            run_stream.CallProposed()
            | run_stream.CallStarted()
            | run_stream.CallEnded()
        ):
            return _call(event, workflows, arguments)
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


def _call(
    event: run_stream.CallProposed | run_stream.CallStarted | run_stream.CallEnded,
    workflows: Collection[str],
    arguments: ArgumentsText,
) -> LogLine:
    name, call = event.tool.removeprefix("."), event.call
    match event:
        case run_stream.CallProposed():
            quote = arguments(call, event.arguments_json or "", TEXT_CHARS)
            agent = event.path[-2] if event.path[1:] else "The model"
            return LogLine("tool", "id", f"{agent} asks for", name, "", quote, call)
        case run_stream.CallStarted():
            return LogLine("tool", "id", "", name, "started", call=call)
        case run_stream.CallEnded():
            quote = event.result or ""
            if event.frame in workflows:
                quote = result_text(quote)
            tone, text = _end_words(event.end)
            return LogLine("tool", tone, "", name, text, quote, call)


def _end_words(end: CallEnd | None) -> tuple[str, str]:
    """Return the tone and the words of how a call ended."""
    tone = "ok" if end in _ENDED_WELL else "dg"
    return tone, _ENDS.get(end or "", "ended")


def _anew(event: run_stream.RunRepaired | run_stream.RunRewound) -> LogLine:
    """Return that the run continues from an earlier state."""
    text = "The run was repaired: it continues from an earlier state."
    if isinstance(event, run_stream.RunRewound):
        text = f"The run was rewound: it continues from version {event.version}."
    return LogLine("warn", "dg", text)


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


def _message(
    event: run_stream.MessageAdded, name: str, *, is_workflow: bool
) -> LogLine | None:
    message = jsontext.as_object(jsontext.parse(event.message_json)) or {}
    content = message_text(message.get("content"), message.get("role"))
    match message.get("role"):
        case "user" if is_workflow:
            quote = arguments_text(content, TEXT_CHARS)
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
    text = f"waits for {rules.awaited}"
    link = wait.id if rules.has_object else ""
    return LogLine(
        icon, tone, "", wait.tool, text, wait_title(wait), wait.call_id, link
    )


VERBS = {
    "approve": "approved",
    "deny": "denied",
    "answer": "answered",
    "fail": "reported a failure of",
    "cancel": "cancelled",
}


def _decision(event: run_stream.WaitDecided, name: str) -> LogLine:
    link = event.wait_id if event.kind is not None else ""
    tone = "ok" if event.kind in ("approve", "answer", None) else "dg"
    if event.kind is None or (event.kind == "cancel" and event.by is None):
        return LogLine("clock", "id", "The wait of", name, "is over")
    if event.kind == "expire":
        return LogLine("clock", tone, "The deadline of", name, "passed", wait=link)
    verb = VERBS[event.kind]
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
    # No state has a frame that began and ended in between.
    return frozenset(known | workflows_in(e for v in window.versions for e in v.events))


def workflows_in(events: Iterable[run_stream.StreamEvent]) -> set[str]:
    """Return the ids of the frames whose code makes calls in some events.

    The calls of a workflow have our ids; those of a model have the ids of the provider.
    """
    return {
        event.frame
        for event in events
        if isinstance(event, run_stream.CallProposed)
        and event.frame is not None
        and event.call == event.tool_call_id
    }


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
