"""The JSON forms of the events of a run."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.live_events import BaseLiveEvent
from continuations.core.run import Failure
from continuations.core.waits import Wait
from continuations.core.withheld_texts import shown_event
from continuations.present.json_forms import wait_json
from continuations.wire.report import utc_text

if TYPE_CHECKING:
    from continuations.core.live_events import RunEvent
    from continuations.core.messages import Detail

_END_OF_JSON_TEXT = "_json"


def event_json(event: RunEvent, detail: Detail = "states") -> dict[str, Any]:
    """Return an event as JSON values: its fields and its `type`.

    The form of a stored event is `event`, that of a live one `live_event`.

    Args:
        event: The event.
        detail: Which texts of models and tools the form has.
    """
    event = shown_event(event, detail)
    form: dict[str, Any] = {"type": type(event).__name__}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        name = field.name.removesuffix(_END_OF_JSON_TEXT)
        if name != field.name:
            form[name] = None if value is None else jsontext.parse(value)
        else:
            form[name] = _plain(value)
    form["path"] = list(event.path)
    if not isinstance(event, BaseLiveEvent):
        form["at"] = utc_text(event.at)
    return form


def _plain(value: Any) -> Any:
    if isinstance(value, Wait):
        return wait_json(value)
    if isinstance(value, Failure):
        return {"code": value.code, "message": value.message}
    return value
