"""The golden objects of shortened histories: a run, and a version with a new log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.delta import diff
from continuations.core.events import HistoryCompacted, SummaryFailed
from continuations.core.messages import user_message
from continuations.core.state import ROOT_FRAME_ID
from continuations.core.usage import Usage
from continuations.wire.continuation import Continuation
from continuations.wire.versions import VersionHeader, VersionObject, encode_version
from tests.core.rows import MOMENT, RUN, apply_events, new_state

if TYPE_CHECKING:
    from continuations.core.state import RunState

ODD_TEXT = "caf\u00e9 \u2028 \x00 \u202e \ud800"


def compacted() -> RunState:
    """Return a run whose first messages a summary has replaced."""
    state = new_state()
    log = state.logs[ROOT_FRAME_ID]
    event = HistoryCompacted(
        frame_id=ROOT_FRAME_ID,
        log_id=log.id,
        count=len(log.messages),
        messages=(*log.messages[:1], user_message(ODD_TEXT)),
        summary_number=2,
        replaced=7,
        tokens_before=90_000,
        tokens_after=1_200,
        attempt_above=9_200,
        usage=Usage(requests=1, input_tokens=88_000, output_tokens=400),
    )
    return apply_events(state, event)


def summary_failed() -> RunState:
    """Return a run for which a summary failed."""
    event = SummaryFailed(
        frame_id=ROOT_FRAME_ID, attempt_above=70_000, usage=Usage(requests=2)
    )
    return apply_events(new_state(), event)


def _version_compacted() -> VersionObject:
    header = VersionHeader(
        run_id=RUN,
        number=2,
        root=1,
        base=1,
        base_digest=bytes(16),
        status="running",
        at=MOMENT,
        claimed_until=MOMENT,
        markers=(),
    )
    return VersionObject(header, diff(new_state(), compacted()), b"")


def compaction_objects() -> dict[str, tuple[bytes, object]]:
    """Return the bytes and the value of each object, by its name."""
    objects: dict[str, tuple[bytes, object]] = {}
    for make in (compacted, summary_failed):
        continuation = Continuation(make(), 12)
        objects[make.__name__] = (continuation.to_bytes(), continuation)
    version = _version_compacted()
    data = encode_version(version.header, version.delta)
    objects["version-compacted"] = (data, version)
    return objects
