"""The arguments of calls as people read them: in their order, with readings of amounts.

Stored arguments have sorted names. A wait has the order of the declaration and the
readings; a call without one has the order in which its model wrote them.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.reading import run_stream
from continuations.present.wait_view import ArgumentView, argument_views
from continuations.serve.pages.run_log import arguments_text, fields_text
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.reading.run_past import VersionWindow
    from continuations.core.rows.waits import Wait


class CallArguments:
    """Knows the order and the readings of the arguments of some calls.

    Args:
        events: The events of these calls.
        waits: Waits of these calls that no event has.
    """

    def __init__(
        self,
        events: Iterable[run_stream.StreamEvent] = (),
        waits: Iterable[Wait] = (),
    ) -> None:
        self._waits = {wait.call_id: wait for wait in waits if wait.call_id}
        self._names: dict[str, tuple[str, ...]] = {}
        written: dict[tuple[str | None, str], tuple[str, ...]] = {}
        for event in events:
            match event:
                case run_stream.MessageAdded() if "tool_calls" in event.message_json:
                    for tool_call_id, names in _written_names(event.message_json):
                        written[event.frame, tool_call_id] = names
                case run_stream.CallProposed(call=str(call)):
                    key = event.frame, event.tool_call_id
                    self._names[call] = written.get(key, ())
                case run_stream.WaitOpened(wait=wait) if wait.call_id:
                    self._waits[wait.call_id] = wait
                case _:
                    pass

    @classmethod
    def of_window(cls, window: VersionWindow) -> CallArguments:
        """Return the arguments of the calls of some versions."""
        states = filter(None, (window.before, window.state))
        waits = chain.from_iterable(state.waits.values() for state in states)
        events = (event for version in window.versions for event in version.events)
        return cls(events, waits)

    def views(
        self, call: str | None, arguments_json: str
    ) -> tuple[ArgumentView, ...] | None:
        """Return each argument of a call; `None` if the text is no object."""
        try:
            fields = jsontext.as_object(jsontext.parse(arguments_json))
        except jsontext.NotJson:
            return None
        if fields is None:
            return None
        wait = self._waits.get(call or "")
        if wait is not None:
            return argument_views(replace(wait, arguments_json=arguments_json))
        written = self._names.get(call or "", ())
        names = dict.fromkeys([*(n for n in written if n in fields), *fields])
        return tuple(_plain_view(name, fields[name]) for name in names)

    def readings(self, call: str | None, arguments_json: str) -> dict[str, object]:
        """Return the arguments of a call by name, an amount as its reading."""
        return {
            view.name: view.places.get(view.name) or jsontext.parse(view.json)
            for view in self.views(call, arguments_json) or ()
        }

    def text(self, call: str | None, arguments_json: str, max_chars: int) -> str:
        """Return the arguments of a call on one line, an amount by its reading."""
        if not arguments_json:
            return ""
        readings = self.readings(call, arguments_json)
        if not readings:  # such as arguments that are not shown
            return arguments_text(arguments_json, max_chars)
        return fields_text(readings, max_chars)


def _plain_view(name: str, value: object) -> ArgumentView:
    return ArgumentView(
        name=name,
        description="",
        json=jsontext.dump(value),
        places={},
        is_secret=False,
        is_default=False,
    )


def _written_names(message_json: str) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Return the names of the arguments of the calls of a message, as it has them."""
    from continuations.core.messages import Message  # noqa: PLC0415 - only messages need it

    for call in Message.from_json(message_json).tool_calls:
        try:
            fields = jsontext.as_object(jsontext.parse(call.arguments))
        except jsontext.NotJson:
            continue  # as a model may write it, or as it is withheld
        yield call.tool_call_id, tuple(fields or ())
