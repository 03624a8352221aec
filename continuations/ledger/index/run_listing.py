"""List the runs of a store: candidates from the index, rows from their versions."""

from __future__ import annotations

import re
from asyncio import gather
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from continuations import errors
from continuations.core.rows.run import ENDED_STATUSES, RUN_STATUSES, is_label
from continuations.ledger import layout
from continuations.ledger.index import run_index
from continuations.ledger.objects import NotFound
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass
from continuations.wire.versions import decode_version
from continuations_storage.contract import is_last_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from datetime import datetime

    from continuations.core.rows.run import RunRow, RunStatus
    from continuations.ledger.objects import Objects
    from continuations.wire.versions import VersionHeader

_PARALLEL_READS = 50
STATUS_FILTERS: frozenset[str] = RUN_STATUSES | {"live", "ended"}
_CURSOR = re.compile(r"(live|ended|label)/(?:[A-Za-z0-9._@=-]+/)?[A-Za-z0-9._-]+\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run in a listing.

    Attributes:
        run_id: Id of the run.
        status: Status of the newest version: `running`, `suspended`, `resting`,
            `finished`, `failed` or `cancelled`. `unreadable` if the version cannot be
            read; then the fields below are empty, and `continuations doctor RUN` tells
            why.
        agent: Name of the root agent.
        title: The subject of the run, as given to `start`.
        labels: The labels, as given to `start`.
        requester: The requester of the run: `by` of `start`.
        thread: The key of a thread; `None` for another run.
        messages: Number of messages that a thread has read; 0 for another run.
        created_at: When the run was started, in UTC.
        updated_at: When the newest version was written; for an ended run, its end.
        version: Number of the newest version.
        cursor: Pass it as `after` to list the runs that follow.
    """

    run_id: str
    status: RunStatus | Literal["unreadable"]
    agent: str = ""
    title: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    requester: str | None = None
    thread: str | None = None
    messages: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 0
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs to list; `None` for all.

    Attributes:
        agents: The names of the root agent, the old ones too.
        status: A status, or a group of them.
        label: A label.
        after: A cursor.
    """

    agents: frozenset[str] | None = None
    status: str | None = None
    label: str | None = None
    after: str = ""

    @classmethod
    def from_arguments(
        cls,
        *,
        agent: object,
        status: object,
        label: object,
        after: object,
        old_names: Callable[[str], Iterable[str]] | None = None,
    ) -> RunFilter:
        """Check the arguments of a listing; raises `InvalidInput`.

        With `old_names`, runs that were stored under an old name of the agent are
        listed too.
        """
        if agent is not None and not isinstance(agent, str):
            msg = f"agent must be an agent's name or None, got {agent!r:.60}."
            raise errors.InvalidInput(msg)
        if status is not None and not (
            isinstance(status, str) and status in STATUS_FILTERS
        ):
            names = ", ".join(sorted(STATUS_FILTERS))
            msg = f"status must be one of {names} or None, got {status!r:.60}."
            raise errors.InvalidInput(msg)
        if label is not None and not (
            isinstance(label, str) and is_label(*label.partition("=")[::2])
        ):
            msg = f"label must be NAME=VALUE, as 'team=finance', got {label!r:.60}."
            raise errors.InvalidInput(msg)
        agents = None if agent is None else frozenset({agent})
        if agent is not None and old_names is not None:
            agents = frozenset({agent, *old_names(agent)})
        chosen = cls(agents=agents, status=status, label=label)
        if after == "":
            return chosen
        sections = chosen.sections()
        if (
            isinstance(after, str)
            and _CURSOR.match(after)
            and any(after.startswith(section) for section in sections)
        ):
            return cls(agents=agents, status=status, label=label, after=after)
        raise errors.InvalidInput(
            f"after must be the cursor of a run of the same listing, got "
            f"{after!r:.60}. "
            "Pass RunSummary.cursor."
        )

    def sections(self) -> tuple[str, ...]:
        """Return the parts of the index to list, without `index/`, in their order."""
        if self.label is not None:
            return (f"label/{self.label}/",)
        if self.status in ("live", "running", "suspended", "resting"):
            return ("live/",)
        return ("live/", "ended/") if self.status is None else ("ended/",)

    def accepts(self, row: RunSummary) -> bool:
        """Return whether a run belongs to the listing."""
        if row.status == "unreadable":
            return self.agents is None and self.status is None
        group = "ended" if row.status in ENDED_STATUSES else "live"
        return (self.agents is None or row.agent in self.agents) and (
            self.status is None or self.status in (row.status, group)
        )


async def list_runs(
    objects: Objects, chosen: RunFilter
) -> AsyncIterator[list[RunSummary]]:
    """Iterate over the runs in batches: live ones by id, then ended ones by day.

    A run that ends meanwhile is listed once. Each row costs a listing and one or two
    reads, at the same time as those of other rows.
    """
    shown: set[str] = set()
    pending = list(chosen.sections())
    after = chosen.after
    while pending and after and not after.startswith(pending[0]):
        pending.pop(0)
    for section in pending:
        async for cursors in _cursors(objects, section, after):
            rows = await gather(*(_read_row(objects, cursor) for cursor in cursors))
            batch = [
                row
                for row in rows
                if row is not None and chosen.accepts(row) and row.run_id not in shown
            ]
            shown.update(row.run_id for row in batch)
            yield batch
        after = ""


async def _cursors(
    objects: Objects, section: str, after: str
) -> AsyncIterator[list[str]]:
    prefix = run_index.INDEX_PREFIX + section
    last = f"{run_index.INDEX_PREFIX}{after}" if after else ""
    while True:
        page = await objects.keys(prefix, last, _PARALLEL_READS)
        yield [key.removeprefix(run_index.INDEX_PREFIX) for key in page]
        if is_last_page(page, _PARALLEL_READS):
            return
        last = page[-1]


async def _read_row(objects: Objects, cursor: str) -> RunSummary | None:
    """Return the run of a key, or `None` if the key is wrong by now."""
    key = run_index.INDEX_PREFIX + cursor
    run_id = run_index.indexed_run_id(key)
    if run_id is None:
        return None  # this library did not write the key
    try:
        found = await read_run(objects, run_id)
    except errors.RunErased:
        # A process that was frozen created the key. This one may have no right to
        # delete it.
        with suppress(errors.StoreError):
            await objects.delete(key)
        return None
    except errors.RunBusy:
        return None  # a copy of the run into this store is not complete
    except errors.FormatError:
        return RunSummary(run_id=run_id, status="unreadable", cursor=cursor)
    if found is None or not await _is_right(objects, key, *found):
        return None
    header, run = found
    return summary_of(
        run,
        version=header.number,
        status=header.status,
        at=header.at,
        messages=header.inbox,
        cursor=cursor,
    )


def summary_of(
    run: RunRow,
    *,
    version: int,
    status: RunStatus,
    at: datetime,
    messages: int,
    cursor: str = "",
) -> RunSummary:
    """Return the summary of a run, from its row and facts of its newest version."""
    return RunSummary(
        run_id=run.id,
        status=status,
        agent=run.agent,
        title=run.title,
        labels=dict(run.labels),
        requester=run.requester,
        thread=run.thread_key,
        messages=messages,
        created_at=run.created_at,
        updated_at=at,
        version=version,
        cursor=cursor,
    )


async def _is_right(
    objects: Objects, key: str, header: VersionHeader, run: RunRow
) -> bool:
    """Return whether a key of the index lists a run rightly, and no better key does."""
    label = run_index.label_in(key)
    if label is not None:
        return label in run.labels
    ended_key = run_index.ended_key(header.run_id, header.at)
    if header.status not in ENDED_STATUSES:
        # A repair brings an ended run back to life, and it may end on another day.
        return key == run_index.live_key(header.run_id)
    return key == ended_key or (
        key == run_index.live_key(header.run_id)
        and await objects.keys(ended_key, limit=1) != [ended_key]
    )


async def read_run(
    objects: Objects, run_id: str
) -> tuple[VersionHeader, RunRow] | None:
    """Return the newest header of a run, and the row of its last full copy.

    The row has everything that never changes. `None`: the store has no such run.

    Raises:
        RunErased: The run was erased.
        RunBusy: A copy of the run into this store is not complete.
        FormatError: The version cannot be read.
        StoreError: The store failed.
    """
    versions = Versions(objects, run_id)
    number = await versions.newest_number()
    if number == 0:
        return None
    try:
        key = layout.version_key(run_id, number)
        data = await objects.read(key)
        header = versions.decode_header(number, data)
        if header.base:
            key = layout.version_key(run_id, header.root)
            carried = header.base_object
            data = await objects.read(key) if carried is None else carried
            versions.decode_header(header.root, data)
    except NotFound:
        return None  # the run was deleted meanwhile
    return header, decode_version(data, key).delta.run
