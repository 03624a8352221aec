"""The texts of a run as a form shows them: all, without arguments, or none.

The transcript is the messages of a run, with everything that models and tools wrote. It
does not say which arguments of its calls are secret. So a form that is no transcript
has `WITHHELD` in place of these arguments, and the calls beside it have them masked.

| detail | messages of agents and results of tools | arguments in messages |
|---|---|---|
| `transcript` | shown | shown |
| `texts` | shown | withheld, and so are the inputs of sub-agents |
| `states` | withheld | withheld |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from continuations.core import jsontext
from continuations.core.messages import WITHHELD, Detail, shown_message
from continuations.core.reading import live_events, run_stream
from continuations.core.rows.calls import CLOSED_STATES, CallRow
from continuations.core.rows.frames import MessageLog
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.reading.run_past import (
        RewindPlan,
        Rewound,
        RunDifference,
        RunVersion,
        VersionWindow,
    )
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState

_WITHHELD_JSON = jsontext.dump(WITHHELD)
# The shown rest of the result of a call that did not return.
_WORDS_OF_ENDS: Mapping[str, str] = {
    "answered": "ANSWERED:",
    "denied": "DENIED:",
    "expired": "EXPIRED:",
    "cancelled": "CANCELLED",
    "not_executed": "NOT EXECUTED:",
    "invalid": "ERROR:",
    "error": "ERROR:",
}

# The field of each event with a text of a model or tool. A message has its own rule.
_TEXTS_OF_EVENTS: Mapping[type[live_events.RunEvent], str | None] = {
    run_stream.RunRepaired: None,
    run_stream.RunRewound: None,
    run_stream.Attempt: None,
    run_stream.FrameStarted: None,
    run_stream.FrameEnded: "output",
    run_stream.MessageAdded: "message_json",
    # Approvers read the states of agents. Tools write them, and not their arguments.
    run_stream.StateChanged: None,
    run_stream.Compacted: "summary",
    run_stream.Handoff: None,
    run_stream.CallsLeftOpen: None,
    # These have their secret arguments masked.
    run_stream.CallProposed: None,
    run_stream.WaitOpened: None,
    run_stream.CallStarted: None,
    run_stream.CallEnded: "result",
    run_stream.WaitDecided: None,
    run_stream.GuardrailTripped: None,
    run_stream.ReplyGiven: "output",
    run_stream.RunEnded: "output",
    live_events.TextDelta: "text",
    live_events.ReasoningDelta: "text",
    live_events.CallProgress: "value_json",
}

E = TypeVar("E", bound="live_events.RunEvent")
P = TypeVar("P", bound="RewindPlan | Rewound")


def shown_text(text: str | None, detail: Detail) -> str | None:
    """Return a text of a model or tool, or a result."""
    return WITHHELD if detail == "states" and text is not None else text


def _shown_result(event: live_events.RunEvent) -> str:
    """Return how the call of an event ended, without the text of its result."""
    end = None
    if isinstance(event, run_stream.CallEnded | run_stream.FrameEnded):
        end = event.end
    return f"{_WORDS_OF_ENDS.get(end or '', '')} {WITHHELD}".strip()


def shown_event(event: E, detail: Detail) -> E:
    """Return an event of a run."""
    changes: Any = {} if detail == "transcript" else _changes(event, detail)
    return replace(event, **changes) if changes else event


def _changes(event: live_events.RunEvent, detail: Detail) -> dict[str, str]:
    # An event that the table lacks is an error, and never shown.
    name = _TEXTS_OF_EVENTS[type(event)]
    if isinstance(event, run_stream.MessageAdded):
        return {"message_json": _shown_json(event.message_json, detail, event.path)}
    text: str | None = None if name is None else getattr(event, name)
    if detail == "texts" or name is None or text is None:
        return {}
    shown = _WITHHELD_JSON if name == "value_json" else _shown_result(event)
    return {name: shown}


def _shown_json(message_json: str, detail: Detail, path: tuple[str, ...]) -> str:
    message = dict(jsontext.parse(message_json))
    # The path of the root agent has its name alone.
    of_sub_agent = len(path) > 1
    return jsontext.dump(shown_message(message, detail, of_sub_agent=of_sub_agent))


def shown_version(version: RunVersion, detail: Detail) -> RunVersion:
    """Return a version of the past of a run."""
    events = tuple(shown_event(each, detail) for each in version.events)
    return replace(version, events=events)


def shown_difference(found: RunDifference, detail: Detail) -> RunDifference:
    """Return the differences of two versions."""
    if detail == "transcript":
        return found
    messages = tuple(
        replace(each, message_json=_shown_json(each.message_json, detail, each.path))
        for each in found.messages
    )
    return replace(found, messages=messages)


def shown_rewind(rewind: P, detail: Detail) -> P:
    """Return a rewind, or the plan of one."""
    messages = tuple(
        replace(each, text=shown_text(each.text, detail) or "")
        for each in rewind.messages
    )
    return replace(rewind, messages=messages)


def shown_state(state: RunState, detail: Detail) -> RunState:
    """Return the state of a run for a page; without texts, it has no messages."""
    if detail != "states":
        return state
    logs = {frame_id: MessageLog(log.id, ()) for frame_id, log in state.logs.items()}
    calls = {
        row.id: _shown_end(row) if isinstance(row.state, CLOSED_STATES) else row
        for row in state.calls.values()
    }
    return replace(state, run=_shown_run(state.run, detail), logs=logs, calls=calls)


def _shown_end(row: CallRow) -> CallRow:
    state: Any = row.state
    return replace(row, state=replace(state, content=_shown_result(state.content)))


def shown_window(window: VersionWindow, detail: Detail) -> VersionWindow:
    """Return some versions of a run for a page."""
    if detail == "transcript":
        return window
    versions = tuple(
        replace(
            each,
            run=_shown_run(each.run, detail),
            events=tuple(shown_event(event, detail) for event in each.events),
        )
        for each in window.versions
    )
    before = None if window.before is None else shown_state(window.before, detail)
    state = shown_state(window.state, detail)
    return replace(window, before=before, versions=versions, state=state)


def _shown_run(run: RunRow, detail: Detail) -> RunRow:
    return replace(run, output=shown_text(run.output, detail))
