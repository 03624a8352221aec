"""Build the body of a request to the Responses API."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.models.chat_request import InvalidModelSettings, encode_utf8
from continuations.models.responses_items import input_items
from continuations.models.responses_owners import left_out
from continuations.models.strict_schema import to_strict_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from continuations.core.model_protocol import ModelRequest, OutputSchema, ToolSpec

# The adapter sets these fields, or sends the whole conversation in place of them.
RESERVED_FIELDS = frozenset(
    """
    background conversation input messages model previous_response_id stream tools
    """.split()  # noqa: SIM905 - one name per line would fill the file
)
ENCRYPTED_REASONING = "reasoning.encrypted_content"
# The key of the metadata by which a webhook finds the run of a background response.
RUN_METADATA = "continuations_run"
_REFUSAL_STATUSES = frozenset({400, 404, 422})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestForm:
    """The form of one request.

    Attributes:
        hosted_tools: The tools that the provider runs.
        is_background: The provider computes the reply in the background.
        is_stream: The provider sends the reply as a stream of events.
        with_encrypted_reasoning: Ask for reasoning that can be sent back.
        with_stored_items: Send the stored items of earlier replies. Another provider
            cannot read the encrypted reasoning of the first one.
        is_strict: Send the schema of the output in strict mode, if it fits.
    """

    hosted_tools: Sequence[Mapping[str, Any]] = ()
    is_background: bool = False
    is_stream: bool = False
    with_encrypted_reasoning: bool = True
    with_stored_items: bool = True
    is_strict: bool = True


def build_body(model: str, request: ModelRequest, form: RequestForm) -> bytes:
    """Return the body of a request, in UTF-8; raises `InvalidModelSettings`.

    A lone surrogate has no form in UTF-8 (RFC 3629, section 3) and is sent as U+FFFD.
    """
    plain = left_out(
        request.messages, model, as_stored=form.with_stored_items
    ).positions
    items = input_items(request.messages, plain=plain, files=request.files)
    fields = {"model": model, "input": list(items), **_settings(request, form)}
    tools = [*map(_tool_json, request.tools), *form.hosted_tools]
    if tools:
        fields["tools"] = tools
    if form.is_background:
        fields["background"] = True
        own = {RUN_METADATA: request.run_id} if request.run_id else {}
        fields["metadata"] = {**own, **_mapping(fields, "metadata")}
    if form.is_stream:
        fields["stream"] = True
    try:
        return encode_utf8(jsontext.dump(fields))
    except jsontext.NotJson as error:
        msg = f"settings and tools must be JSON: {error}"
        raise InvalidModelSettings(msg) from None


def form_after_refusal(
    model: str, form: RequestForm, request: ModelRequest, *, status: int, text: str
) -> RequestForm | None:
    """Return the form for one more try of a refused request, or `None`.

    Each step leaves out one more thing, so the number of steps is bounded.
    """
    if status not in _REFUSAL_STATUSES:
        return None
    text = text.lower()
    names_encrypted = "encrypted" in text
    is_lost = names_encrypted or "not persisted" in text
    has_items = left_out(request.messages, model, as_stored=False).new > (
        left_out(request.messages, model).new
    )
    if form.with_stored_items and has_items and is_lost:
        return replace(form, with_stored_items=False)
    if form.with_encrypted_reasoning and (names_encrypted or "'include'" in text):
        return replace(form, with_encrypted_reasoning=False)
    is_about_output = any(word in text for word in ("schema", "strict", "format"))
    if form.is_strict and request.output_schema is not None and is_about_output:
        return replace(form, is_strict=False)
    return None


def _settings(request: ModelRequest, form: RequestForm) -> dict[str, Any]:
    settings = dict(request.settings)
    clash = sorted(RESERVED_FIELDS & settings.keys())
    if clash:
        msg = f"settings must not contain {', '.join(clash)}: the adapter sets them"
        raise InvalidModelSettings(msg)
    # The provider keeps a background response only if it may store it.
    settings.setdefault("store", form.is_background)
    if form.with_encrypted_reasoning:
        include = jsontext.as_array(settings.get("include") or [])
        if include is not None and ENCRYPTED_REASONING not in include:
            settings["include"] = [*include, ENCRYPTED_REASONING]
    if "tool_choice" in settings:
        settings["tool_choice"] = _tool_choice(settings["tool_choice"])
    output = request.output_schema
    text = _mapping(settings, "text")
    if output is not None and "format" not in text:
        text_format = _text_format(output, is_strict=form.is_strict)
        settings["text"] = {**text, "format": text_format}
    return settings


def _mapping(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value: object = fields.get(name)
    if value is None:
        return {}
    mapping = jsontext.as_object(value)
    if mapping is None:
        msg = f"settings[{name!r}] must be an object, got {type(value).__name__}"
        raise InvalidModelSettings(msg)
    return mapping


def _text_format(output: OutputSchema, *, is_strict: bool) -> Mapping[str, Any]:
    schema = to_strict_schema(output.schema) if is_strict else None
    return {
        "type": "json_schema",
        "name": output.name,
        "schema": dict(output.schema) if schema is None else schema,
        "strict": schema is not None,
    }


def _tool_json(spec: ToolSpec) -> Mapping[str, Any]:
    # Without `strict`, this API makes every parameter required.
    return {
        "type": "function",
        "name": spec.name,
        **({"description": spec.description} if spec.description else {}),
        "parameters": dict(spec.parameters),
        "strict": False,
    }


def _tool_choice(choice: Any) -> Any:
    """Return a choice in the form of this API; that of chat completions is nested."""
    fields = jsontext.as_object(choice)
    if fields is None:
        return choice
    kind = fields.get("type")
    inner = jsontext.as_object(fields.get(kind)) if isinstance(kind, str) else None
    if inner is None:
        return choice
    if kind == "allowed_tools":
        tools = jsontext.as_array(inner.get("tools")) or ()
        inner = {**inner, "tools": [_tool_choice(tool) for tool in tools]}
    return {"type": kind, **inner}
