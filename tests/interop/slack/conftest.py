"""A workspace of Slack for each test."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.interop.slack.web_api import SlackApi, serve_slack


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Generator[SlackApi]:
    """A workspace of Slack, to which an acknowledgement is on its way for 0.02 s."""
    name = "continuations.interop.slack.listeners._ACKNOWLEDGED_AFTER"
    monkeypatch.setattr(name, 0.3)
    with serve_slack() as served:
        yield served
