"""Errors about listing and erasing runs."""

from __future__ import annotations

from continuations.errors import InvalidInput, RunBusy, RunErased, RunNotFound
from tests.errors.case import Area, Case
from tests.errors.cases_command_line import STARTED
from tests.errors.cases_running import CRASHED

_ERASED = """
    start("jane-1")
    runner.erase("jane-1")
"""

FINDING = Area(
    "Finding and erasing runs",
    (
        Case(
            "runs-agent",
            InvalidInput,
            "runner.runs(agent=clerk())",
            'runner.runs(agent="clerk")',
            names=("agent",),
        ),
        Case(
            "runs-status",
            InvalidInput,
            'runner.runs(status="done")',
            'runner.runs(status="finished")',
            names=("status", "done", "finished"),
        ),
        Case(
            "runs-label",
            InvalidInput,
            'runner.runs(label="finance")',
            'runner.runs(label="team=finance")',
            names=("label", "finance"),
        ),
        Case(
            "runs-after",
            InvalidInput,
            'runner.runs(after="jane-1")',
            "[row] = runner.runs(); runner.runs(after=row.cursor)",
            setup='start("jane-1")',
            names=("after", "jane-1", "cursor"),
        ),
        Case(
            "events-of-no-run",
            RunNotFound,
            'list(runner.events("jane-2"))',
            'list(runner.events("jane-1"))',
            setup='start("jane-1")',
            names=("jane-2",),
        ),
        Case(
            "events-after",
            InvalidInput,
            'runner.events("jane-1", after="2")',
            '[first, *_] = runner.events("jane-1"); '
            'list(runner.events("jane-1", after=first.cursor))',
            setup='start("jane-1")',
            names=("after", "event.cursor"),
        ),
        Case(
            "events-after-end",
            InvalidInput,
            'list(runner.events("jane-1", after="99.1"))',
            '[first, *_] = runner.events("jane-1"); '
            'list(runner.events("jane-1", after=first.cursor))',
            setup='start("jane-1")',
            names=("after", "jane-1", "cursor"),
        ),
        Case(
            "worklist-limit",
            InvalidInput,
            "runner.worklist(limit=0)",
            "runner.worklist(limit=100)",
            names=("limit",),
        ),
        Case(
            "worklist-after",
            InvalidInput,
            'runner.worklist(after="jane-1")',
            'runner.worklist(after=runner.worklist(limit=1).next or "")',
            setup='start("jane-1")',
            names=("after", "next"),
        ),
        Case(
            "erase-unknown",
            RunNotFound,
            'runner.erase("jane-2")',
            'start("jane-2"); runner.erase("jane-2")',
        ),
        Case(
            "erase-busy",
            RunBusy,
            'runner.erase("jane-1")',
            'clock.advance(31); runner.erase("jane-1")',
            setup=CRASHED,
        ),
        Case(
            "erased-start",
            RunErased,
            'runner.start(TASK, run_id="jane-1")',
            'runner.start(TASK, run_id="jane-2")',
            setup=_ERASED,
            names=("run_id",),
        ),
        Case(
            "erased-look",
            RunErased,
            'runner.look("jane-1")',
            'runner.start(TASK, run_id="jane-2")',
            setup=_ERASED,
            names=("run_id",),
        ),
        Case(
            "prune-age",
            InvalidInput,
            "runner.prune(older_than=90)",
            "runner.prune(older_than=timedelta(days=90))",
            names=("older_than",),
        ),
        Case(
            "prune-age-too-long",
            InvalidInput,
            "runner.prune(older_than=timedelta(days=999_999))",
            "runner.prune(older_than=timedelta(days=3650))",
            names=("older_than", "3650"),
        ),
        Case(
            "cli-erase-unconfirmed",
            "exit 2",
            'cli("erase", "jane-1")',
            'cli("erase", "jane-1", "--yes")',
            setup=STARTED,
            names=("jane-1", "--yes"),
        ),
        Case(
            "cli-prune-age",
            "exit 2",
            'cli("prune", "--older-than", "3 weeks", "--yes")',
            'cli("prune", "--older-than", "21d", "--yes")',
            setup='(folder / "runs").mkdir()',
            names=("--older-than", "3 weeks", "90d"),
        ),
        Case(
            "http-runs-query",
            "problem 400 malformed",
            'http("GET", "/runs", query={"state": "live"})',
            'http("GET", "/runs", query={"status": "live"})',
            names=("limit", "status"),
        ),
    ),
)
