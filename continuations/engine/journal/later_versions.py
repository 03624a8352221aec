"""Find out what a run approved and started after one of its versions.

A fork or a rewind goes on from an earlier version, but effects are not undone. So
nothing of this runs again before a person was asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.reading.run_past import BegunCall
from continuations.core.reading.run_stream_diff import sub_agents
from continuations.core.rows.calls import CallRow, Nested, Started
from continuations.core.rows.state import RunState, frame_path, shown_arguments
from continuations.ledger.versions import VersionWalk
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from continuations.ledger.objects import Objects


@dataclass(frozen=True, slots=True)
class LaterCalls:
    """The calls that a run started after a version, and what it approved.

    Attributes:
        begun: The calls that were started, each once, in the order of their starts.
        tools: Names of the tools of calls that were approved or started, sorted.
        wait_ids: Ids of the waits of the first version and of the later ones.
        answered_ids: Ids of the calls whose `on_answer` function got an answer.
    """

    begun: tuple[BegunCall, ...]
    tools: tuple[str, ...]
    wait_ids: frozenset[str]
    answered_ids: frozenset[str] = frozenset()

    @property
    def begun_ids(self) -> frozenset[str]:
        """Ids of the calls that were started."""
        return frozenset(each.call for each in self.begun)


async def read_later_calls(
    objects: Objects, run_id: str, state: RunState, numbers: tuple[int, int]
) -> LaterCalls:
    """Read each version after one, up to another one.

    Args:
        objects: The store.
        run_id: Id of the run.
        state: The state of the first version.
        numbers: The numbers of the first and of the last version.

    Raises:
        RunErased: The run was erased.
        Corrupt, FormatError: A version cannot be read, and no repair follows.
        StoreError: The store failed.
    """
    first, last = numbers
    walk = VersionWalk(objects, run_id)
    await walk.go_to(first)
    begun, tools, wait_ids = dict[str, BegunCall](), set[str](), {*state.waits}
    answered = set[str]()
    # All versions of a run have the same manifest, except after a deployment.
    agents: dict[str, Mapping[tuple[str, str], str]] = {}
    while walk.number < last:
        step = await walk.next_step(exists=True)
        if step is None:
            break
        after = step.after
        wait_ids.update(after.waits)
        if after.manifest not in agents:
            agents[after.manifest] = sub_agents(after.manifest)
        for row in _changed(state, after, step.before):
            frame = after.frames.get(row.frame_id)
            if frame and (frame.agent, row.tool) in agents[after.manifest]:
                continue
            old = state.calls.get(row.id)
            if old is not None and row.stage > old.stage:
                answered.add(row.id)
            if _has_begun(row, old):
                found = _begun_call(after, row, step.number)
                begun.setdefault(row.id, found)
            if _has_begun(row, old) or _is_approved(row, old):
                tools.add(row.tool)
    calls = tuple(begun.values())
    return LaterCalls(
        calls, tuple(sorted(tools)), frozenset(wait_ids), frozenset(answered)
    )


def _changed(
    first: RunState, after: RunState, before: RunState | None
) -> Iterable[CallRow]:
    """Return the calls of a version that differ from the first version.

    Those that the version before has in the same frame are left out.
    """
    rows: Iterable[CallRow] = after.calls.values()
    if before is not None and before.manifest == after.manifest:
        last, frame = before.calls.get, before.frames.get
        moved = {key for key, row in after.frames.items() if frame(key) is not row}
        rows = [row for row in rows if last(row.id) is not row or row.frame_id in moved]
    return [row for row in rows if first.calls.get(row.id) is not row]


def _has_begun(row: CallRow, old: CallRow | None) -> bool:
    """Return whether a call was started since an earlier version.

    The count of starts is not enough: a repair may have started a call that it found.
    """
    if isinstance(row.state, Nested):
        return False
    was = (old.stage, old.attempts) if old else (0, 0)
    is_started = isinstance(row.state, Started)
    was_started = old is not None and isinstance(old.state, Started)
    return (row.stage, row.attempts) > was or (is_started and not was_started)


def _is_approved(row: CallRow, old: CallRow | None) -> bool:
    known = None if old is None else old.approved_digest
    return row.approved_digest is not None and row.approved_digest != known


def _begun_call(state: RunState, row: CallRow, version: int) -> BegunCall:
    return BegunCall(
        call=row.id,
        path=(*frame_path(state, row.frame_id), row.tool),
        tool=row.tool,
        version=version,
        arguments_json=shown_arguments(row),
    )
