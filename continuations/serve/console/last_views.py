"""The last pages of this process, for the time in which the store does not answer.

Only the inbox and pages of runs are kept, a bounded number of them, for the person who
read them. Before one is shown again, the application's rights are asked again.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from continuations.errors import StoreError
from continuations.present.problems import find_problem_type
from continuations.present.times import time_view
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.identity import Identity
    from continuations.serve.console.page import Page
    from continuations.serve.http.request_response import Response
    from continuations.serve.rights import Act

_log = logging.getLogger("continuations")
# The limits of one person and of all persons: one does not evict the pages of others.
MAX_OWN_VIEWS, MAX_VIEWS = 10, 100
MAX_VIEW_CHARS = 200_000
MAX_AGE = timedelta(minutes=15)
_OK, _AWAY = 200, 503
_ROUTES = frozenset({"/inbox", "/runs", "/runs/{run}"})
_ERASE = "/runs/{run}/erase"
_MAIN = '<main id="main">'
# An old page follows nothing.
_LIVE_PARTS = re.compile(
    r'<script [^>]*></script>\n?|<span class="live" role="status">Live</span>'
)

_Key: TypeAlias = "tuple[Identity, str, tuple[tuple[str, str], ...]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """A page, the time at which it was made, and the rights that it needed."""

    response: Response
    at: datetime
    allowed: tuple[tuple[Act, str | None], ...]


def _no_views() -> OrderedDict[_Key, _View]:
    return OrderedDict()


@dataclass(frozen=True, slots=True)
class LastViews:
    """Keeps the last pages of each person, the oldest ones go first."""

    views: OrderedDict[_Key, _View] = field(default_factory=_no_views)

    def keep(self, page: Page, route: str, response: Response) -> None:
        """Keep a page that was shown, if it is one of those that are kept."""
        if route == _ERASE and page.request.method == "POST":
            self.forget()
            return
        body = response.body
        if not (
            page.request.method == "GET"
            and route in _ROUTES
            and response.status == _OK
            and len(body) <= MAX_VIEW_CHARS
            and _MAIN in body
        ):
            return
        key, at = _key(page), page.clock.now()
        self.views[key] = _View(response=response, at=at, allowed=(*page.allowed,))
        self.views.move_to_end(key)
        own = [each for each in self.views if each[0] == page.identity]
        if len(own) > MAX_OWN_VIEWS:
            del self.views[own[0]]
        while len(self.views) > MAX_VIEWS:
            self.views.popitem(last=False)

    def forget(self, _: str = "") -> None:
        """Forget all pages, because a run was erased: a list may name it too."""
        self.views.clear()

    async def find(self, page: Page, error: Exception) -> Response | None:
        """Return the page as it was, marked with its time; `None` without one.

        Only an error of a store that is away has such a page.
        """
        is_away = isinstance(error, StoreError) and (
            find_problem_type(type(error)).status == _AWAY
        )
        key = _key(page)
        if not is_away:
            self.views.pop(key, None)  # such as that of an erased run
        view = self.views.get(key)
        if view is None or page.request.method != "GET":
            return None
        if page.clock.now() - view.at > MAX_AGE:
            return None
        for act, run_id in view.allowed:
            if not await page.can(act, run_id):
                return None
        return _marked(view)


def _key(page: Page) -> _Key:
    path = page.shell.root + page.request.path
    return page.identity, path, tuple(sorted(page.query.items()))


def _marked(view: _View) -> Response:
    """Return an old page with a bar that names its time."""
    time = time_view(view.at)
    bar = (
        '<div class="news"><p class="notice is-danger" role="alert">The store does not '
        f'answer. This page is as it was at <time datetime="{time.iso}">{time.text}'
        "</time>. It may have changed since, and nothing can be decided now. Nothing "
        "is lost: load the page again in a moment.</p></div>\n"
    )
    text = _LIVE_PARTS.sub("", view.response.body)
    body = text.replace(_MAIN, bar + _MAIN, 1)
    headers = {**view.response.headers, "retry-after": "5"}
    _log.warning("the store does not answer: a page of %s is shown again", time.iso)
    return replace(view.response, status=_AWAY, body=body, headers=headers)
