"""All cases, in the order in which a reader meets them."""

from __future__ import annotations

from tests.errors import cases_declaring

AREAS = (
    cases_declaring.AGENTS,
    cases_declaring.TOOLS,
    cases_declaring.POLICIES,
)
CASES = {case.id: case for area in AREAS for case in area.cases}
