"""Typed forms for answers: the fields of a page, and the value that a tool gets."""

from __future__ import annotations

import json
from datetime import date
from enum import Enum
from typing import Any, Literal
from urllib.parse import urlencode

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from continuations import Agent, Answer, AsyncRunner, Finished, ask, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.decision_bodies import decision_from_form
from continuations.serve.http.links import Links
from continuations.serve.http.problems import RequestRefused
from continuations.tools import ToolWait
from tests.serve.http.api_fixture import BASE_URL, SECRET
from tests.serve.http.test_link_pages import ParsedPage
from tests.serve.pages.wait_html import fields_html

FORM_TYPE = {"content-type": "application/x-www-form-urlencoded"}


class Color(Enum):
    """A color."""

    BLUE = "blue"
    RED = "red"


class Address(BaseModel):
    """Where a parcel goes."""

    street: str
    floor: int | None = None


class Laptop(BaseModel):
    """The laptop of a new person."""

    model: str = Field(description="The name in <the> catalog.")
    color: Color
    fast: bool
    on: date
    deliver_to: Address
    tags: list[str] = []
    memory: float = 16


PARTS = {
    "value:object:": "",
    "value:text:/model": "T14",
    "value:json:/color": '"red"',
    "value:json:/fast": "true",
    "value:text:/on": "2026-11-24",
    "value:object:/deliver_to": "",
    "value:text:/deliver_to/street": "Main 1",
    "value:number?:/deliver_to/floor": "",
    "value:number?:/memory": "",
    "value:json?:/tags": "",
}


def form_request(**fields: str) -> Request:
    """Return a posted form."""
    body = urlencode({"shown": "d", **fields}).encode()
    return Request(method="POST", path="/", headers=FORM_TYPE, body=body)


def value_of(parts: dict[str, str]) -> Any:
    """Return the value of the answer that a posted form gives."""
    posted = form_request(decision="answer", **{"as": "fields"}, **parts)
    verdict = decision_from_form(posted, "kim").verdict
    assert isinstance(verdict, Answer)
    return verdict.value


async def test_nested_question_is_answered_field_by_field() -> None:
    """The page has a field for each part; the tool gets the typed value."""
    got: list[Any] = []

    @tool
    def choose(person: str) -> ToolWait[Laptop]:
        """Ask for a laptop."""
        return ask(f"Which laptop does {person} get?", Laptop)

    @choose.on_answer
    def chosen(answer: Laptop) -> str:
        got.append(answer)
        return "ordered"

    model = ScriptedModel([ToolCall("choose", {"person": "Jane"}), "end"])
    runner = AsyncRunner(Agent("boss", tools=[choose], model=model), store="memory:")
    links = Links(SECRET, base_url=BASE_URL)
    api = HttpApi(runner, links=links)
    outcome = await runner.start("go", run_id="r1")
    path = f"/d/{links.token(outcome.continuation.waits[0])}"

    page = await api.handle(Request(method="GET", path=path, headers={}, body=b""))
    [form, _] = ParsedPage(page).forms
    names = [name for name in form if name.startswith("value")]
    # Required parts come first, in the order of the declaration.
    assert list(PARTS) == names
    assert "The name in &lt;the&gt; catalog." in page.body
    body = urlencode({**form, **PARTS}).encode()
    posted = Request(method="POST", path=path, headers=FORM_TYPE, body=body)
    assert 200 == (await api.handle(posted)).status
    assert isinstance(await runner.resume("r1"), Finished)
    address = Address(street="Main 1")
    fields: dict[str, Any] = {"model": "T14", "color": Color.RED, "fast": True}
    assert [Laptop(**fields, on=date(2026, 11, 24), deliver_to=address)] == got


@pytest.mark.parametrize(
    ("answer_type", "name", "text", "value"),
    [
        (int, "value:number:", "12", 12),
        (float, "value:number:", "1e3", 1000.0),
        (bool, "value:json:", "false", False),
        (date, "value:text:", "2026-11-24", "2026-11-24"),
        (Literal["a", "b"], "value:json:", '"a"', "a"),
        (list[int], "value:json:", "[1, 2]", [1, 2]),
        (int | str, "value:json:", '"x"', "x"),
        (Color, "value:json:", '"blue"', "blue"),
    ],
)
def test_each_type_has_a_field(
    answer_type: Any, name: str, text: str, value: Any
) -> None:
    html = fields_html(TypeAdapter(answer_type).json_schema(), "Answer")

    assert f'name="{name}"' in html.replace("&quot;", '"')
    assert value == value_of({name: text})


def test_names_with_slashes_and_recursive_types_keep_their_places() -> None:
    tree: dict[str, Any] = {
        "type": "object",
        "properties": {"a/b~c": {"type": "string"}, "below": {"$ref": "#/$defs/t"}},
        "required": ["a/b~c", "below"],
    }
    schema = {"$ref": "#/$defs/t", "$defs": {"t": tree}}

    html = fields_html(schema, "Answer")

    assert 'name="value:text:/below/a~1b~0c"' in html
    assert html.count("<fieldset>") < 10
    value = value_of({"value:object:": "", "value:text:/a~1b~0c": "x"})
    assert {"a/b~c": "x"} == value


def test_schema_cannot_forge_the_page() -> None:
    hostile = '"><script>alert(1)</script>\u202e'
    part = {"type": "string", "title": hostile, "description": hostile}
    choice = {"enum": [hostile], "title": hostile, "default": hostile}
    properties = {'"><script>': part, "b": choice}
    schema = {"type": "object", "properties": properties}

    html = fields_html(schema, hostile)

    assert "<script" not in html
    assert "\u202e" not in html


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"value:number:": ""},
        {"value:number:": "true"},
        {"value:number:": '"1"'},
        {"value:number:": "NaN"},
        {"value:json:": "{"},
        {"value:secret:": "x"},
        {"value:text:/a": "no object before it"},
        {"value:object:": "", "value:text:/a/b": "no object before it"},
        {"value:text:": "x", "value:text:/a": "no object"},
        {"value:object:": "", "value:text:/a": "x", "value:json:/a": "1"},
        {"value:object:": "", "value:text:/a": "x", "value:text:/a/b": "y"},
        {"value:object:": "", "value:text:a": "x"},
        {"value:text:": "x" * 4001},
        {"value:text:": "x", "arguments": "{}"},
        {"value:text:": "x", "value": "y"},
        {"value:text:": "x", "decision": "approve"},
    ],
)
def test_forms_that_contradict_themselves_are_refused(parts: dict[str, str]) -> None:
    posted = form_request(**{"decision": "answer", "as": "fields", **parts})

    with pytest.raises(RequestRefused):
        decision_from_form(posted, "kim")


def test_typed_fields_need_their_mark() -> None:
    posted = form_request(decision="answer", **{"value:text:": "x"})

    with pytest.raises(RequestRefused):
        decision_from_form(posted, "kim")


def test_json_of_a_page_of_an_earlier_release_is_read() -> None:
    """A page that was open during a deployment still posts JSON."""
    value = {"model": "T14"}
    posted = form_request(decision="answer", value=json.dumps(value), **{"as": "json"})

    assert Answer(value, by="kim") == decision_from_form(posted, "kim").verdict
