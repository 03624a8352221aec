"""The document says what the desk does, no less and no more."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi import checks

from continuations import AgentChanged, AsyncRunner, ModelError, RunErased
from continuations.core.decisions import DECISION_KINDS
from continuations.core.run import RUN_STATUSES
from continuations.core.waits import WAIT_KINDS
from continuations.serve.http import asgi
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.openapi import document
from continuations.serve.http.routes import ROUTES
from continuations_storage import MemoryStore
from continuations_storage import errors as storage
from tests.ledger.runs import make_wait
from tests.serve.http.api_fixture import (
    BASE_URL,
    ApiFixture,
    RecordingDispatcher,
    form_request,
    verify_bearer,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.serve.http.request_response import Response

DOCUMENT = document()
OPERATIONS = [
    (method, path) for path, item in DOCUMENT["paths"].items() for method in item
]
J, NO_ID = {"run_id": "j"}, {"run_id": "!"}
APPROVE = {"decision": "approve"}
# Which agents there are, no document can say; and gateways and clients add to a query
# what is not for us.
EXCLUDED_CHECKS = {
    "/runs": ["positive_data_acceptance"],
    "/waits": ["negative_data_rejection"],
}
EMPTY_BODY: dict[str, object] = {}
START = {"run_id": "j", "input": "pay Jane"}
REQUEST_BODIES = {
    "/runs": START,
    "/runs/{run_id}/cancel": EMPTY_BODY,
    "/waits/{wait_id}/decision": APPROVE,
}
SECURED = [at for at in OPERATIONS if at[1] not in ("/healthz", "/d/{token}")]


def test_document_contains_exactly_the_routes_of_the_api() -> None:
    answered = {
        (method.lower(), route.path) for route in ROUTES for method in route.handlers
    }

    assert answered == set(OPERATIONS)
    open_paths = {route.path for route in ROUTES if route.is_public}
    free = {
        path
        for method, path in OPERATIONS
        if DOCUMENT["paths"][path][method].get("security") == []
    }
    assert open_paths == free


def test_enums_of_the_document_equal_those_of_core() -> None:
    shapes = DOCUMENT["components"]["schemas"]

    def named(shape: str, member: str) -> set[str]:
        return set(shapes[shape]["properties"][member]["enum"])

    assert WAIT_KINDS == named("wait", "kind")
    assert DECISION_KINDS == named("decision", "kind")
    assert RUN_STATUSES == named("run", "status")


# Generated -------------------------------------------------------------------


@pytest.fixture(scope="module")
def schema() -> Any:
    """Return the document as schemathesis reads it from the application."""
    office = ApiFixture()
    asyncio.run(office.start_waiting_run())
    return schemathesis.openapi.from_asgi(
        "/openapi.json", asgi.app(office.api), headers={"authorization": "Bearer kim"}
    )


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_generated_request_gets_a_documented_response(
    schema: Any, method: str, path: str, mode: schemathesis.GenerationMode
) -> None:
    """R-G4: bad input of any kind gives a 4xx that the document names."""
    operation = schema[path][method.upper()]
    if mode is schemathesis.GenerationMode.NEGATIVE and path == "/healthz":
        return  # it takes nothing that could be wrong

    excluded: list[Any] = [
        getattr(checks, name) for name in EXCLUDED_CHECKS.get(path, [])
    ]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=20,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )
    def story(case: Any) -> None:
        answer = case.call(headers={"authorization": "Bearer kim"})
        case.validate_response(answer, excluded_checks=excluded)

    story()


# Every status ----------------------------------------------------------------


class ResponseChecker:
    """Asks an office, and holds each answer against the document."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str, str]] = set()

    async def request(
        self,
        office: ApiFixture,
        method: str,
        path: str,
        body: object = None,
        *,
        by: str | None = "kim",
        query: dict[str, str] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> int:
        """Ask, check, and return the status."""
        where = path.format(**{"wait_id": "x", "run_id": "x", **(names or {})})
        answer = await office.request(method.upper(), where, body, by=by, query=query)
        return self.check(method, path, answer)

    async def submit_form(
        self, office: ApiFixture, link: str, text: str, **kind: str
    ) -> int:
        """Post a form, check, and return the status."""
        asked = form_request(link, text)
        if kind:
            asked = Request(method="POST", path=asked.path, headers=kind)
        return self.check("post", "/d/{token}", await office.api.handle(asked))

    async def open_link(self, office: ApiFixture, link: str) -> int:
        """Open a link, check, and return the status."""
        return self.check("get", "/d/{token}", await office.open_link(link))

    def check(self, method: str, path: str, response: Response) -> int:
        """Hold an answer against the document."""
        status = str(response.status)
        told = DOCUMENT["paths"][path][method]["responses"]
        assert status in told, (method, path, status)
        kind = response.headers["content-type"].partition(";")[0]
        schema = told[status]["content"][kind]["schema"]
        if kind != "text/html":
            whole = {**schema, "components": DOCUMENT["components"]}
            validator = jsonschema_rs.Draft202012Validator(whole)
            validator.validate(json.loads(response.body))
        self.seen.add((method, path, status))
        return response.status


class UnavailableStore(MemoryStore):
    """A store that does not answer."""

    async def read(self, key: str) -> bytes:
        """Fail."""
        raise storage.Unavailable(key, "it is night")

    async def create(self, key: str, body: bytes) -> None:
        """Fail."""
        del body
        raise storage.Unavailable(key, "it is night")

    async def keys(self, prefix: str, after: str = "", limit: int = 1) -> list[str]:
        """Fail."""
        del after, limit
        raise storage.Unavailable(prefix, "it is night")


async def request_everything(reader: ResponseChecker, office: ApiFixture) -> None:
    """Ask for everything, with what is asked for mostly not there."""
    wait = make_wait()
    for method, path in SECURED:
        said = REQUEST_BODIES.get(path)
        await reader.request(
            office,
            method,
            path,
            said,
            names={"wait_id": wait.id, "run_id": wait.run_id},
        )
    link = office.links.link(wait)
    await reader.open_link(office, link)
    await reader.submit_form(office, link, "decision=approve")


async def when_nobody_is_known(reader: ResponseChecker) -> None:
    office = ApiFixture()
    for method, path in SECURED:
        await reader.request(office, method, path, by=None)


async def when_bodies_are_long(reader: ResponseChecker) -> None:
    office = ApiFixture(options={"max_body_bytes": 3})
    for method, path in OPERATIONS:
        asked = Request(method=method.upper(), path=path, body=b"12345")
        reader.check(method, path, await office.api.handle(asked))


async def when_things_break(reader: ResponseChecker) -> None:
    def verify(_: Request) -> None:
        raise OSError

    office = ApiFixture(options={"verify": verify})
    office.api = HttpApi(
        _FailingRunner([], store="memory:"), verify=verify, links=office.links
    )
    await request_everything(reader, office)


async def when_the_store_is_away(reader: ResponseChecker) -> None:
    office = ApiFixture()
    runner = AsyncRunner(office.bank.agent(), store=UnavailableStore())
    office.api = HttpApi(
        runner, verify=verify_bearer, links=office.links, clock=office.clock
    )
    await request_everything(reader, office)


class _FailingRunner(AsyncRunner):
    async def wait(self, wait_id: str) -> Any:
        raise RuntimeError(wait_id)

    async def decide(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError


class _RaisingRunner(AsyncRunner):
    """Raises one error wherever a run is touched."""

    def __init__(self, error: Exception) -> None:
        super().__init__([], store="memory:")
        self._error = error

    async def look(self, *_: Any, **__: Any) -> Any:
        raise self._error

    async def start(self, *_: Any, **__: Any) -> Any:
        raise self._error

    async def resume(self, *_: Any, **__: Any) -> Any:
        raise self._error

    async def cancel(self, *_: Any, **__: Any) -> Any:
        raise self._error


async def when_a_run_cannot_go_on(reader: ResponseChecker) -> None:
    for error in (RunErased("erased"), ModelError("down"), AgentChanged("changed")):
        office = ApiFixture()
        office.api = HttpApi(_RaisingRunner(error), verify=verify_bearer)
        await reader.request(office, "post", "/runs/{run_id}/resume", names=J)
        await reader.request(office, "post", "/runs", START)
        if isinstance(error, RunErased):
            await reader.request(office, "get", "/runs/{run_id}", names=J)
        if not isinstance(error, ModelError):
            await reader.request(office, "post", "/runs/{run_id}/cancel", {}, names=J)


async def when_ids_are_none(reader: ResponseChecker) -> None:
    office = ApiFixture()
    for method, path in OPERATIONS:
        if "{run_id}" in path:
            await reader.request(
                office, method, path, REQUEST_BODIES.get(path), names=NO_ID
            )
    await reader.request(office, "get", "/waits", query={"limit": "x"})
    await request_everything(reader, office)
    await reader.open_link(office, f"{BASE_URL}/d/x")


async def from_beginning_to_end(reader: ResponseChecker) -> None:
    office = ApiFixture()
    wait = await office.start_waiting_run()
    names = {"wait_id": wait.id, "run_id": wait.run_id}
    link, deny = office.links.link(wait), office.links.link(wait, allowed=["deny"])
    again = {**START, "run_id": wait.run_id}
    assert 200 == await reader.request(office, "post", "/runs", again)
    other = {**again, "input": "pay Lee"}
    assert 409 == await reader.request(office, "post", "/runs", other)
    assert 400 == await reader.request(office, "post", "/runs", {"input": "pay"})
    assert 415 == await reader.request(office, "post", "/runs")
    decision, show = "/waits/{wait_id}/decision", "/waits/{wait_id}"
    for path in ("/healthz", "/openapi.json", "/waits", show, "/runs/{run_id}"):
        assert 200 == await reader.request(office, "get", path, names=names)
    assert 200 == await reader.open_link(office, link)
    assert 400 == await reader.submit_form(office, link, "decision=yes")
    assert 403 == await reader.submit_form(office, deny, "decision=approve")
    assert 415 == await reader.submit_form(office, link, "", kind="text/plain")
    edited = {**APPROVE, "arguments": {"cents": "x"}}
    assert 422 == await reader.request(office, "post", decision, edited, names=names)
    assert 400 == await reader.request(office, "post", decision, {}, names=names)
    assert 415 == await reader.request(office, "post", decision, names=names)
    assert 415 == await reader.request(
        office, "post", "/runs/{run_id}/cancel", names=names
    )
    edited = {**APPROVE, "arguments": {"cents": 7, "note": "n"}}
    assert 200 == await reader.request(office, "post", decision, edited, names=names)
    assert 409 == await reader.request(office, "post", decision, APPROVE, names=names)
    assert 409 == await reader.request(office, "get", show, names=names)
    assert 409 == await reader.submit_form(office, link, "decision=approve")
    assert 200 == await reader.request(office, "get", "/runs/{run_id}", names=names)
    assert 200 == await reader.request(office, "post", "/sweep")
    assert 200 == await reader.request(
        office, "post", "/runs/{run_id}/resume", names=names
    )
    office.api = HttpApi(
        office.runner, verify=verify_bearer, dispatcher=RecordingDispatcher()
    )
    assert 202 == await reader.request(
        office, "post", "/runs/{run_id}/resume", names=names
    )


async def when_it_was_cancelled(reader: ResponseChecker) -> None:
    office = ApiFixture()
    wait, other = (
        await office.start_waiting_run(),
        await office.start_waiting_run("other"),
    )
    names = {"wait_id": wait.id, "run_id": wait.run_id}
    assert 200 == await reader.submit_form(
        office, office.links.link(other), "decision=approve"
    )
    assert 200 == await reader.request(
        office, "post", "/runs/{run_id}/cancel", {}, names=names
    )
    assert 200 == await reader.request(office, "get", "/runs/{run_id}", names=names)
    assert 410 == await reader.request(office, "get", "/waits/{wait_id}", names=names)
    assert 410 == await reader.request(
        office, "post", "/waits/{wait_id}/decision", APPROVE, names=names
    )
    assert 410 == await reader.submit_form(
        office, office.links.link(wait), "decision=approve"
    )


SCENARIOS = (
    when_nobody_is_known,
    when_bodies_are_long,
    when_things_break,
    when_the_store_is_away,
    when_a_run_cannot_go_on,
    when_ids_are_none,
    from_beginning_to_end,
    when_it_was_cancelled,
)


def test_every_documented_status_is_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    reader = ResponseChecker()

    for story in SCENARIOS:
        asyncio.run(story(reader))

    documented = {
        (method, path, status)
        for method, path in OPERATIONS
        for status in DOCUMENT["paths"][path][method]["responses"]
    }
    assert set() == documented - reader.seen
