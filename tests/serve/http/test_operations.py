"""The table of operations: its names exist; its schemas check bodies and queries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

import pytest

from continuations import Agent, AsyncRunner, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.present import schemas
from continuations.serve.http import (
    callbacks,
    reading_handlers,
    run_handlers,
    thread_handlers,
)
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.request_fields import QUERY_PARAMETERS
from continuations.serve.http.routes import handler_of
from continuations.serve.operation_calls import FORMS
from continuations.serve.operations import OPERATIONS, Operation
from tests.serve.http.api_fixture import (
    ApiFixture,
    json_body,
    problem_slug,
    verify_bearer,
)

CALLS = [each for each in OPERATIONS if each.call]


@tool
def look_up(what: str) -> str:
    """Look up."""
    return what


def test_ids_and_routes_are_unique() -> None:
    assert len({each.id for each in OPERATIONS}) == len(OPERATIONS)
    assert len({(each.method, each.path) for each in OPERATIONS}) == len(OPERATIONS)


def test_names_of_each_row_exist() -> None:
    forms = schemas.definitions().keys()

    missing = [
        f"{each.id}: {name}"
        for each in OPERATIONS
        for name in _names_that_are_missing(each, forms)
    ]

    assert [] == missing


def _names_that_are_missing(
    operation: Operation, forms: AbstractSet[str]
) -> Iterator[str]:
    assert callable(handler_of(operation)), operation.id
    body = operation.body if operation.id != "decideByLink" else ""
    names = {operation.form, body, *(operation.accepted or ("",))[:1]} - {"", None}
    yield from names - forms
    yield from set(operation.query) - QUERY_PARAMETERS.keys()
    if operation.call:
        assert callable(getattr(AsyncRunner, operation.call)), operation.id


def test_no_function_is_left_over() -> None:
    modules = (callbacks, reading_handlers, run_handlers, thread_handlers)
    functions = [name for each in modules for name in each.HANDLERS]
    assert len(set(functions)) == len(functions)
    assert set(functions) <= {each.id for each in OPERATIONS if not each.call}
    assert {each.form for each in CALLS} >= FORMS.keys()


async def test_run_with_a_budget_ends_when_it_is_used_up() -> None:
    model = ScriptedModel([ToolCall("look_up", {"what": "x"}), "never reached"])
    runner = AsyncRunner(Agent("boss", tools=[look_up], model=model), store="memory:")
    api = HttpApi(runner, verify=verify_bearer)
    headers = {"content-type": "application/json", "authorization": "Bearer kim"}
    body = {"run_id": "r1", "input": "go", "budget": {"requests": 1}}
    request = Request(
        method="POST", path="/runs", headers=headers, body=json.dumps(body).encode()
    )

    response = await api.handle(request)

    assert 200 == response.status, response.body
    assert "budget" == json_body(response)["failure"]["code"]


START = {"run_id": "r1", "input": "go"}


@pytest.mark.parametrize(
    ("path", "body", "detail"),
    [
        ("/runs", {**START, "budget": 10}, '"budget" must be an object.'),
        (
            "/runs",
            {**START, "budget": {"token": 10}},
            '"budget" has unknown fields. Allowed: cost, currency, requests, tokens.',
        ),
        (
            "/runs",
            {**START, "budget": {"tokens": "10"}},
            '"tokens" must be an integer.',
        ),
        ("/runs", {**START, "budget": {"tokens": 0}}, "integers above 0"),
        ("/runs", {**START, "work": 1}, '"work" must be true or false.'),
        ("/runs", {**START, "input": ""}, '"input" must not be empty.'),
        ("/runs", {}, 'The body needs "run_id" and "input".'),
        ("/runs", {"run_id": "r1"}, 'The body needs "input".'),
        (
            "/decisions",
            {"decisions": [{"wait_id": "w", "decision": "answer"}]},
            'decisions[0] is not valid: A decision "answer" needs "value".',
        ),
        ("/runs/jane-1/pause", {"reason": 1}, '"reason" must be a string.'),
        ("/runs/jane-1/pause", {"reason": "x" * 10_001}, '"reason" has 10001'),
        (
            "/runs/jane-1/cancel",
            {"by": "lee"},
            "The body has unknown fields. Allowed: call, reason.",
        ),
        ("/runs/jane-1/rewind", {"version": True}, '"version" must be an integer.'),
        (
            "/threads/boss/k/messages",
            {"text": "a", "when_busy": []},
            '"when_busy" must',
        ),
    ],
)
async def test_wrong_body_is_refused_with_the_name_of_its_field(
    path: str, body: Any, detail: str
) -> None:
    fixture = ApiFixture()
    await fixture.start_waiting_run()
    before = await fixture.keys()

    response = await fixture.request("POST", path, body)

    assert 400 == response.status
    assert detail in json_body(response)["detail"]
    assert before == await fixture.keys()


@pytest.mark.parametrize(
    ("path", "query", "detail"),
    [
        ("/runs", {"limit": "0"}, '"limit" must be a number from 1 to 1000.'),
        ("/runs", {"offset": "1"}, "The query may have limit, agent, status, label"),
        ("/waits", {"order": "at"}, '"order" must be "id" or "due".'),
        ("/runs/jane-1/diff", {"from": "1"}, '"to" must be a number from 1 to'),
        (
            "/runs/jane-1/events",
            {"wait": "21"},
            '"wait" must be a number from 0 to 20.',
        ),
        ("/threads/boss/k/events", {"words": "yes"}, '"words" must be true or false.'),
    ],
)
async def test_wrong_query_is_refused_with_the_name_of_its_parameter(
    path: str, query: dict[str, str], detail: str
) -> None:
    fixture = ApiFixture()
    await fixture.start_waiting_run()

    response = await fixture.request("GET", path, query=query)

    assert (400, "malformed") == (response.status, problem_slug(response))
    assert detail in json_body(response)["detail"]


async def test_text_as_the_data_of_a_signal_has_only_the_limit_of_the_body() -> None:
    """The schema of `data` has no limit, whether the value is a text or an object."""
    fixture = ApiFixture()
    await fixture.start_waiting_run()
    body = {"run_id": "jane-1", "name": "paid", "data": "x" * 5000}

    response = await fixture.request("POST", "/signals", body)

    assert 200 == response.status
    [kept] = await fixture.runner.signals("jane-1")
    assert body["data"] == kept.data
