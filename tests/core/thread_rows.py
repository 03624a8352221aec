"""Small threads for tests: one that rests, and messages to it."""

from __future__ import annotations

from dataclasses import replace

from continuations.core.changes.events import UserMessageAdded
from continuations.core.messages import user_message
from continuations.core.rows.state import RunState
from tests.core.rows import new_state


def new_thread(key: str = "customer 42") -> RunState:
    """Return a thread that has read no message."""
    state = new_state()
    return replace(state, run=replace(state.run, thread_key=key))


def posted(number: int, text: str, by: str | None = None) -> UserMessageAdded:
    """Return the event that a thread reads a message."""
    return UserMessageAdded(number=number, message=user_message(text), by=by)
