"""Errors of threads and of the messages that are sent to them."""

from __future__ import annotations

from continuations import errors
from continuations.ledger.layout import thread_run_id
from tests.errors.case import Area, Case

_PATH = "/threads/clerk/k"
_TALKS = (
    "runner = Runner(talker('one', 'two', 'three'), store=store, clock=clock)\n"
    "thread = runner.thread(key='k')\n"
)
_HELD = (
    "thread = runner.thread(key='k')\n"
    "held = thread.send('Pay 500.')\n"
    "late = thread.post('And?')\n"
)

_RUN_ID = thread_run_id("clerk", "k", 1)
# No door starts a run with such an id.
_TAKEN = f"""
from unittest import mock
with mock.patch("continuations.engine.start.new_run.has_thread_id", lambda run_id: False):
    runner.start(TASK, run_id="{_RUN_ID}")
"""

THREADS = Area(
    "Threads",
    (
        Case(
            "thread-id-of-no-thread",
            errors.RunExists,
            'runner.thread(key="k").look()',
            f'runner.erase("{_RUN_ID}"); runner.thread(key="k").post("x")',
            setup=_TAKEN,
            names=(_RUN_ID, "key"),
        ),
        Case(
            "thread-event-id",
            "problem 400 malformed",
            f'http("GET", "{_PATH}/events", extra_headers={{"last-event-id": "r1/1.1"}})',
            f'http("GET", "{_PATH}/events")',
            setup=_HELD,
            names=("Last-Event-ID",),
        ),
        Case(
            "thread-number",
            errors.InvalidInput,
            "thread.ticket(0)",
            "thread.ticket(1)",
            setup=_TALKS,
            names=("number", "0"),
        ),
        Case(
            "thread-run-id-of-another",
            errors.InvalidInput,
            "thread.ticket(1, run_id='jane-1')",
            "thread.ticket(1, run_id=reply.run_id).look()",
            setup=_TALKS + "reply = thread.send('x')\n",
            names=("run_id", "jane-1"),
        ),
        Case(
            "http-thread-number",
            "problem 400 malformed",
            f'http("GET", "{_PATH}/messages/0")',
            f'http("GET", "{_PATH}/messages/1")',
            setup=_HELD,
            names=("number",),
        ),
        Case(
            "http-thread-unknown",
            "problem 404 message-not-found",
            f'http("GET", "{_PATH}")',
            f'http("POST", "{_PATH}/messages", {{"text": "Pay 500."}})',
        ),
        Case(
            "http-thread-closed",
            "problem 410 thread-closed",
            f'http("GET", "{_PATH}/messages/2")',
            f'http("POST", "{_PATH}/messages", {{"text": "Pay 500."}})',
            setup=_HELD + "runner.cancel(held.run_id)\n",
            names=("2",),
        ),
        Case(
            "inbox-full",
            errors.InboxFull,
            "runner.thread(key='k').post('And?')",
            "runner.resume(late.run_id); runner.thread(key='k').post('And?')",
            setup=(
                "runner = Runner(talker('one', 'two'), store=store, clock=clock)\n"
                "late = runner.thread(key='k').post('Pay 500.')\n"
                "from continuations.ledger.arrivals import inbox\n"
                "scene.patch(inbox, 'MAX_UNREAD_MESSAGES', 1)\n"
            ),
            names=("resume", "1"),
        ),
        Case(
            "http-inbox-full",
            "problem 429 inbox-full",
            'http("POST", "/runs/jane-1/messages", {"text": "x" * 5000})',
            'http("POST", "/runs/jane-1/messages", {"text": "x"})',
            setup=(
                "wait = start()\n"
                "from continuations.ledger.arrivals import inbox\n"
                "scene.patch(inbox, 'MAX_UNREAD_BYTES', 1000)\n"
            ),
            names=("jane-1", "1000"),
        ),
        Case(
            "thread-closed-before",
            errors.ThreadClosed,
            "late.reply()",
            "thread.send('Pay 500.')",
            setup=_HELD + "runner.cancel(held.run_id)\n",
            names=("2",),
        ),
    ),
)
