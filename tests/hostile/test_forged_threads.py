"""Forged objects of threads: nothing runs, and the error names the object."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from continuations import Agent, Replied, Runner
from continuations.errors import Corrupt, FormatError
from continuations.ledger import layout
from continuations.ledger.arrivals.arrival_logs import MESSAGES
from continuations.ledger.layout import thread_run_id
from continuations.models.scripted import ScriptedModel
from continuations.wire.arrivals import MESSAGE, MESSAGE_ID, FirstNumber
from continuations.wire.versions import decode_version, encode_version
from tests.hostile.editable_store import EditableStore

THREAD = thread_run_id("support", "k", 1)
ID_KEY = MESSAGES.id_key(THREAD, "id:m1")
FIRST = layout.numbered_key(layout.MESSAGE, THREAD, 1)


class Desk:
    """A thread with one answered message, whose id is `m1`."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.store = EditableStore()
        agent = Agent("support", model=ScriptedModel(self._reply))
        self.agent = agent
        reply = self.send()
        assert isinstance(reply, Replied)
        self.asked.clear()

    def send(self) -> object:
        """Send the message from a process that keeps nothing of the thread."""
        thread = Runner(self.agent, store=self.store).thread(key="k")
        return thread.send("one", id="m1")

    def _reply(self, request: object) -> str:
        self.asked.append(request)
        return "Yes."

    def refuse(self, key: str, error: type[Exception] = FormatError) -> None:
        """Check that a repeat is refused with the key, and changes nothing."""
        before = self.store.bodies
        with pytest.raises(error, match=key):
            self.send()
        assert [] == self.asked
        assert before == self.store.bodies


@pytest.mark.parametrize("number", [0, 3, 10**6, 2**64 - 1])
def test_message_id_with_an_absurd_number_posts_nothing(number: int) -> None:
    """A message behind a gap would never be read."""
    desk = Desk()
    desk.store.replace_body(ID_KEY, MESSAGE_ID.encode(FirstNumber(number), THREAD))

    desk.refuse(ID_KEY, Corrupt)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        MESSAGE_ID.encode(FirstNumber(1), "other"),
        MESSAGE_ID.encode(FirstNumber(1), THREAD)[:-1],
    ],
)
def test_damaged_message_id_is_refused_by_its_key(body: bytes) -> None:
    desk = Desk()
    desk.store.replace_body(ID_KEY, body)

    desk.refuse(ID_KEY)


def test_message_of_another_thread_is_refused_by_its_key() -> None:
    """Its sender would get the reply to another conversation."""
    desk = Desk()
    message = MESSAGE.decode(desk.store.bodies[FIRST], FIRST, THREAD)
    other = thread_run_id("support", "other", 1)
    desk.store.replace_body(FIRST, MESSAGE.encode(message, other))

    desk.refuse(FIRST)


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ({"answered": 7}, {}),
        ({"inbox": 7}, {}),
        ({}, {"answered": 0}),
        ({"answered": 7}, {"answered": 7}),
    ],
)
def test_version_with_other_numbers_of_messages_is_refused_by_its_key(
    header: dict[str, Any], row: dict[str, Any]
) -> None:
    """The header and the row agree, and no message is answered before it is read."""
    desk = Desk()
    key = min(k for k in desk.store.bodies if k.startswith(f"runs/{THREAD}/v/"))
    first = max(k for k in desk.store.bodies if k.startswith(f"runs/{THREAD}/v/"))
    base = decode_version(desk.store.bodies[first], first).delta.run
    version = decode_version(desk.store.bodies[key], key, base)
    delta = replace(version.delta, run=replace(version.delta.run, **row))
    body = encode_version(replace(version.header, **header), delta)
    desk.store.replace_body(key, body)

    desk.refuse(key)
