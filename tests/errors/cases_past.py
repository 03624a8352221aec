"""Errors about the past of a run: versions, differences, forks and rewinds."""

from __future__ import annotations

from continuations.errors import (
    InvalidInput,
    RunErased,
    RunExists,
    RunNotFound,
    StaleRun,
    VersionNotFound,
)
from tests.errors.case import Area, Case
from tests.errors.cases_command_line import STARTED

PAST = Area(
    "The past of a run",
    (
        Case(
            "history-after",
            InvalidInput,
            'list(runner.history("jane-1", after=99))',
            'list(runner.history("jane-1", after=0))',
            setup='start("jane-1")',
            names=("after", "99", "jane-1"),
        ),
        Case(
            "history-after-type",
            InvalidInput,
            'runner.history("jane-1", after="2")',
            'list(runner.history("jane-1", after=2))',
            setup='start("jane-1")',
            names=("after", "str"),
        ),
        Case(
            "adopt-older-bytes",
            InvalidInput,
            'runner.adopt(older, run_id="jane-2")',
            "runner.fork('jane-1', older.version, run_id='jane-2')",
            setup="""
                wait = start("jane-1")
                older = runner.look("jane-1")
                runner.decide(wait.id, Approve(by="kim"))
                runner.resume("jane-1")
            """,
            names=("jane-1", "runner.fork("),
        ),
        Case(
            "adopt-erased",
            RunErased,
            'runner.adopt(older, run_id="jane-2")',
            "Runner([], store='memory:').adopt(older, run_id='jane-2')",
            setup="""
                start("jane-1")
                older = runner.look("jane-1")
                runner.cancel("jane-1")
                runner.erase("jane-1")
            """,
            names=("jane-1", "another store"),
        ),
        Case(
            "history-of-no-run",
            RunNotFound,
            'list(runner.history("jane-2"))',
            'list(runner.history("jane-1"))',
            setup='start("jane-1")',
            names=("jane-2",),
        ),
        Case(
            "diff-of-no-version",
            VersionNotFound,
            'runner.diff("jane-1", 1, 99)',
            'runner.diff("jane-1", 1, 2)',
            setup='start("jane-1")',
            names=("99",),
        ),
        Case(
            "http-no-version",
            "problem 404 version-not-found",
            'http("GET", "/runs/jane-1/versions/99")',
            'http("GET", "/runs/jane-1/versions/1")',
            setup='start("jane-1")',
            names=("99", "jane-1"),
        ),
        Case(
            "http-versions-query",
            "problem 400 malformed",
            'http("GET", "/runs/jane-1/versions", query={"before": "2"})',
            'http("GET", "/runs/jane-1/versions", query={"after": "2"})',
            setup='start("jane-1")',
            names=("after",),
        ),
        Case(
            "http-diff-number",
            "problem 400 malformed",
            'http("GET", "/runs/jane-1/diff", query={"from": "x", "to": "2"})',
            'http("GET", "/runs/jane-1/diff", query={"from": "1", "to": "2"})',
            setup='start("jane-1")',
            names=("from",),
        ),
        Case(
            "fork-version",
            InvalidInput,
            'runner.fork("jane-1", "2")',
            'runner.fork("jane-1", 2)',
            setup='wait = start("jane-1")',
            names=("version", "str"),
        ),
        Case(
            "fork-decisions-type",
            InvalidInput,
            'runner.fork("jane-1", decisions=[wait.id])',
            'runner.fork("jane-1", decisions={wait.id: Deny()})',
            setup='wait = start("jane-1")',
            names=("decisions", "list"),
        ),
        Case(
            "fork-decisions-wait",
            InvalidInput,
            'runner.fork("jane-1", 1, decisions={wait.id: Deny()})',
            'runner.fork("jane-1", 2, decisions={wait.id: Deny()})',
            setup='wait = start("jane-1")',
            names=("decisions", "open wait"),
        ),
        Case(
            "fork-results-call",
            InvalidInput,
            'runner.fork("jane-1", results={"c99": "x"})',
            'runner.fork("jane-1", results={wait.call_id: "x"})',
            setup='wait = start("jane-1")',
            names=("results", "c99"),
        ),
        Case(
            "fork-results-value",
            InvalidInput,
            'runner.fork("jane-1", results={wait.call_id: object()})',
            'runner.fork("jane-1", results={wait.call_id: "x"})',
            setup='wait = start("jane-1")',
            names=("results",),
        ),
        Case(
            "fork-messages-frame",
            InvalidInput,
            'runner.fork("jane-1", 1, messages={"f99": "x"})',
            'runner.fork("jane-1", 1, messages={"f1": "x"})',
            setup='wait = start("jane-1")',
            names=("messages", "f99"),
        ),
        Case(
            "fork-messages-open",
            InvalidInput,
            'runner.fork("jane-1", messages={"f1": "x"})',
            'runner.fork("jane-1", messages={"f1": runner.look("jane-1").root.messages})',
            setup='wait = start("jane-1")',
            names=("messages", "f1", "open calls"),
        ),
        Case(
            "fork-messages-list",
            InvalidInput,
            'runner.fork("jane-1", 1, messages={"f1": [{"role": "x"}]})',
            'runner.fork("jane-1", 1, messages={"f1": [{"role": "user", "content": "x"}]})',
            setup='wait = start("jane-1")',
            names=("messages", "f1"),
        ),
        Case(
            "fork-messages-broken",
            InvalidInput,
            'runner.fork("jane-1", messages={"f1": [{"role": "tool", "tool_call_id": "c", "content": "x"}, runner.look("jane-1").root.messages[-1]]})',
            'runner.fork("jane-1", messages={"f1": runner.look("jane-1").root.messages})',
            setup='wait = start("jane-1")',
            names=("messages", "f1"),
        ),
        Case(
            "fork-ended",
            InvalidInput,
            'runner.fork("jane-1")',
            'runner.fork("jane-1", 2)',
            setup='start("jane-1"); runner.cancel("jane-1")',
            names=("jane-1", "cancelled"),
        ),
        Case(
            "fork-taken",
            RunExists,
            'runner.fork("jane-1", 1, run_id="jane-1")',
            'runner.fork("jane-1", 1, run_id="jane-2")',
            setup='start("jane-1")',
            names=("run_id", "jane-1"),
        ),
        Case(
            "http-fork-decisions",
            "problem 400 malformed",
            'http("POST", "/runs/jane-1/fork", {"decisions": {}})',
            'http("POST", "/runs/jane-1/fork", {"decisions": []})',
            setup='start("jane-1")',
            names=("decisions",),
        ),
        Case(
            "rewind-version-type",
            InvalidInput,
            'runner.rewind("jane-1", "1")',
            'runner.rewind("jane-1", 1)',
            setup='start("jane-1")',
            names=("version", "str"),
        ),
        Case(
            "rewind-to-newest",
            InvalidInput,
            'runner.rewind("jane-1", runner.look("jane-1").version)',
            'runner.rewind("jane-1", 1)',
            setup='start("jane-1")',
            names=("jane-1", "newest"),
        ),
        Case(
            "rewind-shown-type",
            InvalidInput,
            'runner.rewind("jane-1", 1, shown=1)',
            'runner.rewind("jane-1", 1, shown=runner.plan_rewind("jane-1", 1).digest)',
            setup='start("jane-1")',
            names=("shown", "int"),
        ),
        Case(
            "rewind-shown-stale",
            StaleRun,
            'runner.rewind("jane-1", 1, shown=runner.plan_rewind("jane-1", 2).digest)',
            'runner.rewind("jane-1", 1, shown=runner.plan_rewind("jane-1", 1).digest)',
            setup='start("jane-1")',
            names=("jane-1", "plan"),
        ),
        Case(
            "rewind-shown-unknown",
            InvalidInput,
            'runner.rewind("jane-1", 1, shown="0")',
            'runner.rewind("jane-1", 1, shown=runner.plan_rewind("jane-1", 1).digest)',
            setup='start("jane-1")',
            names=("jane-1", "shown", "'0'"),
        ),
        Case(
            "plan-rewind-newest-type",
            InvalidInput,
            'runner.plan_rewind("jane-1", 1, newest="2")',
            'runner.plan_rewind("jane-1", 1, newest=2)',
            setup='start("jane-1")',
            names=("newest", "str"),
        ),
        Case(
            "http-plan-rewind-version",
            "problem 400 malformed",
            'http("GET", "/runs/jane-1/rewind")',
            'http("GET", "/runs/jane-1/rewind", query={"version": "1"})',
            setup='start("jane-1")',
            names=("version",),
        ),
        Case(
            "http-rewind-version",
            "problem 400 malformed",
            'http("POST", "/runs/jane-1/rewind", {})',
            'http("POST", "/runs/jane-1/rewind", {"version": 1})',
            setup='start("jane-1")',
            names=("version",),
        ),
        Case(
            "fork-resting",
            InvalidInput,
            "runner.fork(reply.run_id)",
            'runner.fork(reply.run_id, messages={"f1": "And now?"})',
            setup="""
                agent = Agent("talker", model=ScriptedModel(lambda _: "hi"))
                runner = Runner(agent, store=store)
                reply = runner.thread("talker", key="42").send("hi")
            """,
            names=("rests", "f1"),
        ),
        Case(
            "fork-messages-last",
            InvalidInput,
            'runner.fork("jane-1", messages={"f1": [{"role": "user", "content": "x"}]})',
            'runner.fork("jane-1", messages={"f1": runner.look("jane-1").root.messages})',
            setup='start("jane-1")',
            names=("f1", "open calls"),
        ),
        Case(
            "http-fork-forbidden",
            "problem 403 forbidden",
            'http("POST", "/runs/jane-1/fork", body, can=only_forks)',
            'http("POST", "/runs/jane-1/fork", {}, can=only_forks)',
            setup="""
                wait = start("jane-1")
                body = {"decisions": [{"wait_id": wait.id, "decision": "deny"}]}
                only_forks = lambda identity, act, run: act == "fork"
            """,
            names=("decide",),
        ),
        Case(
            "cli-rewind-plan",
            "exit 2",
            'cli("rewind", "jane-1", "--version", "1", "--plan", "--yes")',
            'cli("rewind", "jane-1", "--version", "1", "--plan")',
            setup=STARTED,
            names=("--plan", "--yes"),
        ),
        Case(
            "cli-fork-decide",
            "exit 2",
            'cli("fork", "jane-1", "--decide", "approve")',
            'cli("fork", "jane-1", "--decide", f"{wait_id}=approve")',
            setup=STARTED,
            names=("--decide",),
        ),
        Case(
            "cli-fork-verdict",
            "exit 2",
            'cli("fork", "jane-1", "--decide", f"{wait_id}=yes")',
            'cli("fork", "jane-1", "--decide", f"{wait_id}=deny")',
            setup=STARTED,
            names=("--decide", "yes"),
        ),
    ),
)
