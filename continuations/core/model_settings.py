"""Model settings of a run: given at its start, stored with it, and merged in turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from continuations.core import jsontext
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

# The adapters of models make these parts of a request.
RESERVED_SETTINGS = frozenset(
    {"model", "messages", "input", "tools", "stream", "stream_options"}
)
# They are options of a client. Here they would be stored and shown.
_CLIENT_OPTIONS = frozenset({"api_key", "extra_headers", "extra_query", "timeout"})
_MAX_CHARS = 20_000


def check_settings(settings: object) -> str | None:
    """Return the settings of a run as JSON text, or `None`; raises `InvalidInput`.

    The error shows no value: a setting may hold a secret.
    """
    if settings is None or settings == {}:
        return None
    if not isinstance(settings, dict):
        got = type(settings).__name__
        msg = (
            "settings must be a dict of JSON values such as {'temperature': 0}, got "
            f"{got}."
        )
        raise InvalidInput(msg)
    names = cast("dict[object, object]", settings).keys()
    reserved = sorted(str(name) for name in names & RESERVED_SETTINGS)
    if reserved:
        msg = (
            f"settings must not have {', '.join(reserved)}, because the model's "
            "adapter sets them. Leave them out."
        )
        raise InvalidInput(msg)
    options = sorted(str(name) for name in names & _CLIENT_OPTIONS)
    if options:
        msg = (
            f"settings must not have {', '.join(options)}: settings are stored with "
            "the run. Pass such options to the model, for example OpenAIChat(...)."
        )
        raise InvalidInput(msg)
    try:
        text = jsontext.canonical(cast("object", settings))
    except jsontext.NotJson as error:
        msg = f"settings must be JSON: {error}. Pass JSON values only."
        raise InvalidInput(msg) from None
    if len(text) > _MAX_CHARS:
        msg = (
            f"settings has {len(text):,} characters as JSON, and the limit is "
            f"{_MAX_CHARS:,}. Put long texts into the input."
        )
        raise InvalidInput(msg)
    return text


def merged_settings(of_agent: Mapping[str, Any], of_run: str) -> Mapping[str, Any]:
    """Return an agent's settings with those of the run, which win, over them."""
    return {**of_agent, **(jsontext.as_object(jsontext.parse(of_run)) or {})}
