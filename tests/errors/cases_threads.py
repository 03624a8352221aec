"""Errors of threads and of the messages that are sent to them."""

from __future__ import annotations

from continuations.errors import InvalidInput, ThreadClosed
from tests.errors.case import Area, Case

_TALKS = (
    "runner = Runner(talker('one', 'two', 'three'), store=store, clock=clock)\n"
    "thread = runner.thread(key='k')\n"
)
_HELD = (
    "thread = runner.thread(key='k')\n"
    "held = thread.send('Pay 500.')\n"
    "late = thread.post('And?')\n"
)

THREADS = Area(
    "Threads",
    (
        Case(
            "thread-key-empty",
            InvalidInput,
            'runner.thread(key="")',
            'runner.thread(key="customer 42")',
            names=("key",),
        ),
        Case(
            "thread-when-busy",
            InvalidInput,
            'thread.send("x", when_busy="later")',
            'thread.send("x", when_busy="queue")',
            setup=_TALKS,
            names=("when_busy", "later", "merge"),
        ),
        Case(
            "thread-message-id-empty",
            InvalidInput,
            'thread.send("x", id="")',
            'thread.send("x", id="m1")',
            setup=_TALKS,
            names=("id",),
        ),
        Case(
            "thread-message-id-taken",
            InvalidInput,
            'thread.send("y", id="m1")',
            'thread.send("y", id="m2")',
            setup=_TALKS + "thread.send('x', id='m1')\n",
            names=("id", "1"),
        ),
        Case(
            "thread-closed-before",
            ThreadClosed,
            "late.reply()",
            "thread.send('Pay 500.')",
            setup=_HELD + "runner.cancel(held.run_id)\n",
            names=("2",),
        ),
    ),
)
