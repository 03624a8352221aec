"""Send notices to a `notify` that has a method `on_notice`.

For any other `notify`, nothing here reads the store.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from continuations.authoring import callables
from continuations.core.reading import notices
from continuations.core.rows.decisions import Decision
from continuations.errors import ContinuationsError
from continuations.ledger import markers
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.objects import Objects, gather_all
from continuations.ledger.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from continuations.core.rows.quorum import Vote
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.engine.ports import Ports
    from continuations.ledger.layout import Marker
    from continuations.ledger.loaded_version import LoadedVersion

_log = logging.getLogger("continuations")
# How long `decide` waits for its notice, in seconds. Then the notice goes on alone.
_DECIDE_SECONDS = 1.0
# How many notices of one worker are sent at the same time.
_PARALLEL_NOTICES = 20
# How many ids of notices a runner remembers.
_MAX_SENT = 10_000
# How many versions before the newest one are read after a crash.
_MAX_VERSIONS = 200
_sending: set[asyncio.Task[None]] = set()


@dataclass(slots=True)
class VersionNotices:
    """The notices of versions in their order, before they are sent.

    Attributes:
        ended: The waits that ended, each with the time of its version.
        others: The notices of agents and of the run.
        of_dead_worker: A version with the claim of a worker that died. Its notices, and
            those of the versions before it in that claim, are read from the store.
    """

    ended: list[tuple[Wait, datetime]] = field(
        default_factory=list["tuple[Wait, datetime]"]
    )
    others: list[notices.ChildNotice | notices.RunNotice] = field(
        default_factory=list[notices.ChildNotice | notices.RunNotice]
    )
    of_dead_worker: LoadedVersion | None = None

    def add(self, before: RunState | None, version: LoadedVersion) -> None:
        """Add the notices of a version; `before` is the state of the one before it.

        An error is logged: the version is stored, and its worker goes on.
        """
        state, number, at = version.state, version.number, version.at
        try:
            self.others += notices.notices_between(before, state, version=number, at=at)
            self.ended += [(wait, at) for wait in notices.ended_waits(before, state)]
        except Exception:  # noqa: BLE001 - a notice costs nothing but itself
            text = "run %s: the notices of version %s are not sent"
            _log.exception(text, state.run.id, number)


async def send_notices(
    objects: Objects,
    ports: Ports,
    found: VersionNotices,
    known: Mapping[str, Decision],
) -> None:
    """Send the notices of stored versions: those of waits, of agents, and of the run.

    Args:
        objects: The store. A decision that is not known is read.
        ports: The notifier.
        found: The notices.
        known: Decisions by wait id.
    """

    async def decision_notice(wait: Wait, at: datetime) -> notices.Notice:
        decision = known.get(wait.id) or await read_decision(objects, wait.id)
        return notices.DecisionNotice.of(wait, decision, at)

    if found.of_dead_worker is not None:
        earlier = await read_notices(objects, found.of_dead_worker)
        ended, others = earlier.ended + found.ended, earlier.others + found.others
        found = VersionNotices(ended, others)
    try:
        decided = await gather_all(decision_notice(*each) for each in found.ended)
    except ContinuationsError as error:
        decided = []
        _log.warning("notices of waits that ended were not sent: %s", error)
    slots = asyncio.Semaphore(_PARALLEL_NOTICES)

    async def send(notice: notices.Notice) -> None:
        async with slots:
            await _send(ports, notice)

    for kind in (notices.DecisionNotice, notices.ChildNotice, notices.RunNotice):
        chosen = (each for each in (*decided, *found.others) if type(each) is kind)
        await asyncio.gather(*map(send, chosen))


async def read_notices(
    objects: Objects, newest: LoadedVersion, left: Iterable[Marker] = ()
) -> VersionNotices:
    """Return the notices of the versions after the one that the last worker loaded.

    That version has no claim, and it needs all markers in `left`.
    """
    versions, left = Versions(objects, newest.state.run.id), tuple(left)
    steps: list[tuple[RunState | None, LoadedVersion]] = []
    version = newest
    try:
        while version.number > 1 and len(steps) < _MAX_VERSIONS:
            before = await versions.load(version.number - 1)
            number, state = before.number, before.state
            steps.append((state, version))
            if state.run.claim is None and all(
                markers.is_needed(marker, number, state) for marker in left
            ):
                break
            version = before
    except ContinuationsError as error:
        text = "run %s: the notices of version %s and earlier ones are not sent: %s"
        _log.warning(text, newest.state.run.id, version.number - 1, error)
        steps.append((None, version))
    if version.number == 1:
        steps.append((None, version))
    found = VersionNotices()
    for earlier, later in reversed(steps):
        found.add(earlier, later)
    return found


async def send_decision(ports: Ports, wait: Wait, result: Decision | Vote) -> None:
    """Send the notice of a decision that this process recorded.

    After a second it goes on beside the caller. If this process ends before, the worker
    that takes the decision in sends the notice.

    Args:
        ports: The notifier.
        wait: The last open wait that the process found.
        result: The decision or the vote. A vote ends no wait.
    """
    if not isinstance(result, Decision):
        return
    if result.wait_id != wait.id or not wait.rules.asks_person:
        return
    notice = notices.DecisionNotice.of(wait, result, result.at)
    task = asyncio.create_task(_send(ports, notice))
    _sending.add(task)
    task.add_done_callback(_sending.discard)
    await asyncio.wait({task}, timeout=_DECIDE_SECONDS)


async def _send(ports: Ports, notice: notices.Notice) -> None:
    """Hand on a notice that `on_notice` has not taken; log what is raised.

    While another task still hands the same notice on, it is handed on twice: that task
    may fail.
    """
    sent = ports.sent_notices
    if ports.on_notice is None or notice.id in sent:
        return
    try:
        await callables.call(ports.on_notice, notice)
    except BaseException as error:
        if callables.is_task_cancellation(error):
            raise
        _log.exception("run %s: on_notice raised for %s", notice.run_id, notice.type)
        return
    sent[notice.id] = None
    if len(sent) > _MAX_SENT:
        sent.pop(next(iter(sent)))
