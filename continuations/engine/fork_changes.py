"""The changes of a fork: other messages, and results of calls.

Each is checked against the version that is forked, before anything is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.call_events import CallReturned
from continuations.core.calls import CLOSED_STATES, Nested, Returned, Started
from continuations.core.draft import Draft
from continuations.core.messages import Message
from continuations.core.reducer import advance
from continuations.core.run import ENDED_STATUSES
from continuations.core.state import ROOT_FRAME_ID
from continuations.core.transcript import NOTHING_CHECKED
from continuations.engine.new_run import parse_input, parse_user_message
from continuations.errors import InvalidInput
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from continuations.core.state import RunState


def as_mapping(value: object, name: str) -> dict[str, Any]:
    """Return a copy of a mapping from ids; raises `InvalidInput`."""
    if value is None:
        return {}
    found = jsontext.as_object(value)
    keys: list[object] = [] if found is None else [*found]
    if found is None or not all(isinstance(key, str) for key in keys):
        msg = f"{name} must be a dict from ids, got {type(value).__name__}."
        raise InvalidInput(f"{msg} Pass {name}={{id: ...}}.")
    return dict(found)


def check_ids(given: Iterable[str], known: Iterable[str], name: str, kind: str) -> None:
    """Raise `InvalidInput` if an id is unknown in the version that is forked."""
    ids = sorted(known)
    for each in given:
        if each not in ids:
            have = f"Its {kind}s are: {', '.join(ids)}" if ids else f"It has no {kind}"
            msg = f"{name} names {each[:100]!r}, which is no {kind} of the version."
            raise InvalidInput(
                f"{msg} {have}. Look at the version, then fork it again."
            )


def check_can_go_on(state: RunState, version: int, messages: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` if nothing is left to do in a version."""
    run = state.run
    if run.status in ENDED_STATUSES:
        msg = (
            f"run {run.id} was not forked: it is {run.status} in version {version}, "
            "so nothing is left to do. Pass the number of an earlier version."
        )
        raise InvalidInput(msg, run_id=run.id)
    if run.rests and ROOT_FRAME_ID not in messages:
        msg = (
            f"run {run.id} was not forked: the thread rests in version {version}, and "
            "a fork has no inbox to wait for. Pass the next message as "
            f"messages={{'{ROOT_FRAME_ID}': ...}}, or another version."
        )
        raise InvalidInput(msg, run_id=run.id)


# Messages -------------------------------------------------------------------


def with_messages(state: RunState, messages: Mapping[str, Any]) -> RunState:
    """Return the state with a message more, or with other messages, in some frames.

    Raises `InvalidInput` if a frame is unknown or cannot have these messages.
    """
    check_ids(messages, state.frames, "messages", "frame")
    draft = Draft(state)
    for frame_id, value in messages.items():
        frame = draft.frame(frame_id)
        old = draft.log(frame_id).messages
        if isinstance(value, str):
            if frame.open_call_ids:
                raise _open_calls_error(frame_id)
            new = (*old, parse_user_message(value))
        else:
            new = _transcript(value, old, frame_id, has_calls=bool(frame.open_call_ids))
        wait = draft.suspending.get(frame_id)
        if wait is not None:  # the model is asked about the new messages
            draft.drop_wait(wait.id)
        draft.start_log(frame_id, new)
        changed = replace(
            draft.frame(frame_id),
            history=None,
            pending_reply=None,
            polls=0,
            failed_requests=0,
            model_error=None,
        )
        draft.put_frame(changed)
    return draft.to_run_state()


def _open_calls_error(frame_id: str) -> InvalidInput:
    msg = (
        f"messages of frame {frame_id} cannot end with a new message: its last turn "
        "has open calls. Pass a list that ends with this turn, or give their results."
    )
    return InvalidInput(msg)


def _transcript(
    value: Any, old: Sequence[Message], frame_id: str, *, has_calls: bool
) -> tuple[Message, ...]:
    """Return other messages of a frame; those that did not change stay as they were."""
    given = [*(jsontext.as_array(value) or ())]
    if has_calls and given[-1:] != [old[-1].data]:
        # The results of the last turn follow later.
        raise _open_calls_error(frame_id)
    try:
        if not has_calls:
            return _with_same(parse_input(value), old)
        before = [Message.from_mapping(jsontext.as_object(m) or {}) for m in given[:-1]]
    except (InvalidInput, ValueError, jsontext.NotJson) as error:
        msg = f"messages of frame {frame_id} are invalid: {error}"
        raise InvalidInput(f"{msg} Pass a text, or a list of chat messages.") from None
    new = _with_same((*before, old[-1]), old)
    violation = NOTHING_CHECKED.extended(new).violation
    if violation is not None:
        msg = f"messages of frame {frame_id} are no conversation: {violation}."
        raise InvalidInput(f"{msg} Pass a list that a model accepts.")
    return new


def _with_same(new: tuple[Message, ...], old: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages with the stored text of those that are the same."""
    return tuple(
        old[n] if n < len(old) and each.data == old[n].data else each
        for n, each in enumerate(new)
    )


# Results --------------------------------------------------------------------


def with_results(state: RunState, results: Mapping[str, Any]) -> RunState:
    """Return the state in which some calls have returned; their tools do not run.

    A call of an agent ends with everything below it. Raises `InvalidInput` if a call is
    unknown or its result is no JSON value.
    """
    check_ids(results, state.calls, "results", "call")
    texts = {call_id: _text_of(value, call_id) for call_id, value in results.items()}
    # The deepest ones last: they may end with the calls above them.
    for call_id in sorted(texts, key=lambda each: int(each[1:])):
        row = state.calls.get(call_id)
        if row is None:
            continue
        if isinstance(row.state, CLOSED_STATES):
            changed = replace(row, state=Returned(texts[call_id]))
            state = _with_rows(state, {**state.calls, call_id: changed})
            continue
        state = _without_what_is_below(state, call_id)
        state = advance(state, CallReturned(call_id=call_id, content=texts[call_id]))
    return state


def _text_of(value: Any, call_id: str) -> str:
    if isinstance(value, str):
        return value
    try:
        return jsontext.canonical(value)
    except jsontext.NotJson as error:
        msg = f"results of call {call_id} cannot be stored: {error}. Pass a JSON value."
        raise InvalidInput(msg) from None


def _without_what_is_below(state: RunState, call_id: str) -> RunState:
    """Return the state in which a call runs and has no agent and no wait below it."""
    calls, frames = dict(state.calls), dict(state.frames)
    row = calls[call_id]
    pending, gone_calls = [row], {call_id}
    for each in pending:
        if isinstance(each.state, Nested):
            below = frames.pop(each.state.frame_id)
            pending += [calls[below_id] for below_id in below.open_call_ids]
    for each in pending[1:]:
        gone_calls.add(each.id)
        del calls[each.id]
    # As if the tool had run: the model reads the result as that of the tool.
    calls[call_id] = replace(row, state=Started(), attempts=max(row.attempts, 1))
    kept = {
        key: wait
        for key, wait in state.waits.items()
        if wait.call_id not in gone_calls
        and (not wait.frame_id or wait.frame_id in frames)
    }
    logs = {key: log for key, log in state.logs.items() if key in frames}
    return state.from_rows(
        run=state.run,
        manifest=state.manifest,
        frames=frames,
        calls=calls,
        waits=kept,
        logs=logs,
    )


def _with_rows(state: RunState, calls: Mapping[str, Any]) -> RunState:
    return state.from_rows(
        run=state.run,
        manifest=state.manifest,
        frames=state.frames,
        calls=calls,
        waits=state.waits,
        logs=state.logs,
    )
