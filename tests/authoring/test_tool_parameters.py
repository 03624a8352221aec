"""A tool with plain parameters has pydantic's schema and values, without pydantic."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.authoring.arguments.arguments import read_tool_signature
from continuations.authoring.context import ToolContext
from continuations.authoring.errors import ArgumentsInvalid
from continuations.authoring.tool.tool_parameters import (
    PlainSignature,
    read_plain_signature,
)
from continuations.core import jsontext

NAMES = ["a", "b", "model_x", "copy", "_y", "z"]
TEXT = st.text(st.characters(max_codepoint=0x2FF, codec="utf-8"), max_size=4)
NO_DEFAULT = inspect.Parameter.empty
ANY_VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
    st.sampled_from(["\ud800", "5", "true", ""]),
    st.lists(st.integers(), max_size=2),
)
ANNOTATIONS: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(),
    bool: st.booleans(),
    str | None: st.none() | TEXT,
    int | None: st.none() | st.integers(),
    bool | None: st.none() | st.booleans(),
}


def function_with(parameters: list[inspect.Parameter]) -> Any:
    """Return a function with some parameters."""

    def run(**arguments: object) -> None:
        del arguments

    signature = inspect.Signature(parameters)
    run.__signature__ = signature  # type: ignore[attr-defined] # pyright: ignore[reportFunctionMemberAccess]
    return run


@st.composite
def functions(draw: st.DrawFn) -> Any:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    parameters: list[inspect.Parameter] = []
    for name in names:
        annotation = draw(st.sampled_from(list(ANNOTATIONS)))
        default = draw(st.just(NO_DEFAULT) | ANNOTATIONS[annotation])
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=default,
            )
        )
    return function_with(parameters)


def plain(function: Any, **descriptions: str) -> PlainSignature | None:
    return read_plain_signature(function, descriptions=descriptions, scope=None)


def full(function: Any, **descriptions: str) -> Any:
    return read_tool_signature(
        function, name="f", descriptions=descriptions, scope=None
    )


@settings(deadline=None)
@given(function=functions(), described=st.booleans())
def test_schema_is_the_schema_of_pydantic(function: Any, *, described: bool) -> None:
    """The text is the same too: it goes to the provider, and digests cover it."""
    descriptions = {"a": "The a."} if described else {}

    signature = plain(function, **descriptions)

    if signature is not None:
        expected = full(function, **descriptions).schema
        assert json.dumps(expected) == json.dumps(signature.schema)


@settings(deadline=None)
@given(functions(), st.data())
def test_values_are_the_values_of_pydantic(function: Any, data: st.DataObject) -> None:
    signature = plain(function)
    if signature is None:
        return
    arguments = {name: data.draw(ANY_VALUE) for name in signature.types_by_name}
    text = json.dumps(arguments)
    if data.draw(st.booleans()):
        text = jsontext.canonical(arguments)

    values = signature.values_by_name(text)

    try:
        expected = full(function).validator.values_by_name(text)
    except ArgumentsInvalid:
        assert values is None
        return
    if values is not None:
        assert (expected, repr(expected)) == (values, repr(values))


def test_every_plain_annotation_is_read_without_pydantic() -> None:
    for annotation in ANNOTATIONS:
        parameter = inspect.Parameter(
            "a", inspect.Parameter.KEYWORD_ONLY, annotation=annotation
        )
        assert plain(function_with([parameter])) is not None


def with_context(number: int, ctx: ToolContext) -> None:
    del number, ctx


def test_context_is_no_argument() -> None:
    signature = plain(with_context)

    assert signature is not None
    assert ("ctx",) == signature.context_parameters
    assert {"number": 5} == signature.values_by_name('{"number":5}')


@pytest.mark.parametrize(
    "annotation",
    [
        float,
        list[str],
        Literal["a"],
        Annotated[int, "cents"],
        dict[str, int],
        int | str,
        None,
        "Missing",
        Any,
    ],
)
def test_every_other_annotation_is_left_to_pydantic(annotation: Any) -> None:
    parameter = inspect.Parameter(
        "a", inspect.Parameter.KEYWORD_ONLY, annotation=annotation
    )

    assert plain(function_with([parameter])) is None


@pytest.mark.parametrize(
    ("annotation", "default"),
    [(str, None), (int, True), (int, 2**63), (bool, 1), (str, "\ud800")],
)
def test_default_of_another_type_is_left_to_pydantic(
    annotation: Any, default: object
) -> None:
    parameter = inspect.Parameter(
        "a", inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )

    assert plain(function_with([parameter])) is None


def test_approved_call_of_a_plain_tool_runs_without_pydantic() -> None:
    """A cold process that resumes spends a third of its time less."""
    code = """
import sys
from continuations import Agent, Approve, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall

@tool(approval=True)
def pay(to: str, cents: int) -> str:
    "Pay."
    print(sorted({"pydantic", "pydantic_core", "openai"} & set(sys.modules)))
    return "paid"

if __name__ == "__main__":
    script = ScriptedModel([ToolCall("pay", {"to": "jane", "cents": 5}), "done"])
    runner = Runner(Agent("clerk", tools=[pay], model=script), store=sys.argv[1])
    if sys.argv[2] == "start":
        wait = runner.start("Pay Jane.", run_id="jane-1").waits[0]
        runner.decide(wait.id, Approve())
    else:
        print(runner.resume("jane-1").output)
"""

    def run(store: str, step: str) -> str:
        command = [sys.executable, "-c", code, store, step]
        return subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout

    with TemporaryDirectory() as folder:
        run(f"file:{folder}", "start")
        assert "[]\ndone\n" == run(f"file:{folder}", "resume")
