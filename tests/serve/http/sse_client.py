"""A client of server-sent events: parses them, and makes events of a run of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from continuations import events
from continuations.core.reading.live_events import BaseLiveEvent
from continuations.events import LiveTranscript, RunEvent
from tests.present.schema_check import assert_matches_schema


@dataclass(frozen=True)
class ServerSentEvent:
    """One server-sent event."""

    data: Any
    name: str = "message"
    id: str | None = None


def parse(lines: Iterable[str]) -> Iterator[ServerSentEvent]:
    """Iterate over the events of a response; an incomplete one is left out."""
    found: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            found[name] = value
        elif "data" in found:
            yield ServerSentEvent(
                json.loads(found["data"]),
                found.get("event", "message"),
                found.get("id"),
            )
            found = {}
        else:
            found = {}


def run_event(form: Any) -> RunEvent:
    """Return the event of its JSON form; waits and failures stay JSON."""
    kind: Any = getattr(events, form["type"])
    is_live = issubclass(kind, BaseLiveEvent)
    assert_matches_schema("live_event" if is_live else "event", form)
    values: dict[str, Any] = {}
    for each in fields(kind):
        name = each.name.removesuffix("_json")
        value = form[name]
        values[each.name] = json.dumps(value) if name != each.name else value
    values["path"] = tuple(form["path"])
    if not is_live:
        values["at"] = datetime.fromisoformat(form["at"])
    event: RunEvent = kind(**values)
    return event


@dataclass
class Reader:
    """Follows one thread or run over many connections.

    Attributes:
        last_id: The id of the last event that had one.
        transcript: The texts of the run.
        named: The events that have a name, without those of the run.
        events: All events of the run, in their order.
    """

    last_id: str = ""
    transcript: LiveTranscript = field(default_factory=LiveTranscript)
    named: list[ServerSentEvent] = field(default_factory=list[ServerSentEvent])
    events: list[RunEvent] = field(default_factory=list["RunEvent"])

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the next request."""
        headers = {"accept": "text/event-stream"}
        return headers | ({"last-event-id": self.last_id} if self.last_id else {})

    @property
    def texts(self) -> list[str]:
        """The texts that the reader shows, also those that are being written."""
        return [each.text for each in self.transcript.texts]

    def read(self, lines: Iterable[str]) -> Iterator[ServerSentEvent]:
        """Take the events of one response, and iterate over them."""
        for event in parse(lines):
            if event.name == "message":
                self.events.append(run_event(event.data))
                self.transcript.add(self.events[-1])
            else:
                self.named.append(event)
            self.last_id = event.id or self.last_id
            yield event
