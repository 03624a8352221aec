"""Pages of these tests wait for their store: a busy machine has other notes."""

from __future__ import annotations

import pytest

from continuations.serve.console import wait_list


@pytest.fixture(autouse=True)
def patient_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages wait for the end of what they read."""
    for name in ("SECONDS", "ROW_SECONDS"):
        monkeypatch.setattr(wait_list, name, 30)
