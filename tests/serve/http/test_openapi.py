"""The OpenAPI document describes every response of the API, and no other."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis.specs.openapi import checks

from continuations import AsyncRunner, Wait
from continuations.attachments import Image
from continuations.core.rows.decisions import DECISION_KINDS
from continuations.core.rows.run import RUN_STATUSES
from continuations.core.rows.wait_rules import WAIT_KINDS
from continuations.errors import (
    AgentChanged,
    InboxFull,
    ModelError,
    RunBusy,
    RunErased,
    ThreadClosed,
)
from continuations.serve.http import asgi
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.openapi import document
from continuations.serve.http.request_response import Response
from continuations.serve.operations import OPERATIONS as ROWS
from continuations_storage import MemoryStore
from continuations_storage import errors as storage
from tests.ledger.runs import make_wait
from tests.present.schema_check import load_schema
from tests.sampling import RUNS_ALL_CASES, pairs
from tests.serve.http.api_fixture import (
    BASE_URL,
    ApiFixture,
    RecordingDispatcher,
    form_request,
    problem_slug,
    verify_bearer,
    waiting_api,
)
from tests.serve.http.scanner import PAGES, Scanner
from tests.serve.http.single_rights import EXAMPLES, RECORDED, Scene
from tests.serve.http.test_webhook_receiver import Sender
from tests.serve.rights import only

DOCUMENT = document()
OPERATIONS = [
    (method, path) for path, item in DOCUMENT["paths"].items() for method in item
]
THREAD = {"agent": "boss", "key": "k", "number": "1"}
J, NO_ID = {"run_id": "j"}, {"run_id": "!"}
APPROVE = {"decision": "approve"}
# The document cannot list the agents. Unknown query parameters are ignored, because
# gateways and clients add their own.
EXCLUDED_CHECKS = {
    "/runs": ["positive_data_acceptance"],
    # Nor the runs that have ended, which accept no signal.
    "/signals": ["positive_data_acceptance"],
    "/runs/{run_id}/messages": ["positive_data_acceptance"],
    # Nor the agents and the threads.
    "/threads/{agent}/{key}": ["positive_data_acceptance"],
    "/threads/{agent}/{key}/messages": ["positive_data_acceptance"],
    "/threads/{agent}/{key}/messages/{number}": ["positive_data_acceptance"],
    "/threads/{agent}/{key}/events": ["positive_data_acceptance"],
    "/threads/{agent}/{key}/stop": ["positive_data_acceptance"],
    "/threads/{agent}/{key}/close": ["positive_data_acceptance"],
    # Nor the waits, calls and frames of a version.
    "/runs/{run_id}/fork": ["positive_data_acceptance"],
    "/runs/{run_id}/rewind": ["positive_data_acceptance"],
    "/waits": ["negative_data_rejection", "positive_data_acceptance"],
    # Nor that each decision of a list is for another wait.
    "/decisions": ["positive_data_acceptance"],
    # Nor the grants of a run.
    "/runs/{run_id}/grants/{grant}/revoke": ["positive_data_acceptance"],
}
SEND = "/runs/{run_id}/messages"
SIGNALS, DROP = "/runs/{run_id}/signals", "/runs/{run_id}/signals/drop"
EMPTY_BODY: dict[str, object] = {}
START = {"run_id": "j", "input": "pay Jane"}
SIGNAL = {"run_id": "j", "name": "receipt"}
EVENT = {"name": "receipt", "key": "A-17"}
REQUEST_BODIES = {
    "/signals": SIGNAL,
    "/events": EVENT,
    "/runs": START,
    SEND: {"text": "pay Jane"},
    "/threads/{agent}/{key}/messages": {"text": "pay Jane"},
    "/threads/{agent}/{key}/stop": EMPTY_BODY,
    "/threads/{agent}/{key}/close": EMPTY_BODY,
    "/runs/{run_id}/cancel": EMPTY_BODY,
    "/runs/{run_id}/fork": EMPTY_BODY,
    "/runs/{run_id}/rewind": {"version": 1},
    "/decisions": {"decisions": [{"wait_id": "x", **APPROVE}]},
    "/runs/{run_id}/wake": EMPTY_BODY,
    "/runs/{run_id}/pause": EMPTY_BODY,
    "/runs/{run_id}/unpause": EMPTY_BODY,
    DROP: EMPTY_BODY,
    "/runs/{run_id}/grants/{grant}/revoke": EMPTY_BODY,
    "/waits/{wait_id}/decision": APPROVE,
}
SECURED = [
    (method, path)
    for method, path in OPERATIONS
    if DOCUMENT["paths"][path][method].get("security") != []
]


def test_document_is_valid_openapi() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_schemas_of_the_document_are_those_of_the_published_schema() -> None:
    """Only the form of a link page is not JSON, so only the document has it."""
    published = json.dumps(load_schema()["$defs"])
    components = dict(DOCUMENT["components"]["schemas"])

    del components["link_form"]

    assert json.loads(published.replace("#/$defs/", "#/components/schemas/")) == (
        components
    )


def test_enums_of_the_document_equal_those_of_core() -> None:
    shapes = DOCUMENT["components"]["schemas"]

    def enum(shape: str, member: str) -> set[str]:
        return set(shapes[shape]["properties"][member]["enum"])

    assert WAIT_KINDS == enum("wait", "kind")
    assert DECISION_KINDS == enum("decision", "kind")
    assert RUN_STATUSES == enum("run", "status")


# Generated ----------------------------------------------------------------------


@pytest.fixture
def schema() -> Any:
    """Return the document as schemathesis reads it from a new application."""
    fixture = ApiFixture()
    asyncio.run(fixture.start_waiting_run())
    return schemathesis.openapi.from_asgi(
        "/openapi.json", asgi.app(fixture.api), headers={"authorization": "Bearer kim"}
    )


@pytest.mark.parametrize(
    ("route", "mode"), pairs(OPERATIONS, schemathesis.GenerationMode)
)
def test_generated_request_gets_a_documented_response(
    schema: Any, route: tuple[str, str], mode: schemathesis.GenerationMode
) -> None:
    """Bad input of every kind gets a 4xx that the document contains."""
    method, path = route
    operation = schema[path][method.upper()]
    has_no_wrong_input = path in ("/healthz", "/webhooks/{name}")
    if mode is schemathesis.GenerationMode.NEGATIVE and has_no_wrong_input:
        return

    excluded: list[Any] = [
        getattr(checks, name) for name in EXCLUDED_CHECKS.get(path, [])
    ]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=20 if RUNS_ALL_CASES else 3,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )
    def scenario(case: Any) -> None:
        response = case.call(headers={"authorization": "Bearer kim"})
        case.validate_response(response, excluded_checks=excluded)

    scenario()


# Every status -------------------------------------------------------------------


class ResponseChecker:
    """Send requests and check each response against the document."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str, str]] = set()

    async def request(
        self,
        fixture: ApiFixture,
        method: str,
        path: str,
        body: object = None,
        *,
        by: str | None = "kim",
        query: dict[str, str] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> int:
        """Send a request, check the response, and return its status."""
        named = {
            "wait_id": "x",
            "run_id": "x",
            "grant": "0x",
            "digest": f"sha256:{'0' * 64}",
            **THREAD,
            **(names or {}),
        }
        where = path.format(**named)
        response = await fixture.request(
            method.upper(), where, body, by=by, query=query
        )
        return self.check(method, path, response)

    async def submit_form(
        self, fixture: ApiFixture, link: str, text: str, **kind: str
    ) -> int:
        """Post a form, check the response, and return its status."""
        shown = urlencode({"shown": fixture.digest_of(link)})
        request = form_request(link, f"{text}&{shown}")
        if kind:
            request = Request(method="POST", path=request.path, headers=kind)
        return self.check("post", "/d/{token}", await fixture.api.handle(request))

    async def resume_with_form(self, fixture: ApiFixture) -> int:
        """Post a form to resume a run, check the response, and return its status."""
        kind = {"content-type": "text/plain", "authorization": "Bearer kim"}
        where, body = "/runs/jane-1/resume", b"reopen=true"
        request = Request(method="POST", path=where, headers=kind, body=body)
        response = await fixture.api.handle(request)
        return self.check("post", "/runs/{run_id}/resume", response)

    async def open_link(self, fixture: ApiFixture, link: str) -> int:
        """Open a link, check the response, and return its status."""
        return self.check("get", "/d/{token}", await fixture.open_link(link))

    async def beat(
        self, scanner: Scanner, beat: object, kind: str = "application/json"
    ) -> int:
        """Send a heartbeat, check the response, and return its status."""
        path = f"{scanner.urls[0]}/heartbeat".removeprefix(BASE_URL)
        body, headers = json.dumps(beat).encode(), {"content-type": kind}
        request = Request(method="POST", path=path, headers=headers, body=body)
        response = await scanner.api.handle(request)
        return self.check("post", "/callbacks/{token}/heartbeat", response)

    async def report(
        self, api: HttpApi, url: str, result: object, kind: str = "application/json"
    ) -> int:
        """Report the result of a job, check the response, and return its status."""
        path, body = url.removeprefix(BASE_URL), json.dumps(result).encode()
        headers = {"content-type": kind}
        request = Request(method="POST", path=path, headers=headers, body=body)
        response = await api.handle(request)
        return self.check("post", "/callbacks/{token}", response)

    async def stream(self, fixture: ApiFixture, run_id: str) -> list[int]:
        """Read all events of a run as `EventSource` does; return the statuses."""
        headers = {"authorization": "Bearer kim", "accept": "text/event-stream"}
        statuses: list[int] = []
        for _ in range(2):
            path = f"/runs/{run_id}/events"
            request = Request(method="GET", path=path, headers=headers)
            response = await fixture.api.handle(request)
            statuses.append(self.check("get", "/runs/{run_id}/events", response))
            ids = re.findall(r"^id: (.+)$", response.body, re.MULTILINE)
            headers["last-event-id"] = ids[-1] if ids else ""
        return statuses

    def check(self, method: str, path: str, response: Response) -> int:
        """Check a response against the document; return its status."""
        status = str(response.status)
        documented = DOCUMENT["paths"][path][method]["responses"]
        assert status in documented, (method, path, status)
        self.seen.add((method, path, status))
        if "content" not in documented[status]:
            assert "" == response.body
            return response.status
        kind = response.headers["content-type"].partition(";")[0]
        schema = documented[status]["content"][kind]["schema"]
        if response.data is None and kind not in ("text/html", "text/event-stream"):
            whole = {**schema, "components": DOCUMENT["components"]}
            validator = jsonschema_rs.Draft202012Validator(whole)
            validator.validate(json.loads(response.body))
        return response.status


class UnavailableStore(MemoryStore):
    """A store that is not available."""

    async def _fail(self, key: str, *_: Any, **__: Any) -> Any:
        raise storage.Unavailable(key, "out of service")

    read: Any = _fail
    create: Any = _fail
    keys: Any = _fail


async def request_everything(checker: ResponseChecker, fixture: ApiFixture) -> None:
    """Send a request to every route; most runs and waits do not exist."""
    wait = make_wait()
    for method, path in SECURED:
        body = REQUEST_BODIES.get(path)
        await checker.request(
            fixture,
            method,
            path,
            body,
            names={"wait_id": wait.id, "run_id": wait.run_id},
        )
    link = fixture.links.link(wait)
    await checker.open_link(fixture, link)
    await checker.submit_form(fixture, link, "decision=approve")
    url = fixture.links.callback_url(wait.id)
    await checker.report(fixture.api, url, PAGES)
    beat = Request(
        method="POST",
        path=f"{url}/heartbeat".removeprefix(BASE_URL),
        headers={"content-type": "application/json"},
        body=b'{"extend": 60}',
    )
    path = "/callbacks/{token}/heartbeat"
    checker.check("post", path, await fixture.api.handle(beat))


async def without_an_identity(checker: ResponseChecker) -> None:
    fixture = ApiFixture()
    for method, path in SECURED:
        await checker.request(fixture, method, path, by=None)


async def without_rights(checker: ResponseChecker) -> None:
    fixture, wait = await waiting_api(options={"can": only()})
    for each in ROWS:
        if each.right is not None:
            real = each.path.format_map(_PathValues(wait_id=wait.id))
            body = {
                "run_id": "jane-1",
                "decisions": [{"wait_id": wait.id, **APPROVE}],
            }
            response = await fixture.request(each.method, real, body)
            assert (403, "forbidden") == (response.status, problem_slug(response))
            checker.check(each.method.lower(), each.path, response)


class _PathValues(dict[str, str]):
    """A value for each parameter of a path."""

    def __missing__(self, name: str) -> str:
        return "jane-1"


async def with_large_bodies(checker: ResponseChecker) -> None:
    fixture = ApiFixture(options={"max_body_bytes": 3})
    for method, path in OPERATIONS:
        request = Request(method=method.upper(), path=path, body=b"12345")
        checker.check(method, path, await fixture.api.handle(request))


async def with_a_broken_runner(checker: ResponseChecker) -> None:
    def verify(_: Request) -> None:
        raise OSError

    fixture = ApiFixture(options={"verify": verify})
    runner = _RaisingRunner(RuntimeError(), "wait decide heartbeat thread")
    fixture.api = HttpApi(runner, verify=verify, links=fixture.links)
    await request_everything(checker, fixture)


async def with_an_unavailable_store(checker: ResponseChecker) -> None:
    fixture = ApiFixture()
    runner = fixture.make_runner(UnavailableStore())
    fixture.api = HttpApi(
        runner, verify=verify_bearer, links=fixture.links, clock=fixture.clock
    )
    await request_everything(checker, fixture)


USES_OF_A_RUN = """
    audit cancel diff drop_signals erase events fork grants history look pause
    plan_rewind resume revoke rewind send signal signals start thread unpause wake
"""


class _RaisingRunner(AsyncRunner):
    """Raise one error from some methods, by default from all that use a run."""

    def __init__(self, error: Exception, names: str = USES_OF_A_RUN) -> None:
        super().__init__([], store="memory:")
        self._error = error
        for name in names.split():
            setattr(self, name, self._raise)

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise self._error


async def send_messages(
    checker: ResponseChecker, fixture: ApiFixture, names: dict[str, str]
) -> None:
    """Send a message with a file to a run."""
    photo = {"data": "UE5H", "media_type": "image/png", "name": "a.png"}
    message = {"text": "look", "id": "m-1", "files": [photo]}
    assert 200 == await checker.request(fixture, "post", SEND, message, names=names)


async def with_a_full_inbox(checker: ResponseChecker) -> None:
    fixture = ApiFixture()
    fixture.api = HttpApi(_RaisingRunner(InboxFull("full")), verify=verify_bearer)
    message = REQUEST_BODIES[SEND]
    assert 429 == await checker.request(fixture, "post", SEND, message, names=J)
    posted = "/threads/{agent}/{key}/messages"
    names = {"agent": "boss", "key": "k"}
    assert 429 == await checker.request(fixture, "post", posted, message, names=names)


async def with_a_run_that_cannot_continue(checker: ResponseChecker) -> None:
    for error in (RunErased("erased"), ModelError("down"), AgentChanged("changed")):
        fixture = ApiFixture()
        fixture.api = HttpApi(_RaisingRunner(error), verify=verify_bearer)
        await checker.request(fixture, "post", "/runs/{run_id}/resume", names=J)
        await checker.request(fixture, "post", "/runs", START)
        if isinstance(error, RunErased):
            await checker.request(fixture, "get", "/runs/{run_id}", names=J)
            await checker.request(fixture, "post", "/signals", SIGNAL)
            message = REQUEST_BODIES[SEND]
            await checker.request(fixture, "post", SEND, message, names=J)
            await checker.request(fixture, "get", "/runs/{run_id}/audit", names=J)
            await checker.request(fixture, "post", "/runs/{run_id}/wake", {}, names=J)
            for path in ("/runs/{run_id}/pause", "/runs/{run_id}/unpause"):
                await checker.request(fixture, "post", path, {}, names=J)
            await checker.request(fixture, "get", "/runs/{run_id}/grants", names=J)
            await checker.request(fixture, "get", SIGNALS, names=J)
            await checker.request(fixture, "post", DROP, {}, names=J)
            await checker.request(fixture, "get", "/runs/{run_id}/events", names=J)
            revoke = "/runs/{run_id}/grants/{grant}/revoke"
            await checker.request(fixture, "post", revoke, {}, names=J)
        if not isinstance(error, ModelError):
            await checker.request(fixture, "post", "/runs/{run_id}/cancel", {}, names=J)
    busy = RunBusy("busy", run_id="j", until=datetime.now(UTC))
    fixture.api = HttpApi(_RaisingRunner(busy), verify=verify_bearer)
    await checker.request(fixture, "delete", "/runs/{run_id}", names=J)


async def with_wrong_bodies_and_unknown_runs(checker: ResponseChecker) -> None:
    fixture, wait = await waiting_api()
    waiting = {"wait_id": wait.id, "run_id": wait.run_id}
    queries = {"/runs/{run_id}/rewind": {"version": "1"}}
    queries["/runs/{run_id}/diff"] = {"from": "1", "to": "2"}
    for method, path in SECURED:
        body = REQUEST_BODIES.get(path) if method == "post" else None
        for status, wrong in ((415, None), (400, {"x": 1})) if body is not None else ():
            found = await checker.request(fixture, method, path, wrong, names=waiting)
            assert status == found, path
        if "{run_id}" in path:
            query = queries.get(path) if method == "get" else None
            found = await checker.request(
                fixture, method, path, body, names=J, query=query
            )
            assert 404 == found, path


async def with_invalid_ids(checker: ResponseChecker) -> None:
    fixture = ApiFixture()
    for method, path in OPERATIONS:
        if "{run_id}" in path:
            await checker.request(
                fixture, method, path, REQUEST_BODIES.get(path), names=NO_ID
            )
    await checker.request(fixture, "get", "/waits", query={"limit": "x"})
    await request_everything(checker, fixture)
    await checker.open_link(fixture, f"{BASE_URL}/d/x")


async def with_an_erased_run(checker: ResponseChecker) -> None:
    fixture = ApiFixture()
    await fixture.start_waiting_run()
    assert 200 == await checker.request(fixture, "get", "/runs")
    due = {"order": "due", "limit": "1"}
    assert 200 == await checker.request(fixture, "get", "/waits", query=due)
    assert 400 == await checker.request(fixture, "get", "/runs", query={"status": "x"})
    assert 200 == await checker.request(fixture, "get", "/drift")
    assert 400 == await checker.request(fixture, "get", "/drift", query={"limit": "0"})
    for _ in range(2):
        assert 200 == await checker.request(
            fixture, "delete", "/runs/{run_id}", names={"run_id": "jane-1"}
        )


async def publish_events(checker: ResponseChecker, fixture: ApiFixture) -> None:
    event: dict[str, object] = {**EVENT, "data": {"cents": 5}, "id": "e-1"}
    only_name = {"name": "receipt"}
    assert 200 == await checker.request(fixture, "post", "/events", event)
    assert 200 == await checker.request(fixture, "post", "/events", only_name)
    other = {**event, "data": 6}
    assert 400 == await checker.request(fixture, "post", "/events", other)


async def from_start_to_end(  # noqa: PLR0915 - one step for each status
    checker: ResponseChecker,
) -> None:
    fixture, wait = await waiting_api()
    names = {"wait_id": wait.id, "run_id": wait.run_id}
    link, deny = fixture.links.link(wait), fixture.links.link(wait, allowed=["deny"])
    again = {**START, "run_id": wait.run_id}
    assert 200 == await checker.request(fixture, "post", "/runs", again)
    other = {**again, "input": "pay Lee"}
    assert 409 == await checker.request(fixture, "post", "/runs", other)
    stored = {"run_id": "stored", "input": "pay Jane", "work": False}
    assert 202 == await checker.request(fixture, "post", "/runs", stored)
    assert 400 == await checker.request(fixture, "post", "/runs", {"input": "pay"})
    described = {**stored, "labels": {"team": "finance"}, "title": "Pay Jane"}
    described |= {"run_id": "described", "settings": {"seed": 7}}
    assert 202 == await checker.request(fixture, "post", "/runs", described)
    decision, show = "/waits/{wait_id}/decision", "/waits/{wait_id}"
    for path in ("/healthz", "/openapi.json", "/waits", show, "/runs/{run_id}"):
        assert 200 == await checker.request(fixture, "get", path, names=names)
    assert 200 == await checker.open_link(fixture, link)
    assert 400 == await checker.submit_form(fixture, link, "decision=yes")
    assert 403 == await checker.submit_form(fixture, deny, "decision=approve")
    assert 415 == await checker.submit_form(fixture, link, "", kind="text/plain")
    edited = {**APPROVE, "arguments": {"cents": "x"}}
    assert 422 == await checker.request(fixture, "post", decision, edited, names=names)
    limit = {"properties": {"cents": {"type": "integer", "maximum": 10}}}
    grant = {"tool": "pay", "arguments": limit}
    edited = {**APPROVE, "arguments": {"cents": 7, "note": "n"}}
    remembered = {**edited, "remember": grant}
    assert 200 == await checker.request(
        fixture, "post", decision, remembered, names=names
    )
    await list_and_revoke_grants(checker, fixture, names)
    await decide_several(checker, fixture, names)
    assert 409 == await checker.request(fixture, "post", decision, APPROVE, names=names)
    assert 409 == await checker.request(fixture, "get", show, names=names)
    assert 409 == await checker.submit_form(fixture, link, "decision=approve")
    assert 200 == await checker.request(fixture, "get", "/runs/{run_id}", names=names)
    audit = "/runs/{run_id}/audit"
    assert 200 == await checker.request(fixture, "get", audit, names=names)
    events = "/runs/{run_id}/events"
    assert 200 == await checker.request(fixture, "get", events, names=names)
    text = {"after": "x"}
    assert 400 == await checker.request(fixture, "get", events, names=J, query=text)
    sent = {**SIGNAL, "run_id": names["run_id"], "data": {"cents": 5}, "id": "s-1"}
    assert 200 == await checker.request(fixture, "post", "/signals", sent)
    assert 404 == await checker.request(fixture, "post", "/signals", SIGNAL)
    await send_messages(checker, fixture, names)
    await publish_events(checker, fixture)
    assert 200 == await checker.request(fixture, "get", SIGNALS, names=names)
    for act in ("signals/drop", "pause", "unpause", "wake"):
        path = f"/runs/{{run_id}}/{act}"
        assert 200 == await checker.request(fixture, "post", path, {}, names=names)
    assert 415 == await checker.resume_with_form(fixture)
    assert 200 == await checker.request(fixture, "post", "/sweep")
    assert 200 == await checker.request(
        fixture, "post", "/runs/{run_id}/resume", names=names
    )
    fixture.api = HttpApi(
        fixture.runner, verify=verify_bearer, dispatcher=RecordingDispatcher()
    )
    assert 202 == await checker.request(
        fixture, "post", "/runs/{run_id}/resume", names=names
    )


async def decide_several(
    checker: ResponseChecker, fixture: ApiFixture, names: Mapping[str, str]
) -> None:
    batch = {"decisions": [{"wait_id": names["wait_id"], **APPROVE}]}
    assert 200 == await checker.request(fixture, "post", "/decisions", batch)
    empty: dict[str, object] = {"decisions": []}
    assert 400 == await checker.request(fixture, "post", "/decisions", empty)


async def list_and_revoke_grants(
    checker: ResponseChecker, fixture: ApiFixture, names: Mapping[str, str]
) -> None:
    grants, revoke = "/runs/{run_id}/grants", "/runs/{run_id}/grants/{grant}/revoke"
    assert 200 == await checker.request(fixture, "get", grants, names=names)
    [given] = await fixture.runner.grants(names["run_id"])
    of_run = {**names, "grant": given.id}
    assert 400 == await checker.request(fixture, "post", revoke, {}, names=names)
    assert 200 == await checker.request(fixture, "post", revoke, {}, names=of_run)
    assert 200 == await checker.request(fixture, "get", grants, names=names)


async def with_a_cancelled_run(checker: ResponseChecker) -> None:
    fixture = ApiFixture()
    wait, other = (
        await fixture.start_waiting_run(),
        await fixture.start_waiting_run("other"),
    )
    names = {"wait_id": wait.id, "run_id": wait.run_id}
    assert 200 == await checker.submit_form(
        fixture, fixture.links.link(other), "decision=approve"
    )
    assert 200 == await checker.request(
        fixture, "post", "/runs/{run_id}/cancel", {}, names=names
    )
    assert 200 == await checker.request(fixture, "get", "/runs/{run_id}", names=names)
    assert 410 == await checker.request(fixture, "get", "/waits/{wait_id}", names=names)
    assert 410 == await checker.request(
        fixture, "post", "/waits/{wait_id}/decision", APPROVE, names=names
    )
    assert 410 == await checker.submit_form(
        fixture, fixture.links.link(wait), "decision=approve"
    )


async def with_a_thread(checker: ResponseChecker) -> None:
    fixture = ApiFixture()
    thread, message = "/threads/{agent}/{key}", "/threads/{agent}/{key}/messages"
    number = f"{message}/{{number}}"
    for method, path in (("get", thread), ("get", number)):
        assert 404 == await checker.request(fixture, method, path)
        assert 400 == await checker.request(
            fixture, method, path, names={"agent": "nobody"}
        )
    for name in ("stop", "close"):
        path = f"{thread}/{name}"
        assert 404 == await checker.request(fixture, "post", path, {})
    assert 400 == await checker.request(fixture, "post", message, {"text": ""})
    held = {"text": "pay Jane", "id": "m-1"}
    assert 202 == await checker.request(fixture, "post", message, held)
    assert 202 == await checker.request(fixture, "get", number)
    assert 200 == await checker.request(fixture, "get", thread)
    assert 200 == await checker.request(fixture, "post", f"{thread}/stop", {})
    assert 200 == await checker.request(fixture, "post", message, held)
    assert 200 == await checker.request(fixture, "get", number)
    assert 200 == await checker.request(fixture, "post", f"{thread}/close", {})
    closed = await fixture.runner.thread("boss", key="k").look()
    assert closed is not None
    assert [200, 204] == await checker.stream(fixture, closed.run_id)
    events, query = f"{thread}/events", {"wait": "x"}
    assert 200 == await checker.request(fixture, "get", events)
    assert 400 == await checker.request(fixture, "get", events, query=query)
    names = {"key": "unknown"}
    assert 404 == await checker.request(fixture, "get", events, names=names)
    errors = (RunErased("x"), ModelError("x"), AgentChanged("x"), ThreadClosed("x"))
    for error in errors:
        fixture.api = HttpApi(_RaisingRunner(error), verify=verify_bearer)
        if not isinstance(error, (ModelError, AgentChanged)):
            await checker.request(fixture, "get", thread)
            await checker.request(fixture, "get", number)
            await checker.request(fixture, "get", events)
            await checker.request(fixture, "post", f"{thread}/stop", {})
        await checker.request(fixture, "post", message, held)
        await checker.request(fixture, "post", f"{thread}/close", {})


async def with_a_job(checker: ResponseChecker) -> None:
    scanner = Scanner(within=60, answer_type=dict[str, int])
    await scanner.start()
    [url] = scanner.urls
    assert 415 == await checker.report(scanner.api, url, PAGES, "text/plain")
    assert 400 == await checker.report(scanner.api, url, {})
    assert 422 == await checker.report(scanner.api, url, {"value": 7})
    assert 200 == await checker.beat(scanner, {"extend": 60})
    assert 415 == await checker.beat(scanner, {"extend": 60}, "text/plain")
    assert 400 == await checker.beat(scanner, {"extend": "60"})
    assert 200 == await checker.report(scanner.api, url, PAGES)
    assert 409 == await checker.beat(scanner, {"extend": 60})
    assert 409 == await checker.report(scanner.api, url, {"error": "broken"})
    late = Scanner(within=60)
    await late.start()
    late.clock.seconds += 61
    assert 410 == await checker.report(late.api, late.urls[0], PAGES)
    assert 410 == await checker.beat(late, {"extend": 60})


async def with_a_webhook(checker: ResponseChecker) -> None:
    path = "/webhooks/{name}"
    sender = Sender()
    [wait] = (await sender.scanner.start()).waits
    lost = wait.id.replace("@r1", "@r2")
    for expected, message in (
        (200, {"type": "scan.began"}),
        (422, {"type": "approve", "wait": wait.id}),
        (404, {"type": "approve", "wait": lost}),
        (500, {"type": "broken"}),
    ):
        response = await sender.send(message)
        assert expected == checker.check("post", path, response)
    refused = await sender.send({}, body=b"{}x")
    assert 401 == checker.check("post", path, refused)
    no_json = await sender.send({}, body=b"{", is_signed_as_sent=True)
    assert 400 == checker.check("post", path, no_json)
    down = Sender(runner=AsyncRunner([], store=UnavailableStore()))
    response = await down.send({"type": "approve", "wait": wait.id})
    assert 503 == checker.check("post", path, response)


async def plan_rewind(
    checker: ResponseChecker, fixture: ApiFixture, names: dict[str, str]
) -> None:
    path, api = "/runs/{run_id}/rewind", fixture.api

    async def read(run: Mapping[str, str], version: str = "1") -> int:
        query = {"version": version}
        return await checker.request(fixture, "get", path, names=run, query=query)

    assert 200 == await read(names)
    assert 400 == await read(names, "x")
    fixture.api = HttpApi(_RaisingRunner(RunErased("erased")), verify=verify_bearer)
    assert 410 == await read(names)
    down = AsyncRunner([], store=UnavailableStore())
    fixture.api = HttpApi(down, verify=verify_bearer)
    assert 503 == await read(names)
    fixture.api = api


async def rewind_run(
    checker: ResponseChecker, fixture: ApiFixture, names: dict[str, str]
) -> None:
    path, body = "/runs/{run_id}/rewind", {"version": 1}
    assert 200 == await checker.request(fixture, "post", path, body, names=names)
    for wrong in ({}, {"version": "1"}, {"version": 1, "x": 1}):
        assert 400 == await checker.request(fixture, "post", path, wrong, names=names)
    api = fixture.api
    busy = RunBusy("busy", run_id="j", until=datetime.now(UTC))
    fixture.api = HttpApi(_RaisingRunner(busy), verify=verify_bearer)
    assert 409 == await checker.request(fixture, "post", path, body, names=names)
    fixture.api = HttpApi(_RaisingRunner(RunErased("erased")), verify=verify_bearer)
    assert 410 == await checker.request(fixture, "post", path, body, names=names)
    fixture.api = api


async def fork_runs(
    checker: ResponseChecker, fixture: ApiFixture, wait: Wait, names: dict[str, str]
) -> None:
    path = "/runs/{run_id}/fork"
    decided = {"run_id": "fork", "decisions": [{"wait_id": wait.id, **APPROVE}]}
    assert 200 == await checker.request(fixture, "post", path, decided, names=names)
    other: dict[str, object] = {"run_id": "fork", "messages": {}}
    assert 409 == await checker.request(fixture, "post", path, other, names=names)
    edited = {"decisions": [{"wait_id": wait.id, **APPROVE, "arguments": {"x": 1}}]}
    assert 422 == await checker.request(fixture, "post", path, edited, names=names)
    for wrong in ({"version": "1"}, {"results": {"c99": 1}}):
        assert 400 == await checker.request(fixture, "post", path, wrong, names=names)


async def with_a_past(checker: ResponseChecker) -> None:
    fixture, wait = await waiting_api()
    names = {"run_id": wait.run_id, "number": "1"}
    base, two = "/runs/{run_id}", {"from": "1", "to": "2"}
    paths = (f"{base}/versions", f"{base}/versions/{{number}}", f"{base}/diff")
    for path in paths:
        found = await checker.request(fixture, "get", path, names=names, query=two)
        assert (400 if path == paths[0] else 200) == found
    assert 200 == await checker.request(fixture, "get", paths[0], names=names)
    assert 400 == await checker.request(fixture, "get", paths[2], names=names)
    await fork_runs(checker, fixture, wait, names)
    await plan_rewind(checker, fixture, names)
    await rewind_run(checker, fixture, names)
    down = AsyncRunner([], store=UnavailableStore())
    fixture.api = HttpApi(down, verify=verify_bearer)
    assert 503 == await checker.request(
        fixture, "get", paths[2], names=names, query=two
    )
    fixture.api = HttpApi(_RaisingRunner(RunErased("erased")), verify=verify_bearer)
    fork = f"{base}/fork"
    assert 410 == await checker.request(fixture, "post", fork, {}, names=names)
    for path in paths:
        query = two if path == paths[2] else {}
        assert 410 == await checker.request(
            fixture, "get", path, names=names, query=query
        )


async def with_an_attachment(checker: ResponseChecker) -> None:
    fixture, path = ApiFixture(), "/runs/{run_id}/files/{digest}"
    photo = Image(b"\x89PNG", "image/png")
    await fixture.runner.start(["pay Jane", photo], run_id="jane-1", work=False)
    names = {"run_id": "jane-1", "digest": photo.digest}
    assert 200 == await checker.request(fixture, "get", path, names=names)
    other = {"run_id": "jane-1"}
    assert 404 == await checker.request(fixture, "get", path, names=other)
    await fixture.runner.cancel("jane-1")
    await fixture.runner.erase("jane-1")
    assert 410 == await checker.request(fixture, "get", path, names=names)


async def with_single_rights(checker: ResponseChecker) -> None:
    for each in ROWS:
        example = EXAMPLES.get((each.method, each.path))
        if example is not None and example.status == RECORDED and each.right:
            scene = Scene(each.right)
            await scene.open()
            response = await scene.request(each.method, each.path)
            method = each.method.lower()
            assert RECORDED == checker.check(method, each.path, response)


SCENARIOS = (
    with_single_rights,
    without_an_identity,
    without_rights,
    with_large_bodies,
    with_a_broken_runner,
    with_an_unavailable_store,
    with_a_full_inbox,
    with_a_run_that_cannot_continue,
    with_wrong_bodies_and_unknown_runs,
    with_invalid_ids,
    with_an_erased_run,
    from_start_to_end,
    with_a_cancelled_run,
    with_a_thread,
    with_a_job,
    with_a_webhook,
    with_a_past,
    with_an_attachment,
)


def test_every_documented_status_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    checker = ResponseChecker()

    for scenario in SCENARIOS:
        asyncio.run(scenario(checker))

    documented = {
        (method, path, status)
        for method, path in OPERATIONS
        for status in DOCUMENT["paths"][path][method]["responses"]
    }
    assert set() == documented - checker.seen
