"""Format 1: every row comes back equal, and nothing else is accepted."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias, cast

import pytest
from hypothesis import given, settings

from continuations.core.rows.delta import Delta
from continuations.errors import FormatError
from continuations.wire.envelope import decode_object, encode_object
from continuations.wire.rows import delta_fields, read_delta
from tests.core.rows import STATES
from tests.sampling import examples
from tests.wire.strategies import DELTA, FULL_DELTA, MINIMAL_DELTA, NOT_OBJECTS

FieldPath: TypeAlias = tuple[str, ...]

WHERE = "the continuation"


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(DELTA)
def test_any_delta_comes_back_equal(delta: Delta) -> None:
    """Every field of every row survives encoding and decoding."""
    opened = decode_object(encode_object({}, delta_fields(delta)), WHERE)

    assert delta == read_delta(opened.body, WHERE)


@pytest.mark.parametrize("state", STATES, ids=lambda state: type(state).__name__)
@pytest.mark.parametrize("full", [False, True], ids=["minimal", "full"])
def test_every_state_comes_back(state: Any, *, full: bool) -> None:
    row = FULL_DELTA.calls[0] if full else MINIMAL_DELTA.calls[0]
    delta = replace(MINIMAL_DELTA, calls=(replace(row, state=state),))

    assert delta == read_delta(delta_fields(delta), WHERE)


def test_constant_run_fields_are_stored_in_full_copies_only() -> None:
    """A delta takes the constant fields from the row of its base."""
    stored: Any = delta_fields(FULL_DELTA, full_copy=False)
    constant = {"id", "birth", "agent", "created", "input", "budget"}

    assert constant == delta_fields(FULL_DELTA)["run"].keys() - stored["run"].keys()  # type: ignore[attr-defined]
    assert read_delta(stored, WHERE, FULL_DELTA.run) == FULL_DELTA
    with pytest.raises(FormatError, match="'id' is missing"):
        read_delta(stored, WHERE)
    with pytest.raises(FormatError, match="unknown fields"):
        read_delta(delta_fields(FULL_DELTA), WHERE, FULL_DELTA.run)


def test_equal_raw_and_effective_arguments_are_stored_once() -> None:
    row = replace(
        FULL_DELTA.calls[0], raw_arguments='{"cents":5}', arguments='{"cents":5}'
    )

    stored: Any = delta_fields(replace(MINIMAL_DELTA, calls=(row,)))

    assert "written" not in stored["calls"][0]
    assert (row,) == read_delta(stored, WHERE).calls


# The definition of format 1 ----------------------------------------------------


def test_stored_field_names_of_format_1() -> None:
    """A change of these names needs a new format number."""
    stored: Any = delta_fields(FULL_DELTA)
    paths = sorted({".".join(p for p in path if p != "0") for path, _ in walk(stored)})

    assert EXPECTED.split() == paths


EXPECTED = """
calls calls.approved calls.approved_until calls.arguments calls.attempts calls.frame
calls.id calls.meaning calls.original calls.provider_id calls.repeatable calls.state
calls.state.checked calls.state.kind calls.state.wait calls.tool calls.verifiable
calls.written frames frames.agent frames.call frames.depth frames.id frames.max_turns
frames.open frames.turns gone logs logs.f1 logs.f1.add logs.f1.id logs.f1.keep
manifest run run.agent run.birth run.budget run.budget.requests run.budget.tokens
run.claim run.claim.attempt run.claim.until run.claim.worker run.created run.doubtful
run.failure run.failure.code run.failure.message run.id run.inbox run.input run.next
run.output run.status run.usage run.usage.cached_tokens run.usage.input_tokens
run.usage.output_tokens run.usage.reasoning_tokens run.usage.requests waits
waits.arguments waits.call waits.created waits.deadline waits.denial_stops
waits.digest waits.expiry_stops waits.id waits.kind waits.note waits.path waits.policy
waits.run waits.schema waits.tool waits.valid_for
"""


# Everything else is rejected ---------------------------------------------------


def walk(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the path and the value of every named field."""
    for step, inner in children(value):
        if isinstance(value, dict):
            yield (*path, step), inner
        yield from walk(inner, (*path, step))


def children(value: Any) -> list[tuple[str, Any]]:
    """Return the direct children of a value, with their names or indexes."""
    match value:
        case dict():
            return list(cast("dict[str, Any]", value).items())
        case list():
            items = cast("list[Any]", value)  # type: ignore[redundant-cast]
            return [(str(index), inner) for index, inner in enumerate(items)]
        case _:
            return []


def mapping_at(value: Any, path: FieldPath) -> Any:
    """Return the mapping that contains the last name of a path."""
    for step in path[:-1]:
        value = value[int(step) if step.isdecimal() else step]
    return value


STORED: Any = delta_fields(FULL_DELTA)
PATHS = [path for path, _ in walk(STORED)]
MAPPINGS = [path for path, value in walk(STORED) if isinstance(value, dict)]
REQUIRED = {
    *("id", "frame", "tool", "provider_id", "state", "kind", "wait", "agent", "birth"),
    *("created", "input", "status", "next", "run", "call", "arguments", "schema"),
    *("digest", "code", "message", "worker", "until"),
}
OPTIONAL_PATHS = {("frames", "0", "call"), ("calls", "0", "arguments")}


def path_id(path: FieldPath) -> str:
    return ".".join(path)


def values_of_other_types(value: object) -> list[object]:
    """Return values of all other types, and for numbers also a negative one."""
    values: list[object] = [
        None,
        True,
        7,
        1.5,
        "text",
        b"bytes",
        ["x"],
        {"x": 1},
        [None],
    ]
    wrong = [other for other in values if type(other) is not type(value)]
    if type(value) is int:
        wrong.append(-1)
    return wrong


@pytest.mark.parametrize("path", PATHS, ids=path_id)
def test_field_of_another_type_is_rejected(path: FieldPath) -> None:
    """A bool is not a number. The error names the field and not the value."""
    for wrong in values_of_other_types(mapping_at(STORED, path)[path[-1]]):
        stored = copy.deepcopy(STORED)
        mapping_at(stored, path)[path[-1]] = wrong
        with pytest.raises(FormatError) as caught:
            read_delta(stored, WHERE)
        assert path[-1] in str(caught.value)
        assert WHERE in str(caught.value)


@pytest.mark.parametrize("path", PATHS, ids=path_id)
def test_missing_field_is_rejected_if_required(path: FieldPath) -> None:
    stored = copy.deepcopy(STORED)
    del mapping_at(stored, path)[path[-1]]
    required = path[-1] in REQUIRED and path not in OPTIONAL_PATHS

    if required:
        with pytest.raises(FormatError, match="missing"):
            read_delta(stored, WHERE)
    else:
        read_delta(stored, WHERE)


@pytest.mark.parametrize("path", [(), *MAPPINGS], ids=path_id)
def test_unknown_field_is_rejected_at_every_level(path: FieldPath) -> None:
    stored = copy.deepcopy(STORED)
    place = mapping_at(stored, (*path, ""))
    place["zz_new"] = 1

    with pytest.raises(FormatError, match="zz_new"):
        read_delta(stored, WHERE)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("run", "status"), "sleeping"),
        (("calls", "0", "state", "kind"), "approved"),
        (("calls", "0", "state", "kind"), "Started"),
        (("waits", "0", "kind"), "dream"),
    ],
)
def test_unknown_enum_value_is_rejected(path: FieldPath, value: str) -> None:
    """An unknown value is never replaced by a similar one."""
    stored = copy.deepcopy(STORED)
    mapping_at(stored, path)[path[-1]] = value

    with pytest.raises(FormatError, match="must be one of"):
        read_delta(stored, WHERE)


@pytest.mark.parametrize(
    "path",
    [
        ("calls", "0", "arguments"),
        ("calls", "0", "original"),
        ("waits", "0", "arguments"),
        ("waits", "0", "schema"),
    ],
    ids=path_id,
)
@pytest.mark.parametrize("text", NOT_OBJECTS)
def test_text_that_is_not_json_is_rejected_on_load(path: FieldPath, text: str) -> None:
    """The text is checked on load, before it is used."""
    stored = copy.deepcopy(STORED)
    mapping_at(stored, path)[path[-1]] = text

    with pytest.raises(FormatError, match=f"{path[-1]}.*JSON"):
        read_delta(stored, WHERE)


@pytest.mark.parametrize("state", STATES, ids=lambda state: type(state).__name__)
def test_each_call_state_accepts_only_its_own_fields(state: Any) -> None:
    delta = replace(
        MINIMAL_DELTA, calls=(replace(MINIMAL_DELTA.calls[0], state=state),)
    )
    stored: Any = delta_fields(delta)
    fields = stored["calls"][0]["state"]
    for extra in {"wait", "frame", "content", "code", "checked"} - set(fields):
        if extra == "checked" and fields["kind"] == "unknown":
            continue
        fields[extra] = "x"
        with pytest.raises(FormatError, match=extra):
            read_delta(stored, WHERE)
        del fields[extra]
    for name in set(fields) - {"kind"}:
        kept = fields.pop(name)
        with pytest.raises(FormatError, match=f"'{name}' is missing"):
            read_delta(stored, WHERE)
        fields[name] = kept


@pytest.mark.parametrize(
    "text",
    ["", "hi", "[]", '{"role": "robot"}', '{"role": "tool"}', '{"role": ["user"]}'],
)
def test_invalid_message_is_rejected_with_its_path(text: str) -> None:
    """A message is read when it is first needed."""
    stored = copy.deepcopy(STORED)
    stored["logs"]["f1"]["add"] = [text]
    (message,) = read_delta(stored, WHERE).logs["f1"].added

    for read in (message.read, lambda: message.role, lambda: message.content):
        with pytest.raises(FormatError, match=r"logs\.f1\.add is invalid"):
            read()


def test_message_with_100_000_levels_is_rejected() -> None:
    stored = copy.deepcopy(STORED)
    deep = "[" * 100_000 + "]" * 100_000
    stored["logs"]["f1"]["add"] = ['{"role":"user","content":' + deep + "}"]

    (message,) = read_delta(stored, WHERE).logs["f1"].added
    with pytest.raises(FormatError, match="logs"):
        message.read()


def test_delta_without_run_is_rejected() -> None:
    with pytest.raises(FormatError, match="'run' is missing"):
        read_delta({}, WHERE)


def test_stored_fields_are_plain_values() -> None:
    """No stored value needs a constructor to be read."""
    for _, value in walk(delta_fields(FULL_DELTA)):
        assert isinstance(value, str | int | bool | list | dict)
