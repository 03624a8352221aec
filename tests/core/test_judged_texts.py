"""The rows of inputs and outputs that a person must accept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from continuations.core import jsontext
from continuations.core.changes import events
from continuations.core.changes.invariants import find_violation
from continuations.core.changes.judged_texts import WITHHELD_REPLY, input_digest
from continuations.core.changes.plan import plan
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.rows.waits import Wait
from continuations.errors import Corrupt, FormatError, IllegalTransition
from continuations.wire.continuation import Continuation
from tests.core.rows import apply_events, make_frame_wait, new_state
from tests.wire.golden.runs import HELD_REPLY, held_input, held_output


def only_wait(state: RunState) -> Wait:
    """Return the open wait of a run."""
    [wait] = state.waits.values()
    return wait


def with_root(state: RunState, **changes: Any) -> RunState:
    """Return a run whose root frame, or wait, is changed by hand."""
    wait = changes.pop("wait", None)
    root = replace(state.frames[ROOT_FRAME_ID], **changes)
    waits = state.waits if wait is None else {wait.id: wait}
    return RunState.from_rows(
        run=state.run,
        manifest=state.manifest,
        frames={ROOT_FRAME_ID: root},
        calls={},
        waits=waits,
        logs=state.logs,
    )


def test_held_texts_satisfy_the_invariants_and_plan_nothing() -> None:
    """No model is asked, and the held reply is no message."""
    for state in (held_input(), held_output()):
        assert find_violation(state) is None
        assert () == plan(state)
        assert 1 == len(state.logs[ROOT_FRAME_ID].messages)


def test_accepted_reply_is_the_held_one() -> None:
    """It is added, and the row keeps nothing."""
    state = held_output()
    after = apply_events(state, events.TextAccepted(only_wait(state).id))
    assert HELD_REPLY == after.logs[ROOT_FRAME_ID].messages[-1]
    assert after.frames[ROOT_FRAME_ID].held_reply is None
    assert {} == after.waits


def test_refused_reply_is_gone() -> None:
    """The frame ends, with a note in the transcript."""
    state = held_output()
    event = events.TextRefused(
        wait_id=only_wait(state).id, content="no", message=WITHHELD_REPLY
    )
    after = apply_events(state, event)
    assert ("failed", "guardrail") == (after.run.status, after.run.failure.code)  # type: ignore[union-attr]
    assert after.frames[ROOT_FRAME_ID].held_reply is None
    assert WITHHELD_REPLY == after.logs[ROOT_FRAME_ID].messages[-1]


def test_wait_that_ends_in_another_way_accepts_nothing() -> None:
    """The held reply goes with it, and the model is asked again."""
    state = held_output()
    after = apply_events(state, events.SuspensionEnded(wait_id=only_wait(state).id))
    assert after.frames[ROOT_FRAME_ID].held_reply is None
    assert 1 == len(after.logs[ROOT_FRAME_ID].messages)
    assert 1 == len(plan(after))


def test_acceptance_of_an_input_fits_this_run_and_text_only() -> None:
    """A run with another nonce, as after a fork, does not have it."""
    state = held_input()
    after = apply_events(state, events.TextAccepted(only_wait(state).id))
    accepted = after.frames[ROOT_FRAME_ID].accepted_input
    run = after.run
    assert accepted == input_digest(run, ROOT_FRAME_ID, "a fish")
    other = replace(run, run_nonce="other")
    for digest in (
        input_digest(other, ROOT_FRAME_ID, "a fish"),
        input_digest(run, "f2", "a fish"),
        input_digest(run, ROOT_FRAME_ID, "a fish "),
    ):
        assert accepted != digest


def test_other_waits_accept_nothing() -> None:
    """The wait for a model, and one that does not exist."""
    wait = make_frame_wait(ROOT_FRAME_ID)
    state = apply_events(new_state(), events.SuspensionBegan(wait=wait))
    for wait_id in (only_wait(state).id, "nothing"):
        with pytest.raises(IllegalTransition):
            apply_events(state, events.TextAccepted(wait_id))


def other_text(wait: Wait) -> Wait:
    """Return a wait that shows another text than the held one."""
    return replace(wait, arguments_json=jsontext.canonical({"output": "meat"}))


@pytest.mark.parametrize(
    "damage",
    [
        lambda: with_root(held_output(), held_reply=None),
        lambda: with_root(held_output(), wait=other_text(only_wait(held_output()))),
        lambda: with_root(
            held_output(), wait=replace(only_wait(held_output()), arguments_json="{}")
        ),
        lambda: with_root(held_input(), held_reply=HELD_REPLY),
        lambda: with_root(new_state(), held_reply=HELD_REPLY),
        lambda: with_root(
            held_output(), wait=make_frame_wait(ROOT_FRAME_ID, "model-1")
        ),
    ],
    ids=["no reply", "other text", "no text", "of an input", "no wait", "other wait"],
)
def test_held_reply_that_is_not_that_of_its_wait_is_not_read(damage: Any) -> None:
    """A person accepts the text that the wait shows, and no other."""
    data = Continuation(damage(), 12).to_bytes()
    with pytest.raises((Corrupt, FormatError), match="f1"):
        Continuation.from_bytes(data)
