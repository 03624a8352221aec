"""Build the body of a request to the Responses API.

Encrypted reasoning belongs to the model that wrote it, and to the account. A run that
is forked or resumed with another model still has the items. The model then gets text
and calls of those replies, and its own reply has metadata that says so. The items of
all replies before such a reply stay left out, so no request is refused twice.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from continuations.core import jsontext
from continuations.models import chat_request
from continuations.models.responses_items import ITEMS_FIELD, input_items, stored_items
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from continuations.core.messages import Message
    from continuations.core.model_protocol import (
        ModelReply,
        ModelRequest,
        ToolSpec,
    )


# Keys of the metadata of a reply: the model whose reasoning it has, and how many
# replies before it were sent without their items.
REASONING_MODEL = "reasoning_model"
ITEMS_LEFT_OUT = "items_left_out"
_ENCRYPTED = '"encrypted_content"'

_log = logging.getLogger("continuations")


class LeftOut(NamedTuple):
    """The replies of a conversation that are sent without their items.

    Attributes:
        positions: The positions of their messages.
        new: How many of them had their items sent in the turn before.
    """

    positions: frozenset[int] = frozenset()
    new: int = 0


def left_out(
    messages: Sequence[Message], model: str, *, as_stored: bool = True
) -> LeftOut:
    """Return the replies whose items a model does not get.

    Args:
        messages: The conversation.
        model: The name of the model.
        as_stored: Whether the provider takes items. If not, all are left out.
    """
    positions: set[int] = set()
    new, is_before = 0, False
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        has_items = message.role == "assistant" and ITEMS_FIELD in message.text
        if has_items and (is_before or not as_stored or _is_foreign(message, model)):
            positions.add(position)
            new += not is_before and stored_items(message.data) is not None
        is_before = is_before or ITEMS_LEFT_OUT in (message.metadata_json or "")
    return LeftOut(frozenset(positions), new)


def with_owner(
    reply: ModelReply, model: str, request: ModelRequest, new: int
) -> ModelReply:
    """Return a reply that names its owner and the number of items left out before it.

    Items that were left out for the first time are logged.
    """
    facts: dict[str, object] = {}
    if _ENCRYPTED in reply.message.text:
        facts[REASONING_MODEL] = model
    if new:
        facts[ITEMS_LEFT_OUT] = new
        _log.warning(
            "run %s: model %s got text and calls only of %s earlier replies: their "
            "encrypted reasoning belongs to another model or account",
            *(request.run_id or "-", model, new),
        )
    if not facts:
        return reply
    known = reply.message.metadata or {}
    message = reply.message.with_metadata(jsontext.canonical({**known, **facts}))
    return replace(reply, message=message)


def _is_foreign(message: Message, model: str) -> bool:
    if REASONING_MODEL not in (message.metadata_json or ""):
        return False
    owner = (message.metadata or {}).get(REASONING_MODEL)
    return owner is not None and owner != model


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
        return chat_request.encode_utf8(jsontext.dump(fields))
    except jsontext.NotJson as error:
        msg = f"settings and tools must be JSON: {error}"
        raise chat_request.InvalidModelSettings(msg) from None


def form_after_refusal(
    model: str, request: ModelRequest, form: RequestForm, status: int, text: str
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
        return dataclasses.replace(form, with_stored_items=False)
    if form.with_encrypted_reasoning and (names_encrypted or "'include'" in text):
        return dataclasses.replace(form, with_encrypted_reasoning=False)
    is_about_output = any(word in text for word in ("schema", "strict", "format"))
    if form.is_strict and request.output_schema is not None and is_about_output:
        return dataclasses.replace(form, is_strict=False)
    return None


def _settings(request: ModelRequest, form: RequestForm) -> dict[str, Any]:
    settings = chat_request.own_settings(request, RESERVED_FIELDS)
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
        schema = chat_request.schema_format(output, strict=form.is_strict)
        settings["text"] = {**text, "format": {"type": "json_schema", **schema}}
    return settings


def _mapping(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value: object = fields.get(name)
    if value is None:
        return {}
    mapping = jsontext.as_object(value)
    if mapping is None:
        msg = f"settings[{name!r}] must be an object, got {type(value).__name__}"
        raise chat_request.InvalidModelSettings(msg)
    return mapping


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
