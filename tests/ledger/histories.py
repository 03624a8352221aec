"""Long random histories of one run, the same in every test run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from continuations.core import messages as chat_messages
from continuations.core.rows.frames import MessageLog
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from tests.ledger.runs import make_state, make_wait, with_message, with_proposed_call


def history(seed: int, length: int) -> Iterator[RunState]:
    """Yield states of a run, each a random change of the one before."""
    dice = random.Random(seed)  # noqa: S311 - a story, not a secret
    state = make_state()
    for step in range(length):
        yield state
        change = dice.choice(
            (
                _with_messages,
                _with_messages,
                _with_calls,
                _without_one_call,
                _with_one_wait,
                _with_rewritten_log,
                _with_new_manifest,
            )
        )
        state = change(state, step, dice)


def _with_messages(state: RunState, step: int, rng: random.Random) -> RunState:
    for _ in range(rng.randrange(3)):
        state = with_message(state, f"message {step} {rng.random()}")
    return state


def _with_calls(state: RunState, step: int, rng: random.Random) -> RunState:
    for number in range(rng.randrange(1, 4)):
        state = with_proposed_call(state, f"c{100_000 + 10 * step + number}")
    return _with_large_next_id(state)


def _without_one_call(state: RunState, _: int, rng: random.Random) -> RunState:
    """Remove a call, and its wait if it has one."""
    if not state.calls:
        return state
    gone = rng.choice(list(state.calls))
    frame = state.frames[ROOT_FRAME_ID]
    return replace(
        state,
        calls={key: row for key, row in state.calls.items() if key != gone},
        waits={k: row for k, row in state.waits.items() if row.call_id != gone},
        frames={
            ROOT_FRAME_ID: replace(
                frame,
                open_call_ids=tuple(key for key in frame.open_call_ids if key != gone),
            )
        },
    )


def _with_one_wait(state: RunState, step: int, _: random.Random) -> RunState:
    """Add a call with an open wait."""
    wait = make_wait(200_000 + step)
    other = make_state(wait)
    frame = state.frames[ROOT_FRAME_ID]
    return _with_large_next_id(
        replace(
            state,
            calls={**state.calls, **other.calls},
            waits={**state.waits, wait.id: wait},
            frames={
                ROOT_FRAME_ID: replace(
                    frame, open_call_ids=(*frame.open_call_ids, wait.call_id)
                )
            },
        )
    )


def _with_rewritten_log(state: RunState, step: int, rng: random.Random) -> RunState:
    """Start a new log with some of the old messages."""
    old = state.logs[ROOT_FRAME_ID].messages
    keep = rng.randrange(len(old) + 1)
    log = MessageLog(
        300_000 + step,
        (*old[:keep], chat_messages.user_message(f"rewritten at {step}")),
    )
    return _with_large_next_id(replace(state, logs={ROOT_FRAME_ID: log}))


def _with_new_manifest(state: RunState, step: int, _: random.Random) -> RunState:
    return replace(state, manifest=f'{{"agents":{{"hr":{step}}}}}')


def _with_large_next_id(state: RunState) -> RunState:
    return replace(state, run=replace(state.run, next_id=1_000_000))
