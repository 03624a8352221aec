"""The console without a web framework: one request in, one response out.

The order of the checks of a request:

1. a file of `/assets/` needs no identity
2. a sign-in by a token (`local` only)
3. a path of the HTTP API with a secret of its own: signed links, callbacks, webhooks
4. the identity
5. each other method than GET needs the proof that the console's own page sent it
6. the page, or the HTTP API for a request that asks for JSON

The application's rights are asked by the handlers, for the run that they concern.
"""

from __future__ import annotations

import hmac
import logging
import os
import re
from collections import Counter, OrderedDict
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from continuations.core.identity import Identity
from continuations.core.rows.decisions import Door
from continuations.engine.ports import SystemClock
from continuations.errors import InvalidInput, StoreError
from continuations.ledger.objects import check_folder_exists
from continuations.present.problems import find_problem_type
from continuations.present.times import time_view
from continuations.serve.console import (
    decided_page,
    error_pages,
    inbox_page,
    messages_page,
    past_pages,
    run_acts_page,
    run_page,
    runs_page,
    threads_page,
    wait_approvals,
    wait_pages,
)
from continuations.serve.console.identities import LocalIdentity
from continuations.serve.console.live_pages import LIVE_MODES, LiveMode, LivePages
from continuations.serve.console.page import Page, PageRoute
from continuations.serve.console.wait_list import count_for_navigation
from continuations.serve.http import problems
from continuations.serve.http.api import HttpApi, Verifier, identify
from continuations.serve.http.request_fields import JSON_TYPE
from continuations.serve.http.request_response import Request, Response, see_other
from continuations.serve.http.routes import find_route, match_path
from continuations.serve.option_checks import check_type
from continuations.serve.pages import environment
from continuations.serve.pages.environment import Shell
from continuations.serve.rights import Act, Can, Rights
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator, Mapping

    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.ledger.claims import Clock
    from continuations.serve.dispatch import Dispatcher

# Headers -------------------------------------------------------------------------


CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# A file whose address has the hash of its bytes never changes.
IMMUTABLE = "public, max-age=31536000, immutable"
_TWO_YEARS = 2 * 365 * 24 * 3600
_HEADERS: Mapping[str, str] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex, nofollow",
}


# Open streams --------------------------------------------------------------------


MAX_STREAMS = 32


@dataclass(frozen=True, slots=True)
class OpenStreams:
    """Counts the open streams of each person, and refuses more than `MAX_STREAMS`."""

    by_person: Counter[str] = field(default_factory=Counter[str])

    def is_full(self, person: Identity) -> bool:
        """Return whether the person may open no more streams."""
        return self.by_person[person.name] >= MAX_STREAMS

    def check(self, person: Identity) -> None:
        """Refuse one stream too many.

        Raises:
            RequestRefused: The person has too many streams (status 429).
        """
        if self.is_full(person):
            raise problems.too_many_streams(MAX_STREAMS)

    @contextmanager
    def opened(self, person: Identity) -> Generator[None]:
        """Count a stream until it ends."""
        self.by_person[person.name] += 1
        try:
            yield
        finally:
            self.by_person[person.name] -= 1
            if not self.by_person[person.name]:
                del self.by_person[person.name]


# Last pages ----------------------------------------------------------------------


_log = logging.getLogger("continuations")
# The limits of one person and of all persons: one does not evict the pages of others.
MAX_OWN_VIEWS, MAX_VIEWS = 10, 100
MAX_VIEW_CHARS = 200_000
MAX_AGE = timedelta(minutes=15)
_OK, _AWAY = 200, 503
# After an error with another status, some objects may have been deleted.
_NOTHING_ERASED = frozenset({400, 401, 403, 405, 413, 415})
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

    async def answer_erasure(self, answer: Awaitable[Response]) -> Response:
        """Answer a request to erase a run, and forget all pages: lists name runs too.

        An erasure that failed or was stopped may have deleted some objects, so the
        pages are kept only if the response says that it did not begin.

        Args:
            answer: Erases the run.

        Returns:
            The response of `answer`.
        """
        status = None
        try:
            response = await answer
            status = response.status
        finally:
            if status not in _NOTHING_ERASED:
                self.views.clear()
        return response

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
            if not await page.may(act, run_id):
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
        f"answer. This page is as it was at {time.html}. It may have changed since, "
        "and nothing can be decided now. Nothing is lost: load the page again in a "
        "moment.</p></div>\n"
    )
    text = _LIVE_PARTS.sub("", view.response.body)
    body = text.replace(_MAIN, bar + _MAIN, 1)
    headers = {**view.response.headers, "retry-after": "5"}
    _log.warning("the store does not answer: a page of %s is shown again", time.text)
    return replace(view.response, status=_AWAY, body=body, headers=headers)


# Posts of own pages --------------------------------------------------------------

TOKEN_FIELD = "csrf"  # noqa: S105 - the name of a field
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class FormTokens:
    """Makes and checks the tokens of forms: one for each person.

    Attributes:
        key: The secret of all processes that serve this console.
    """

    key: bytes

    @classmethod
    def of_secret(cls, secret: str | None) -> Self:
        """Return the maker of a secret; without one, that of this process."""
        return cls(os.urandom(32) if secret is None else secret.encode())

    def __repr__(self) -> str:
        """Show nothing of the secret."""
        return "<FormTokens>"

    def token_of(self, person: str) -> str:
        """Return the token of a person's forms."""
        text = f"continuations form token\0{person}".encode()
        return hmac.digest(self.key, text, "sha256").hex()

    def is_valid(self, token: str, person: str) -> bool:
        """Return whether a posted token is that of the person."""
        return hmac.compare_digest(token.encode(), self.token_of(person).encode())


def take_token(request: Request) -> tuple[Request, str]:
    """Return a request without the token of its form, and the token."""
    if f"{TOKEN_FIELD}=".encode() not in request.body or is_json(request):
        return request, ""
    try:
        pairs = parse_qsl(
            request.body.decode("ascii"), keep_blank_values=True, strict_parsing=True
        )
    except ValueError:
        return request, ""  # the reader of the form refuses it
    others = [pair for pair in pairs if pair[0] != TOKEN_FIELD]
    tokens = [value for name, value in pairs if name == TOKEN_FIELD]
    body = urlencode(others).encode()
    return replace(request, body=body), tokens[0] if len(tokens) == 1 else ""


def is_json(request: Request) -> bool:
    """Return whether the body of a request says that it is JSON."""
    media_type = request.headers.get("content-type", "").partition(";")[0]
    return media_type.strip().lower() == JSON_TYPE


def is_own_post(request: Request, *, own_origin: str | None, has_token: bool) -> bool:
    """Return whether a POST comes from a page of the console, or from no page.

    Behind a login proxy, the cookie belongs to the proxy, and a browser sends it with
    every request to the console, whichever page made it. So each POST needs a proof:

    - A browser that sends `Sec-Fetch-Site` must send `same-origin`, and an `Origin`
      that is the console's own.
    - Any other browser must send the token of the person's forms. Browsers send no
      `Sec-Fetch-Site` to an address without TLS, except to this machine.
    - A client that is no browser sends JSON, which a form cannot send. A page of
      another site would first have to ask, and the console allows no other site.

    Args:
        request: The request.
        own_origin: The public origin of the console, such as `https://agents.example`.
            `None`: that of the `Host` header.
        has_token: Whether the body has the token of the person.
    """
    origin = request.headers.get("origin")
    is_own = origin is not None and _is_own_origin(request, origin, own_origin)
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin" and is_own
    return (origin is None or is_own) and (has_token or is_json(request))


def _is_own_origin(request: Request, origin: str, own_origin: str | None) -> bool:
    if own_origin is not None:
        return origin == own_origin
    # A browser leaves out the port of the scheme in both headers. The scheme is not
    # compared: a proxy may have ended TLS.
    parts = urlsplit(origin)
    host = request.headers.get("host", "")
    return parts.scheme in ("http", "https") and bool(host) and parts.netloc == host


# The console ---------------------------------------------------------------------


PAGES: tuple[PageRoute, ...] = (
    *inbox_page.ROUTES,
    *decided_page.ROUTES,
    *runs_page.ROUTES,
    *run_page.ROUTES,
    *run_acts_page.ROUTES,
    *messages_page.ROUTES,
    *past_pages.ROUTES,
    *threads_page.ROUTES,
    *wait_pages.ROUTES,
    *wait_approvals.ROUTES,
)
"""All pages of the console: each module of pages has a table of routes."""

SCRIPTS, LIVE_SCRIPT = ("times.js", "presses.js", "console.js"), "live.js"
_LIVE_PAGES = frozenset({"/inbox", "/runs", "/threads"})
# Lists that are loaded again until the process has read what they are made of.
_READING_PAGES = frozenset({"/inbox/decided", "/inbox/others"})
_ASSETS = "/assets/"
_HTML, _JSON, _EVENTS = "text/html", "application/json", "text/event-stream"
SIGN_OUT_PATH = "/sign-out"
_MAX_ADDRESS_CHARS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """Answers the requests of one console.

    Attributes:
        runner: The runner whose runs are shown.
        api: Answers requests for JSON, with the same identities and rights.
        verify: Returns the identity of a request, or `None`.
        rights: The application's rights.
        tokens: Makes the tokens of forms.
        origin: The public origin, or `None` for that of the `Host` header.
        dispatcher: Resumes runs after a decision, if there is one.
        clock: The clock for deadlines.
        live: Tells open pages of changes.
        last_views: The last pages of each person, for a store that does not answer.
        streams: The open streams of each person.
    """

    runner: AsyncRunner
    api: HttpApi
    verify: Verifier | LocalIdentity | None
    rights: Rights
    tokens: FormTokens
    origin: str | None
    dispatcher: Dispatcher | None
    clock: Clock
    live: LivePages
    last_views: LastViews = field(default_factory=LastViews)
    streams: OpenStreams = field(default_factory=OpenStreams)

    async def handle(self, request: Request, root: str = "") -> Response:
        """Answer a request; an error is a page.

        Args:
            request: The request. Its path is below the mount point.
            root: The mount point, such as `/agents`, or an empty text.
        """
        shell = Shell(root=root, person="", csrf="")
        try:
            response = await self._answer(request, shell)
        except Exception as error:  # noqa: BLE001 - every error is a page
            return self.error_response(request, root, error)
        return self._complete(request, response)

    def error_response(self, request: Request, root: str, error: Exception) -> Response:
        """Return the page of an error, or its problem for a program."""
        if _wants_json(request):
            problem = problems.from_error(
                error, now=self.clock.now(), operation=_operation(request)
            )
            return self._complete(request, problem.response())
        response = error_pages.error_page(
            error,
            shell=Shell(root=root, person="", csrf=""),
            now=self.clock.now(),
            operation=_operation(request),
        )
        return self._complete(request, response)

    def _complete(self, request: Request, response: Response) -> Response:
        if request.method == "HEAD":
            data = None if response.data is None else b""
            response = replace(response, body="", data=data)
        return replace(response, headers=self.headers(request, response.headers))

    def headers(self, request: Request, own: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a response, with those of every response.

        The headers of the response itself, `own`, win; they are in lower case.
        """
        headers = {**_HEADERS, **own}
        if not _is_public(request):
            # With "no-referrer", browsers replace the `Origin` of a form by "null".
            headers["referrer-policy"] = "same-origin"
        if request.is_tls or (self.origin or "").startswith("https://"):
            headers["strict-transport-security"] = f"max-age={_TWO_YEARS}"
        return headers

    async def identify(self, request: Request) -> Identity | None:
        """Return who sends a request, or `None`.

        Raises:
            TypeError: The verifier returned something else.
        """
        known = await identify(self.verify, request)
        return Identity(known) if isinstance(known, str) else known

    async def _answer(self, request: Request, shell: Shell) -> Response:
        if request.path.startswith(_ASSETS):
            return _asset(request.path, shell)
        if isinstance(self.verify, LocalIdentity):
            signed_in = self.verify.sign_in(request, shell.root)
            if signed_in is not None:
                return signed_in
        if _is_public(request):
            return await self.api.handle(request)
        identity = await self.identify(request)
        if identity is None:
            return self._sign_in(request, shell)
        return await self._answer_person(request, shell, identity)

    async def _answer_person(
        self, request: Request, shell: Shell, identity: Identity
    ) -> Response:
        request, token = take_token(request)
        shell = self._shell_of(identity, request, shell)
        has_token = self.tokens.is_valid(token, identity.name)
        if request.method not in SAFE_METHODS and not (
            is_own_post(request, own_origin=self.origin, has_token=has_token)
        ):
            problem = problems.foreign_post().problem
            if _wants_json(request):
                return problem.response()
            return error_pages.problem_page(problem, shell=shell)
        is_sign_out = (request.method, request.path) == ("POST", SIGN_OUT_PATH)
        if is_sign_out and isinstance(self.verify, LocalIdentity):
            headers = self.verify.sign_out(request, shell.root)
            return error_pages.signed_out_page(
                shell.root, headers, has_new_address=self.verify.tells_new_address
            )
        return await self._answer_checked(request, shell, identity)

    def _shell_of(self, identity: Identity, request: Request, shell: Shell) -> Shell:
        is_live = request.path in _LIVE_PAGES
        has_live_script = is_live or request.path in _READING_PAGES
        return replace(
            shell,
            person=identity.name,
            csrf=self.tokens.token_of(identity.name),
            section=_section(request.path),
            scripts=(*SCRIPTS, LIVE_SCRIPT) if has_live_script else SCRIPTS,
            is_live=is_live,
            poll_seconds=self.live.poll_seconds,
            may_sign_out=isinstance(self.verify, LocalIdentity),
        )

    async def _answer_checked(
        self, request: Request, shell: Shell, identity: Identity
    ) -> Response:
        found = None if _wants_json(request) else _find_page(request)
        if found is None:
            page_of_form = "" if _wants_json(request) else _page_of_form(request)
            if page_of_form:
                return see_other(shell.root + page_of_form)
            return await self._answer_program(request, shell)
        route, params = found
        page = Page(
            request=request,
            params=params,
            shell=shell,
            runner=self.runner,
            identity=identity,
            door=self._door,
            clock=self.clock,
            rights=self.rights,
            dispatcher=self.dispatcher,
            live=self.live,
            cursors=self.api.cursors,
        )
        answer = self._answer_page(page, route)
        if route.path == _ERASE and request.method == "POST":
            return await self._answer_erasure(answer, params["run"])
        return await answer

    async def _answer_page(self, page: Page, route: PageRoute) -> Response:
        try:
            check_folder_exists(self.runner.store)
            open_waits = await count_for_navigation(page)
            page = replace(page, shell=replace(page.shell, open_waits=open_waits))
            response = await route.answer(page)
            self.last_views.keep(page, route.path, response)
        except Exception as error:  # noqa: BLE001 - every error is a page
            old = await self.last_views.find(page, error)
            if old is not None:
                return old
            operation = f"{page.request.method} {route.path}"
            return error_pages.error_page(
                error, shell=page.shell, now=self.clock.now(), operation=operation
            )
        return response

    async def _answer_program(self, request: Request, shell: Shell) -> Response:
        """Answer a request of the HTTP API, or say that there is no such page."""
        found = find_route(request.path, request.raw_path or request.path)
        if found is None:
            unknown = problems.no_such_path()
            if _wants_json(request):
                return unknown.response()
            return error_pages.problem_page(unknown, shell=shell)
        answer = self.api.handle(request)
        operation = found[0].operations.get(request.method)
        if operation is not None and operation.id == "erase":
            return await self._answer_erasure(answer, found[1]["run_id"])
        return await answer

    async def _answer_erasure(
        self, answer: Awaitable[Response], run_id: str
    ) -> Response:
        """Answer a request to erase a run, which no list finds any more."""
        try:
            return await self.last_views.answer_erasure(answer)
        finally:
            self.live.forget(run_id)

    @property
    def _door(self) -> Door:
        return Door("console", getattr(self.verify, "authentication", "verifier"))

    def _sign_in(self, request: Request, shell: Shell) -> Response:
        """Say how an unknown person signs in, or lead to where the person is known."""
        reason: error_pages.Unknown = "not accepted"
        if self.verify is None:
            reason = "no verifier"
        elif isinstance(self.verify, LocalIdentity):
            reason = "local"
            address = _page_address(request)
            known = address and self.verify.ask(request, shell.root, address)
            if known:
                return known
        if _wants_json(request):
            return problems.unidentified(
                error_pages.UNKNOWN[reason].technical
            ).response()
        return error_pages.sign_in_page(reason, shell=shell)


def _asset(path: str, shell: Shell) -> Response:
    name = path.rpartition("/")[2]
    try:
        is_current = environment.asset_path(name) == path
    except OSError:
        is_current = False
    if not is_current:
        return error_pages.problem_page(problems.no_such_path(), shell=shell)
    headers = {
        "content-type": environment.media_type(name),
        "cache-control": IMMUTABLE,
    }
    body = environment.read_asset(name).decode()
    return Response(status=200, headers=headers, body=body)


def _find_page(request: Request) -> tuple[PageRoute, dict[str, str]] | None:
    segments = request.path.split("/")
    method = "GET" if request.method == "HEAD" else request.method
    for route in PAGES:
        if method in route.methods:
            params = match_path(route.path, segments)
            if params is not None:
                return route, params
    return None


def _page_of_form(request: Request) -> str:
    """Return the page whose form posts to an address that a browser opens, or "".

    Such as after an error of the form: the person loads that page again.
    """
    if request.method not in ("GET", "HEAD"):
        return ""
    found = _find_page(replace(request, method="POST"))
    return "" if found is None else f"/runs/{quote(found[1]['run'], safe='@')}"


def _page_address(request: Request) -> str:
    """Return the address of a page that a browser opens, below the mount point, or "".

    It begins with the fixed name of a page, and has no step that leads elsewhere: a
    redirect to it stays in this console.
    """
    headers = request.headers
    is_opened = headers.get("sec-fetch-dest", "document") == "document"
    if (
        request.method != "GET"
        or not is_opened
        or _HTML not in headers.get("accept", "")
    ):
        return ""
    found = _find_page(request)
    if found is None or found[0].path == "/" or {".", ".."} & {*found[1].values()}:
        return ""
    path = "/".join(quote(step, safe="@") for step in request.path.split("/"))
    query = urlencode({**request.query})
    address = f"{path}?{query}" if query else path
    return address if len(address) <= _MAX_ADDRESS_CHARS else ""


def _wants_json(request: Request) -> bool:
    """Return whether a client asks for JSON; a browser asks for HTML first."""
    accept = request.headers.get("accept", "")
    return is_json(request) or (_JSON in accept and _HTML not in accept)


def _is_public(request: Request) -> bool:
    found = find_route(request.path, request.raw_path or request.path)
    return found is not None and found[0].is_public


def _operation(request: Request) -> str:
    """Return the method and the first part of the path, without ids."""
    return f"{request.method} /{request.path.split('/')[1]}"


def _section(path: str) -> str:
    first = path.split("/")[1]
    return {"waits": "inbox", "drift": "runs"}.get(first, first)


_MIN_SECRET_BYTES = 32


def make_console(  # noqa: PLR0913 - one parameter for each option
    runner: AsyncRunner,
    api: HttpApi,
    *,
    verify: Verifier | LocalIdentity | None,
    can: Can | None,
    dispatcher: Dispatcher | None,
    origin: str | None,
    secret: str | None,
    live: LiveMode,
    clock: Clock | None,
) -> Console:
    """Return a console; the options are those of `console.app`.

    `api` answers requests for JSON, with the same runner, identities and rights.

    Raises:
        InvalidInput: An option is invalid.
    """
    _check_origin(origin)
    _check_secret(secret)
    _check_live(live)
    if secret is not None:
        api.cursor_secret = secret.encode()
    clock = clock or SystemClock()
    return Console(
        runner=runner,
        api=api,
        verify=verify,
        rights=Rights(can),
        tokens=FormTokens.of_secret(secret),
        origin=origin,
        dispatcher=dispatcher,
        clock=clock,
        live=LivePages.of_runner(runner, live, clock),
    )


def _check_origin(origin: object) -> None:
    if origin is None:
        return
    check_type("origin", origin, str, "a text or None")
    parts = urlsplit(str(origin))
    if parts.scheme in ("http", "https") and f"{parts.scheme}://{parts.netloc}" == (
        origin
    ):
        return
    raise InvalidInput(
        f"origin must be a scheme and a host, got {origin!r:.80}. Pass for example "
        'origin="https://agents.example".'
    )


def _check_secret(secret: object) -> None:
    if secret is None:
        return
    check_type("secret", secret, str, "a text or None")
    if len(str(secret).encode()) < _MIN_SECRET_BYTES:
        raise InvalidInput(
            f"secret must have at least {_MIN_SECRET_BYTES} bytes. Make one with "
            "`python -c 'import secrets; print(secrets.token_urlsafe(32))'`."
        )


def _check_live(live: object) -> None:
    if live not in LIVE_MODES:
        msg = f'live must be "events" or "poll", got {live!r:.80}. Pass one of them.'
        raise InvalidInput(msg)
