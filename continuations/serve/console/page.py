"""One request for a page of the console, and everything that its handler needs.

A page module exports `ROUTES: tuple[PageRoute, ...]`, and `console` collects them:

    async def show(page: Page) -> Response:
        wait = await page.runner.wait(page.params["wait"])
        return page.render("wait.html", wait=wait_view(wait))

    ROUTES = (PageRoute("/waits/{wait}", show, rights=("view",)),)

An error of the SDK that a handler raises becomes an error page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote, urlencode

from continuations.ledger import layout
from continuations.serve.http import problems, request_fields
from continuations.serve.http.html_pages import html_response, page_query
from continuations.serve.http.request_context import Caller
from continuations.serve.http.request_response import (
    NO_STORE_HEADERS,
    Response,
    see_other,
)
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.identity import Identity
    from continuations.core.rows.decisions import Door
    from continuations.core.rows.state import RunState
    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.ledger.claims import Clock
    from continuations.present.times import PageText
    from continuations.serve.console.live import Sees
    from continuations.serve.console.live_pages import LivePages
    from continuations.serve.dispatch import Dispatcher
    from continuations.serve.http.cursors import Cursors
    from continuations.serve.http.request_response import Request
    from continuations.serve.pages.environment import Shell
    from continuations.serve.rights import Act, Rights


# A time in milliseconds has fewer digits.
_PLACE_DIGITS = 16


def _no_rights() -> list[tuple[Act, str | None]]:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Caller):
    """One request of a known person for a page.

    Attributes:
        request: The request. Its path is below the mount point, and its form has no
            CSRF token any more.
        params: The values of the route's path parameters.
        shell: The frame of the page: mount point, person, navigation.
        runner: The runner.
        identity: The verified person.
        door: The way by which decisions and requests of this page come, for the audit.
        clock: The clock for deadlines.
        rights: The application's rights.
        dispatcher: Resumes runs, if the console has one.
        live: Tells open pages of changes.
        cursors: Returns what seals and reads the cursors of lists.
        allowed: The rights that were asked for this page, and that the person has.
    """

    request: Request
    params: Mapping[str, str]
    shell: Shell
    runner: AsyncRunner
    identity: Identity
    door: Door
    clock: Clock
    rights: Rights
    live: LivePages
    cursors: Callable[[], Cursors]
    dispatcher: Dispatcher | None = None
    allowed: list[tuple[Act, str | None]] = field(default_factory=_no_rights)

    @property
    def run_id(self) -> str:
        """The id of the run that the path names, itself or by one of its waits."""
        if "wait" in self.params:
            return run_of_wait(self.params["wait"])
        return layout.check_run_id(self.params.get("run") or self.params["thread"])

    def addresses(self, version: int | None = None) -> RunAddresses:
        """Return the addresses of the pages of the run, in a version that is shown."""
        root = self.shell.root
        return RunAddresses(root=root, run_id=self.run_id, version=version)

    @property
    def query(self) -> Mapping[str, str]:
        """The query parameters."""
        return self.request.query

    @property
    def form(self) -> Mapping[str, str]:
        """The fields of the posted form; a body that is no form is refused."""
        return request_fields.form_fields(self.request)

    @property
    def posted_text(self) -> str:
        """The message in the posted form; an empty one is refused."""
        text = self.form.get("text", "").strip()
        if not text:
            raise problems.malformed("The message is empty. Go back, and write a text.")
        return text

    async def may(self, act: Act, run_id: str | None) -> bool:
        """Return whether the person may do something with a run."""
        is_allowed = await self.rights.allow(self.identity, act, run_id)
        if is_allowed:
            self.allowed.append((act, run_id))
        return is_allowed

    async def shown(self, state: RunState) -> RunState:
        """Return the state of a run with the texts that the person may read."""
        from continuations.core.reading.withheld_texts import shown_state  # noqa: PLC0415 - pages of runs only

        return shown_state(state, await self.detail(state.run.id))

    @property
    def sees(self) -> Sees | None:
        """Whether the person may see a run; `None` if everybody sees each of them."""
        if not self.rights.are_limited:
            return None
        return lambda run_id: self.rights.allow(self.identity, "view", run_id)

    def url(self, path: str) -> str:
        """Return the address of a path of the console, with the mount point."""
        return self.shell.root + path

    def render(
        self,
        template: str,
        *,
        status: int = 200,
        has_address: bool = True,
        **context: object,
    ) -> Response:
        """Return a page; its template gets `shell` and the context.

        A request that names one of its long texts gets a part of that text instead.

        Args:
            template: The name of a template of `serve.pages`.
            status: The status code.
            has_address: Whether a GET of the same address makes the same page.
            **context: The views that the template names.

        Returns:
            The response.
        """
        shown: dict[str, object] = {"shell": self.shell, **context}
        query = page_query(self.request) if has_address else None
        return html_page(template, shown, status=status, query=query)

    def unchanged(self) -> Response:
        """Return the response to a page that has the newest parts (status 204)."""
        return Response(status=204, headers=NO_STORE_HEADERS)

    def message(
        self,
        title: str,
        text: str,
        links: Mapping[str, str],
        *,
        facts: Mapping[str, PageText] | None = None,
        values: Mapping[str, str] | None = None,
    ) -> Response:
        """Return a short page.

        Args:
            title: Its title.
            text: Its text.
            links: Words by addresses.
            facts: Texts by labels.
            values: JSON texts by headings.

        Returns:
            The response, with status 200.
        """
        return self.render(
            "message.html",
            title=title,
            text=text,
            facts=facts or {},
            values=values or {},
            links=links,
        )

    def next_page(self, path: str, after: str | None, **filters: str) -> str:
        """Return the address of the next page of a list.

        Args:
            path: The path of the list.
            after: The cursor of the next page; `None` or "" on the last page.
            **filters: The other parameters of the query.

        Returns:
            The address, with the mount point; "" on the last page.
        """
        if not after:
            return ""
        return self.list_address(path, **filters, after=after)

    def list_address(self, path: str, **fields: str) -> str:
        """Return the address of a list with the fields of a query."""
        query = f"?{urlencode(fields)}" if fields else ""
        return self.url(f"{path}{query}")

    def see_other(self, path: str) -> Response:
        """Return the redirect after a successful POST (status 303)."""
        return see_other(self.url(path))


PageHandler: TypeAlias = Callable[[Page], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """One path of the console, and its handler.

    Attributes:
        path: The path, with parameters as `{name}`; a parameter is one path segment.
        handler: Returns the response.
        methods: The methods. GET and HEAD change nothing. POST is checked for its
            origin before the handler is called.
        rights: The rights to the run of the path that the person needs. They are asked
            before the handler is called.
    """

    path: str
    handler: PageHandler
    methods: tuple[str, ...] = ("GET",)
    rights: tuple[Act, ...] = ()

    async def answer(self, page: Page) -> Response:
        """Return the response to a person who has the rights.

        Raises:
            RequestRefused: The person lacks a right (status 403).
        """
        for act in self.rights:
            await page.require(act, page.run_id)
        return await self.handler(page)


def html_page(
    template: str,
    context: Mapping[str, object],
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
) -> Response:
    """Return an HTML page, or a part of a long text on it that its query names.

    Args:
        template: The name of the template.
        context: Everything that the template names.
        status: The status code.
        headers: Further headers.
        query: The query of the page; `None` if it has no address.

    Returns:
        The response.
    """
    own = {"content-type": "text/html; charset=utf-8", **(headers or {})}
    return html_response(
        template,
        context,
        status=status,
        headers={**NO_STORE_HEADERS, **own},
        query=query,
    )


def place_of(cursor: str, refusal: str) -> tuple[int, str]:
    """Return the number and the id of a place in a list; refuse another text."""
    text, _, name = cursor.partition("/")
    number = request_fields.digits(text, _PLACE_DIGITS)
    if number is None or not name:
        raise problems.malformed(refusal)
    return number, name


def run_of_wait(wait_id: str) -> str:
    """Return the id of a wait's run; raises `WaitNotFound` for other texts."""
    return layout.parse_wait_id(wait_id).run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAddresses:
    """Makes the addresses of one run, below the mount point of the console.

    Attributes:
        root: The mount point, without a slash at its end.
        run_id: Id of the run.
        version: The older version that the page shows, or `None` for the newest.
    """

    root: str
    run_id: str
    version: int | None = None

    @property
    def run(self) -> str:
        """The page of the run, in the shown version."""
        return self._query()

    @property
    def newest(self) -> str:
        """The page of the run in its newest version."""
        return self.below("")

    def below(self, part: str) -> str:
        """Return the address of a page about the run, such as `messages`."""
        path = f"{self.root}/runs/{quote(self.run_id, safe='')}"
        return f"{path}/{part}" if part else path

    def call(self, key: str) -> str:
        """Return the page with a selected row."""
        return f"{self._query(call=key)}#call"

    def open(self, key: str) -> str:
        """Return the page with an opened row."""
        return f"{self._query(open=key)}#tree"

    def rows(self, opened: str, offset: int) -> str:
        """Return the page with the rows that follow."""
        return f"{self._query(open=opened, rows=str(offset))}#tree"

    def log(self, before: str = "") -> str:
        """Return the log, whole; or its entries before a cursor."""
        return self._query(view="log", before=before)

    @property
    def transcripts(self) -> str:
        """The transcripts, in the shown version."""
        return self.messages("")

    def at(self, version: int, part: str = "") -> str:
        """Return the page of a version; its `part` may be `fork` or `rewind`."""
        return f"{self.below(part)}?version={version}"

    def version_of(self, run_id: str, version: str) -> str:
        """Return the page of another run in a version."""
        run = RunAddresses(root=self.root, run_id=run_id)
        return f"{run.newest}?{urlencode({'version': version})}"

    def cancel(self, call_id: str) -> str:
        """Return the question whether to cancel a call."""
        return f"{self.below('cancel')}?{urlencode({'call': call_id})}"

    def messages(self, frame: str, before: int = 0) -> str:
        """Return the transcript of an agent."""
        fields = {"frame": frame, "before": str(before or "")}
        if self.version is not None:
            fields["version"] = str(self.version)
        query = urlencode({name: text for name, text in fields.items() if text})
        return self.below("messages") + (f"?{query}" if query else "")

    def versions(self, before: int) -> str:
        """Return the page of the versions before a number."""
        return f"{self.below('versions')}?before={before}"

    def difference(self, first: int, second: int) -> str:
        """Return the page that compares two versions."""
        return f"{self.below('versions')}?from={first}&to={second}"

    def wait(self, wait_id: str) -> str:
        """Return the page of a wait."""
        return f"{self.root}/waits/{quote(wait_id, safe='@')}"

    @property
    def thread(self) -> str:
        """The conversation, if the run is a thread."""
        return f"{self.root}/threads/{quote(self.run_id, safe='')}"

    def chat_before(self, key: str, version: int | None) -> str:
        """Return the conversation before a line, or up to a version."""
        fields = {"before": key} if key else {}
        if version is not None:
            fields["version"] = str(version)
        return f"{self.thread}?{urlencode(fields)}"

    def _query(self, **fields: str) -> str:
        known = {name: text for name, text in fields.items() if text}
        if self.version is not None:
            known["version"] = str(self.version)
        query = f"?{urlencode(known)}" if known else ""
        return self.below("") + query
