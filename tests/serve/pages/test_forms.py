"""Forms from JSON Schemas: each value of the subset comes back as it was."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core import jsontext
from continuations.serve.http.answer_forms import read_fields, value_from_fields
from continuations.serve.http.problems import RequestRefused
from continuations.serve.pages import form_view
from continuations.serve.pages.form_view import FieldView, FormFields
from tests.sampling import examples
from tests.serve.pages.html_forms import PageForms
from tests.serve.pages.wait_html import fields_html

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
CHOICES = st.lists(TEXTS | st.integers(-9, 9), min_size=1, max_size=4, unique_by=repr)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
HUGE = st.integers(-(2**80), 2**80)


def posted(html: str) -> dict[str, str]:
    """Return the fields as the server reads them from the body."""
    body = urlencode(PageForms(f'<form id="f">{html}</form>').forms["f"])
    pairs = parse_qsl(body, keep_blank_values=True, strict_parsing=bool(body))
    return {name: text.replace("\r\n", "\n") for name, text in pairs}


@st.composite
def leaves(draw: st.DrawFn) -> tuple[dict[str, Any], Any]:
    """Draw a schema without parts, and one of its values."""
    kind = draw(st.sampled_from(["string", "integer", "number", "boolean", "date"]))
    values: dict[str, st.SearchStrategy[Any]] = {
        "string": TEXTS,
        "integer": HUGE,
        "number": FINITE | HUGE,
        "boolean": st.booleans(),
        "date": st.dates().map(str),
    }
    shape = {"type": "string", "format": "date"} if kind == "date" else {"type": kind}
    return shape, draw(values[kind])


@st.composite
def listed(draw: st.DrawFn) -> tuple[dict[str, Any], Any]:
    """Draw a schema with choices, and one of its values."""
    choices = draw(CHOICES)
    titled = [{"const": each, "title": f"The {each}"} for each in choices]
    shapes: list[dict[str, Any]] = [{"enum": choices}, {"oneOf": titled}]
    one = draw(st.sampled_from(shapes))
    if draw(st.booleans()):
        choice: Any = draw(st.sampled_from(choices))
        return one, choice
    chosen = draw(st.lists(st.sampled_from(choices), max_size=5))
    return {"type": "array", "items": one}, chosen


@st.composite
def objects(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw an object of the subset, and a value that has some of its parts."""
    names = draw(st.lists(NAMES, max_size=4, unique=True))
    parts = {name: draw(leaves() | listed()) for name in names}
    required = [name for name in names if draw(st.booleans())]
    schema = {
        "type": "object",
        "properties": {name: shape for name, (shape, _) in parts.items()},
        "required": required,
    }
    present = [n for n in names if n in required or draw(st.booleans())]
    return schema, {name: parts[name][1] for name in present}


@settings(deadline=None, max_examples=examples(400))
@given(objects() | leaves() | listed())
def test_form_posts_the_value_that_it_shows(case: tuple[dict[str, Any], Any]) -> None:
    """Texts keep their line ends, and numbers every digit."""
    schema, value = case

    html = fields_html(schema, "Value", value=value, max_chars=0)
    read = value_from_fields(posted(html))

    assert jsontext.canonical(value) == jsontext.canonical(read)
    assert all(char.isprintable() or char == "\n" for char in html)


def filled(view: FieldView, value: Any) -> dict[str, str]:
    """Return the fields that a person posts who fills an empty form."""
    fields = {view.name: ""}
    if view.kind == "object":
        for part in view.parts:
            name = form_view.steps_of("/" + part.name.partition(":/")[2])[-1]
            fields |= filled(part, value.get(name))
    elif view.kind == "checkboxes":
        texts = [jsontext.dump(each) for each in value]
        chosen = [
            o for o in view.options if jsontext.dump(jsontext.parse(o.value)) in texts
        ]
        fields |= {option.name: option.value for option in chosen}
    elif value is not None:
        is_text = view.kind in ("text", "date")
        fields[view.name] = value if is_text else jsontext.dump(value)
    return fields


@settings(deadline=None, max_examples=examples(400))
@given(objects())
def test_filled_form_gives_the_value_that_a_person_chose(
    case: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    """An empty optional text is left out; boxes give the choices in their order."""
    schema, value = case
    for name, part in value.items():
        items = jsontext.as_array(part)
        if items is not None:
            choices = FormFields(schema={}).choices(schema["properties"][name]["items"])
            assert choices is not None
            chosen = {jsontext.dump(each) for each in items}
            value[name] = [c for c, _ in choices if jsontext.dump(c) in chosen]
    [view] = FormFields(schema=schema).fields("Value")

    read = value_from_fields(filled(view, value))

    texts = {n for n, s in schema["properties"].items() if s.get("type") == "string"}
    optional = texts - set(schema["required"])
    expected = {k: v for k, v in value.items() if v != "" or k not in optional}
    assert jsontext.canonical(expected) == jsontext.canonical(read)


def test_missing_checkbox_is_false_and_empty_text_is_not_null() -> None:
    schema = {
        "type": "object",
        "properties": {
            "urgent": {"type": "boolean", "default": True},
            "note": {"type": "string"},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "default": ["b"]},
        },
        "required": ["note"],
    }
    html = fields_html(schema, "Value")
    fields = posted(html)

    assert ["note", "urgent", "tags"] == list(value_from_fields(fields))
    assert {"note": "", "urgent": True, "tags": ["b"]} == value_from_fields(fields)
    unchecked = {n: t for n, t in fields.items() if ":checked:" not in n}
    without = {n: t for n, t in unchecked.items() if ":item:" not in n}
    assert {"note": "", "urgent": False, "tags": []} == value_from_fields(without)


def test_truth_value_without_a_default_is_chosen_by_the_person() -> None:
    """Each value of a decision is the choice of a person."""
    html = fields_html({"type": "boolean"}, "Urgent")

    assert 2 == html.count('type="radio"')
    assert "checkbox" not in html
    assert {} == posted(html)


def test_numbers_stay_texts_until_they_are_parsed() -> None:
    """A browser would round a number beyond 2**53."""
    html = fields_html({"type": "integer"}, "N", value=2**53 + 1)

    assert 'type="number"' not in html
    assert 2**53 + 1 == value_from_fields(posted(html))


def test_errors_stand_at_their_fields() -> None:
    """The text that was refused stays in its field."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    schema |= {"required": ["n"]}
    fields = {"value:object:": "", "value:number:/n": "twelve <b>"}
    read = read_fields(fields)

    html = fields_html(schema, "Value", texts=fields, errors=read.errors)

    assert ["/n"] == list(read.errors)
    assert 'value="twelve &lt;b&gt;"' in html
    assert 'aria-invalid="true" aria-describedby="f-2f6e-about"' in html
    assert "must be a number. Write digits, for example 12." in html
    assert posted(html) == fields


@pytest.mark.parametrize(
    "fields",
    [
        {"value:item:/0": "1"},
        {"value:list:": "", "value:item:": "1"},
        {"value:checked:": "true"},
        {"value:object:": "", "value:checked:/a": "true"},
        {"value:object:": "", "value:flag:/a": "", "value:text:/a": "x"},
        {"value:list:": "", "value:text:/0": "x"},
        {"value:list:": "", "value:item:/0": "{"},
    ],
)
def test_fields_that_no_page_has_are_refused(fields: dict[str, str]) -> None:
    with pytest.raises(RequestRefused):
        value_from_fields(fields)
