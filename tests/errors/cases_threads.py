"""Errors of threads and of the messages that are sent to them."""

from __future__ import annotations

from continuations.errors import (
    InboxFull,
    InvalidId,
    InvalidInput,
    RunExists,
    ThreadClosed,
)
from continuations.ledger.thread_ids import thread_run_id
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

_ABSENT = "Runner([], store=store, clock=clock)"
_NAMED = """
from continuations import Agent
from continuations.models.scripted import ScriptedModel
named = Agent("clerk", instructions=lambda text, context: context["name"],
    model=ScriptedModel(["Yes."] * 9))
runner = Runner(named, store=store, clock=clock)
runner.thread(key="k").send("Hello", context={"name": "ann"})
"""
_RUN_ID = thread_run_id("clerk", "k", 1)
# No door starts a run with such an id.
_TAKEN = f"""
from unittest import mock
with mock.patch("continuations.engine.new_run.has_thread_id", lambda run_id: False):
    runner.start(TASK, run_id="{_RUN_ID}")
"""

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
            "thread-instructions-as-a-prompt",
            InvalidInput,
            'runner.thread(key="k", instructions="Be kind.")',
            'runner.thread(key="k", instructions="frozen")',
            names=("instructions", "Be kind.", "frozen", "Agent(instructions=...)"),
        ),
        Case(
            "thread-instructions-function",
            InvalidInput,
            "runner.thread(key='k').send('And?', id='m2')",
            "runner.thread(key='k').send('And?', id='m2', context={'name': 'kim'})",
            setup=_NAMED,
            names=("clerk", "instructions", "TypeError", "message 2", "context="),
        ),
        Case(
            "thread-without-the-agent-unnamed",
            InvalidInput,
            'Runner([], store=store, clock=clock).thread(key="k")',
            'Runner([], store=store, clock=clock).thread("clerk", key="k").post("x")',
            names=("agent", "None", "no agents"),
        ),
        Case(
            "thread-without-the-agent-frozen",
            InvalidInput,
            f'{_ABSENT}.thread("clerk", key="k", instructions="frozen")',
            f'{_ABSENT}.thread("clerk", key="k").post("x")',
            names=("instructions", "frozen", "no agents"),
        ),
        Case(
            "thread-without-the-agent",
            InvalidInput,
            f'{_ABSENT}.thread("clerk", key="k").send("x")',
            f'{_ABSENT}.thread("clerk", key="k").post("x")',
            names=("send()", "clerk", "no agents", "post(...)"),
        ),
        Case(
            "thread-follow-place",
            InvalidInput,
            'thread.follow(after="r1/1.1")',
            "next(thread.follow(after=f'{event.run_id}/{event.cursor}'))",
            setup=_TALKS + "thread.send('x')\nevent = next(thread.follow())\n",
            names=("after", "r1/1.1", "event.run_id"),
        ),
        Case(
            "thread-event-words",
            "problem 400 malformed",
            f'http("GET", "{_PATH}/events", query={{"words": "yes"}})',
            f'http("GET", "{_PATH}/events", query={{"words": "false"}})',
            setup=_HELD,
            names=("words", "true or false"),
        ),
        Case(
            "thread-id-of-another-run",
            InvalidId,
            f'runner.start(TASK, run_id="{_RUN_ID}")',
            'runner.start(TASK, run_id="jane-1"); runner.thread(key="k").post("x")',
            names=("run_id", _RUN_ID, "runner.thread"),
        ),
        Case(
            "thread-id-of-no-thread",
            RunExists,
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
            "thread-number",
            InvalidInput,
            "thread.ticket(0)",
            "thread.ticket(1)",
            setup=_TALKS,
            names=("number", "0"),
        ),
        Case(
            "thread-run-id-of-another",
            InvalidInput,
            "thread.ticket(1, run_id='jane-1')",
            "thread.ticket(1, run_id=reply.run_id).look()",
            setup=_TALKS + "reply = thread.send('x')\n",
            names=("run_id", "jane-1"),
        ),
        Case(
            "http-thread-no-text",
            "problem 400 malformed",
            f'http("POST", "{_PATH}/messages", {{}})',
            f'http("POST", "{_PATH}/messages", {{"text": "Pay 500."}})',
            names=("text",),
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
            "http-thread-unknown-message",
            "problem 404 message-not-found",
            f'http("GET", "{_PATH}/messages/1")',
            f'http("POST", "{_PATH}/messages", {{"text": "Pay 500."}})',
        ),
        Case(
            "http-thread-unknown",
            "problem 404 message-not-found",
            f'http("GET", "{_PATH}")',
            f'http("POST", "{_PATH}/messages", {{"text": "Pay 500."}})',
        ),
        Case(
            "http-thread-unknown-events",
            "problem 404 message-not-found",
            f'http("GET", "{_PATH}/events")',
            f'http("POST", "{_PATH}/messages", {{"text": "Pay 500."}})',
        ),
        Case(
            "http-thread-unknown-close",
            "problem 404 message-not-found",
            f'http("POST", "{_PATH}/close", {{}})',
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
            InboxFull,
            "runner.thread(key='k').post('And?')",
            "runner.resume(late.run_id); runner.thread(key='k').post('And?')",
            setup=(
                "runner = Runner(talker('one', 'two'), store=store, clock=clock)\n"
                "late = runner.thread(key='k').post('Pay 500.')\n"
                "from continuations.ledger import inbox_limits\n"
                "scene.patch(inbox_limits, 'MAX_UNREAD_MESSAGES', 1)\n"
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
                "from continuations.ledger import inbox_limits\n"
                "scene.patch(inbox_limits, 'MAX_UNREAD_BYTES', 1000)\n"
            ),
            names=("jane-1", "1000"),
        ),
        Case(
            "inbox-bytes",
            InboxFull,
            "runner.send(wait.run_id, 'x' * 2**24)",
            "runner.send(wait.run_id, 'x')",
            setup="wait = start()",
            names=("jane-1", "16777216"),
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
