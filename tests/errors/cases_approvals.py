"""Approvals of a whole run: its audit."""

from __future__ import annotations

from continuations.errors import RunNotFound
from tests.errors.case import Area, Case

APPROVALS = Area(
    "Approvals of a whole run",
    (
        Case(
            "audit-of-no-run",
            RunNotFound,
            'runner.audit("jane-2")',
            'assert [] == runner.audit("jane-1")',
            setup="start()",
            names=("jane-2",),
        ),
    ),
)
