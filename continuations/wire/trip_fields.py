"""The stored form of the guardrails that tripped (`Trip`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from continuations.core.trips import GUARDRAIL_STAGES, Trip
from continuations.wire.fields import FieldReader, invalid_object

if TYPE_CHECKING:
    from collections.abc import Iterable

_ID = re.compile(r"g[1-9][0-9]{0,15}\Z")


def write(trips: Iterable[Trip]) -> list[dict[str, object]]:
    """Return the stored fields of trips."""
    return [
        {
            "id": trip.id,
            "frame": trip.frame_id,
            "path": list(trip.path),
            "name": trip.guardrail,
            "stage": trip.stage,
            "reason": trip.reason,
        }
        for trip in trips
    ]


def read(fields: FieldReader, name: str) -> tuple[Trip, ...]:
    """Read the trips, which may be missing; raises `FormatError`."""
    return tuple(fields.list_of(name, _read_trip))


def _read_trip(value: object, where: str) -> Trip:
    fields = FieldReader(value, where)
    trip = Trip(
        id=fields.text("id"),
        frame_id=fields.text("frame"),
        path=fields.texts("path"),
        guardrail=fields.text("name"),
        stage=fields.one_of("stage", GUARDRAIL_STAGES),
        reason=fields.text("reason"),
    )
    fields.check_all_read()
    if _ID.match(trip.id) is None:
        raise invalid_object(where, "'id' must be g and a number")
    return trip
