"""One browser for all tests of this folder.

Modules without helpers are not collected on a machine without Chromium.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import chromium

if TYPE_CHECKING:
    from collections.abc import Generator

collect_ignore = [] if chromium.is_installed() else ["test_run_pages.py"]


# While it runs, this thread has an event loop: `asyncio.run` fails in these tests.
@pytest.fixture(scope="package")
def browser() -> Generator[Any]:
    """Run a browser until the last test of this folder."""
    with chromium.run_browser() as started:
        yield started


@pytest.fixture
def tab(browser: Any) -> Generator[Any]:
    """Open a tab of a new person."""
    with chromium.open_tab(browser) as opened:
        yield opened
