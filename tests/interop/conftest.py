"""A log of effects for each test."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _logs(environment: object) -> None:
    """Set up the logs of effects and turns."""
