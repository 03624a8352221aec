"""Errors about the past of a run: versions, differences, forks and rewinds."""

from __future__ import annotations

from continuations.errors import InvalidInput, RunNotFound
from tests.errors.case import Area, Case

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
            "history-of-no-run",
            RunNotFound,
            'list(runner.history("jane-2"))',
            'list(runner.history("jane-1"))',
            setup='start("jane-1")',
            names=("jane-2",),
        ),
        Case(
            "diff-of-no-version",
            RunNotFound,
            'runner.diff("jane-1", 1, 99)',
            'runner.diff("jane-1", 1, 2)',
            setup='start("jane-1")',
            names=("99",),
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
    ),
)
