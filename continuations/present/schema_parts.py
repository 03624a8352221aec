"""The parts of the JSON Schemas, and the schema that follows from a class.

`value_schema` reads the fields of a class, their types, and their words in its
docstring, in the way in which `wire.report.to_json` writes the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from continuations.authoring.manifest import ChangeKind, ManifestChange
from continuations.core.call_display import CallDisplay
from continuations.core.call_ends import CallEnd
from continuations.core.calls import STATE_TYPES
from continuations.core.decisions import Decision, DecisionKind, VerdictKind
from continuations.core.evidence import Finding
from continuations.core.live_events import CallProgress
from continuations.core.quorum import Quorum, Vote
from continuations.core.run import ENDED_STATUSES, Failure, RunStatus
from continuations.core.run_past import (
    BegunCall,
    CallDifference,
    Change,
    FrameDifference,
    MessageDifference,
    StateDifference,
    TakenMessage,
    WaitDifference,
)
from continuations.core.run_stream import RunEnded, StreamEvent
from continuations.core.trips import GuardrailStage
from continuations.core.usage import Usage
from continuations.core.wait_rules import WAIT_KINDS, WaitKind
from continuations.core.waits import Wait
from continuations.engine.drift import DriftReason, DriftRow, DriftVerdict
from continuations.present.json_forms import MAX_TEXT_CHARS
from continuations.wire.report import JSON_FORMS, JsonForm

Json = dict[str, Any]

RUN_ID_PATTERN: Final = "[A-Za-z0-9][A-Za-z0-9._-]{0,199}"
# A wait id contains a ULID. The pattern accepts the ULIDs of the next 250 years.
WAIT_ID_PATTERN: Final = (
    f"({'|'.join(sorted(WAIT_KINDS))})-0[0-8][0-9a-hjkmnp-tv-z]{{24}}@{RUN_ID_PATTERN}"
)

TEXT: Json = {"type": "string"}
TEXT_OR_NULL: Json = {"type": ["string", "null"]}
TIME: Json = {"type": "string", "format": "date-time", "pattern": "Z$"}
TIME_OR_NULL: Json = {**TIME, "type": ["string", "null"]}
COUNT: Json = {"type": "integer", "minimum": 0}
BOOLEAN: Json = {"type": "boolean"}
OBJECT: Json = {"type": "object"}
OBJECT_OR_NULL: Json = {"type": ["object", "null"]}
ANY: Json = {}
RUN_ID: Json = {**TEXT, "pattern": f"^{RUN_ID_PATTERN}$"}
REASON: Json = {**TEXT, "maxLength": MAX_TEXT_CHARS}
LABELS: Json = {**OBJECT, "additionalProperties": TEXT}


def ref(name: str) -> Json:
    """Return a reference to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def array(items: Json) -> Json:
    """Return the schema of an array."""
    return {"type": "array", "items": items}


def enum(values: frozenset[str] | dict[str, Any]) -> Json:
    """Return the schema of one of some texts."""
    return {"enum": sorted(values)}


def described(schema: Json, description: str) -> Json:
    """Return a schema with a description."""
    return {**schema, "description": description}


def object_form(description: str, required: Json, optional: Json | None = None) -> Json:
    """Return the schema of an object without other fields."""
    return {
        "type": "object",
        "description": description,
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


# Schemas of classes ---------------------------------------------------------------

# Values with a definition of their own. The form of an event has its type as well.
_DEFINED: dict[Any, str] = {
    Wait: "wait",
    Vote: "vote",
    Decision: "decision",
    ManifestChange: "code_change",
    StreamEvent: "event",
}
# The names of annotations; many modules import them for type checkers only.
_NAMES: dict[str, Any] = {
    each.__name__: each
    for each in (
        *(BegunCall, CallDifference, FrameDifference, MessageDifference),
        *(StateDifference, TakenMessage, WaitDifference, DriftReason, Failure),
        *(Usage, Wait, Vote, Decision, ManifestChange, datetime, Mapping),
        *(CallDisplay, Decimal, Finding, Quorum),
    )
} | {
    "CallEnd": CallEnd,
    "Change": Change,
    "ChangeKind": ChangeKind,
    "DecisionKind": DecisionKind,
    "DriftVerdict": DriftVerdict,
    "GuardrailStage": GuardrailStage,
    "RunStatus": RunStatus,
    "StreamEvent": StreamEvent,
    "VerdictKind": VerdictKind,
    "WaitKind": WaitKind,
}
_SCALARS: dict[Any, Json] = {
    Any: ANY,
    str: TEXT,
    int: COUNT,
    bool: BOOLEAN,
    datetime: TIME,
    NoneType: {"type": "null"},
}
_ONE_SIDE: Json = {"change": {"enum": ["added", "removed"]}}
_CALL_STATE: Json = {"enum": [*sorted(STATE_TYPES), None]}
# Fields whose JSON is narrower than their type, or another one. The docstrings describe
# them too.
_DIFFERENCES: dict[type, Mapping[str, Json | str]] = {
    Usage: {
        "cost": described(
            TEXT_OR_NULL,
            "The exact cost as a decimal number; null if a part of it is not known.",
        ),
        "currency": TEXT_OR_NULL,
    },
    FrameDifference: _ONE_SIDE,
    MessageDifference: _ONE_SIDE,
    WaitDifference: _ONE_SIDE,
    CallDifference: {
        "before": _CALL_STATE,
        "after": _CALL_STATE,
        "arguments_before": OBJECT_OR_NULL,
        "arguments_after": OBJECT_OR_NULL,
    },
    RunEnded: {"status": enum(ENDED_STATUSES)},
    CallProgress: {"value": ANY},
    DriftReason: {
        "change": "removed, schema, contract, approval, state, model, context, prices, "
        "policy or stored.",
    },
    DriftRow: {"status": TEXT},
}
# Words of docstrings that are about Python, not about JSON.
_PYTHON_WORDS = re.compile(r",? as (a new dict|a new JSON value|JSON text)\b")


def value_schema(
    cls: type, form: JsonForm | None = None, /, **differs: Json | str
) -> Json:
    """Return the schema of the JSON of a value.

    Args:
        cls: The class of the value.
        form: The form of the JSON, by default the one that `to_json` uses.
        differs: By name, the schema of a field whose JSON has another type than the
            field, or only its description.

    Returns:
        The schema of an object, with the words of the docstring.
    """
    form = form or JSON_FORMS.get(cls) or JsonForm()
    differs = {**_DIFFERENCES.get(cls, {}), **differs}
    optional = form.optional.split()
    fields = {
        name: _field_schema(cls, name, differs.get(name), is_left_out=name in optional)
        for name in form.all_names(cls)
    }
    return object_form(
        (cls.__doc__ or "").partition("\n")[0],
        {name: schema for name, schema in fields.items() if name not in optional},
        {name: fields[name] for name in optional},
    )


def field_schemas(schema: Json, names: str) -> Json:
    """Return some fields of an object's schema, by name."""
    return {name: schema["properties"][name] for name in names.split()}


def _field_schema(
    cls: Any, name: str, differs: Json | str | None, *, is_left_out: bool
) -> Json:
    own = getattr(cls, name, None)
    if isinstance(own, property):
        prose = _as_json_words((own.__doc__ or "").partition("\n\n")[0])
    else:
        prose = _field_words(cls, name) or _field_words(cls, f"{name}_json")
    if isinstance(differs, str):
        prose, differs = differs, None
    if differs is None:
        differs = _type_schema(_field_type(cls, name), may_be_null=not is_left_out)
    return {"description": prose, **differs} if prose else differs


def _field_type(cls: Any, name: str) -> Any:
    """Return the type of a field, or of the property with its name."""
    own = getattr(cls, name, None)
    hints = get_type_hints(cls, localns=_NAMES)
    if not isinstance(own, property):
        return hints[name]
    found = get_type_hints(own.fget, localns=_NAMES)["return"]
    may_be_null = NoneType in get_args(hints.get(f"{name}_json"))
    return Union[found, None] if may_be_null else found  # noqa: UP007 - of a type that is known only here


def _type_schema(hint: Any, *, may_be_null: bool = True) -> Json:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if hint in _DEFINED:
        return ref(_DEFINED[hint])
    arguments = get_args(hint)
    match get_origin(hint):
        case None:
            schema = value_schema(hint)
        case origin if origin in (Union, UnionType):
            schema = _union_schema(arguments, may_be_null=may_be_null)
        case origin if origin is Literal:
            schema = {"enum": sorted(arguments)}
        case origin if origin is tuple:
            schema = array(_type_schema(arguments[0]))
        case _:  # a mapping
            schema = LABELS if arguments[1] is str else OBJECT
    return schema


def _union_schema(options: tuple[Any, ...], *, may_be_null: bool) -> Json:
    shapes = [_type_schema(each) for each in options if each is not NoneType]
    shape = shapes[0]
    if len(shapes) > 1:
        shape = {"enum": sorted({each for one in shapes for each in one["enum"]})}
    if NoneType not in options or not may_be_null:
        return shape
    if "enum" in shape:
        return {"enum": [*shape["enum"], None]}
    if "$ref" in shape or "properties" in shape:
        return {"oneOf": [{"type": "null"}, shape]}
    return {**shape, "type": [shape["type"], "null"]}


def _field_words(cls: Any, name: str) -> str:
    """Return the first paragraph about a field in the docstrings of a class."""
    pattern = rf"^    {name}: (.*?)(?=\n\n|\n {{0,4}}\S|\Z)"
    # Newer Pythons store docstrings without the indentation of the class.
    docs = [cleandoc(base.__doc__ or "") for base in cls.__mro__]
    found = [re.search(pattern, each, re.DOTALL | re.MULTILINE) for each in docs]
    texts = [" ".join(each[1].split()) for each in found if each]
    return _as_json_words(texts[0]) if texts else ""


def _as_json_words(text: str) -> str:
    return _PYTHON_WORDS.sub("", text).replace("`None`", "`null`")
