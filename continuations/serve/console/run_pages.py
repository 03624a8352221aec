"""All pages about runs, threads and grants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.serve.console import run_page, runs_page

if TYPE_CHECKING:
    from continuations.serve.console.page import PageRoute

ROUTES: tuple[PageRoute, ...] = (*runs_page.ROUTES, *run_page.ROUTES)
