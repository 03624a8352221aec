"""Errors about the past of a run: versions, differences, forks and rewinds."""

from __future__ import annotations

from continuations import errors
from tests.errors.case import Area, Case

PAST = Area(
    "The past of a run",
    (
        Case(
            "adopt-older-bytes",
            errors.InvalidInput,
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
            errors.RunErased,
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
            "diff-of-no-version",
            errors.VersionNotFound,
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
            "fork-messages-broken",
            errors.InvalidInput,
            'runner.fork("jane-1", messages={"f1": [{"role": "tool", "tool_call_id": "c", "content": "x"}, runner.look("jane-1").root.messages[-1]]})',
            'runner.fork("jane-1", messages={"f1": runner.look("jane-1").root.messages})',
            setup='wait = start("jane-1")',
            names=("messages", "f1"),
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
            "rewind-shown-type",
            errors.InvalidInput,
            'runner.rewind("jane-1", 1, shown=1)',
            'runner.rewind("jane-1", 1, shown=runner.plan_rewind("jane-1", 1).digest)',
            setup='start("jane-1")',
            names=("shown", "int"),
        ),
        Case(
            "rewind-shown-unknown",
            errors.InvalidInput,
            'runner.rewind("jane-1", 1, shown="0")',
            'runner.rewind("jane-1", 1, shown=runner.plan_rewind("jane-1", 1).digest)',
            setup='start("jane-1")',
            names=("jane-1", "shown", "'0'"),
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
    ),
)
