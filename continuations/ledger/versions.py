"""The versions of one run: load one, walk over several, and append the next.

The process that creates version n + 1 has advanced the run. Every other process gets
`StaleRun` and reads the run again. This one rule is the lock, the fence and the
history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.rows.delta import diff
from continuations.core.rows.run import ENDED_STATUSES
from continuations.errors import (
    ContinuationsError,
    Corrupt,
    FormatError,
    RunNotFound,
    StaleRun,
    VersionNotFound,
)
from continuations.ledger import layout
from continuations.ledger.loaded_version import LoadedVersion, RebuiltVersion, Tree
from continuations.ledger.objects import AlreadyExists, NotFound, gather_outcomes
from continuations.ledger.other_runs import check_ids, decode_own_header
from continuations.value_class import dataclass, replace
from continuations.wire.envelope import object_digest
from continuations.wire.versions import (
    VersionHeader,
    check_state,
    decode_version,
    encode_version,
    rebuild_state,
)
from continuations_storage.contract import Changes, Committed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    from continuations.core.rows.state import RunState
    from continuations.ledger.objects import Objects
    from continuations_storage.contract import Listing

    Bases = Mapping[int, RebuiltVersion]
    OnAppend = Callable[[LoadedVersion | None, LoadedVersion], Awaitable[None]]

__all__ = ["LoadedVersion", "RebuiltVersion", "Together", "Versions", "tree_of"]


# The tree of every run that was not repaired.
FIRST_TREE = Tree(root=1)
# A load reads the chain of this tree before it knows the tree of the run.
_MOST_LIKELY_TREE = FIRST_TREE
# Most runs are suspended for the first time by version 2. It carries version 1 if that
# is small, so that one read is enough to resume them.
MAX_CARRIED_BYTES = 4096
# A listing is cheaper than more reads.
_MAX_READ_NUMBERS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """The changes that a store makes together with a version, if it `commits`.

    Attributes:
        creates: Bodies by key; a key that exists keeps its body.
        listing: The keys to list after the version is stored.
        deletes: The keys to delete after that, if it is the newest version then.
        between: The store's time must be between these two; else it raises `OutOfTime`.
    """

    creates: Mapping[str, bytes]
    listing: Listing | None = None
    deletes: tuple[str, ...] = ()
    between: tuple[datetime, datetime] | None = None


def tree_of(header: VersionHeader) -> Tree:
    """Return the tree of deltas that a version belongs to."""
    return Tree(header.root)


def _small_root(tree: Tree, number: int, data: bytes) -> bytes | None:
    is_small = number == tree.root and len(data) <= MAX_CARRIED_BYTES
    return data if is_small else None


def _carried_object(
    tree: Tree, number: int, base: RebuiltVersion | None, state: RunState
) -> bytes | None:
    """Return the bytes of the base, if the version carries them.

    Only a suspended version is loaded by another process as a rule.
    """
    if base is None or state.run.status != "suspended":
        return None
    return base.small_object if tree.follows_root(number) else None


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a version that will be created."""

    number: int
    tree: Tree
    chain: tuple[RebuiltVersion, ...] = ()
    replies: tuple[int, ...] = ()


class Versions:
    """The versions of one run.

    Args:
        objects: The store.
        run_id: The id of the run.
        on_append: Called with each version that was appended, and the one before it.
    """

    def __init__(
        self, objects: Objects, run_id: str, on_append: OnAppend | None = None
    ) -> None:
        self._objects = objects
        self.run_id = run_id
        self._on_append = on_append

    async def newest_number(self) -> int:
        """Return the number of the newest version, or 0."""
        keys = await self._objects.keys(layout.versions_prefix(self.run_id), limit=1)
        number = layout.newest_version_number(keys, self.run_id)
        if self._objects.lists_whole_folders:
            self._objects.recent_versions.keep_listed(self.run_id, number)
        return number

    async def number_after_kept(self) -> int:
        """Return the number of the newest version, without a listing if possible.

        The numbers are dense. So where a listing reads a whole folder, the numbers
        after the version that this process saw last are read, one by one. An erasure
        deletes version 1 before all others: while it exists, no number is missing.
        """
        seen = self._objects.recent_versions.newest_number(self.run_id)
        if not seen or not self._objects.lists_whole_folders:
            return await self.newest_number()
        for number in range(seen + 1, seen + _MAX_READ_NUMBERS):
            if await self._objects.exists(layout.version_key(self.run_id, number)):
                continue
            if await self._objects.exists(layout.version_key(self.run_id, 1)):
                return number - 1
            break
        return await self.newest_number()

    async def newest_header(self) -> VersionHeader | None:
        """Return the header of the newest version, or `None`."""
        number = await self.newest_number()
        try:
            return await self.header(number) if number else None
        except Corrupt:
            # Another process may have erased the run in between.
            newest = await self.newest_number()
            if newest == number:
                raise
        return await self.header(newest)

    async def header(self, number: int) -> VersionHeader:
        """Return the header of a version that exists; raises `Corrupt`."""
        return self.decode_header(number, await self.read(number))

    async def load_newest(self) -> LoadedVersion:
        """Return the newest version; raises `RunNotFound` and `Corrupt`."""
        return await self._load_existing(await self.newest_number())

    async def load_after_kept(self) -> LoadedVersion:
        """Return the newest version as `load_newest`, without a listing if possible."""
        return await self._load_existing(await self.number_after_kept())

    async def _load_existing(self, number: int) -> LoadedVersion:
        if number == 0:
            raise self.run_not_found_error()
        return await self.load(number)

    async def load(
        self, number: int, known: Mapping[int, bytes] | None = None
    ) -> LoadedVersion:
        """Return one version; `known` has the bytes of versions that were just read.

        Raises:
            RunNotFound: The store has no such run or version.
            Corrupt: The version, or one that it needs, is damaged or missing.
            FormatError: One of them has a newer format.
        """
        if number < 1:
            raise self._not_found_error(number)
        # Read this chain at once, then check whether the run has this tree.
        numbers = _MOST_LIKELY_TREE.chain(number)
        if _MOST_LIKELY_TREE.follows_root(number):
            numbers = (number,)
        bodies = {n: data for n, data in (known or {}).items() if n in numbers}
        unread = tuple(n for n in numbers if n not in bodies)
        bodies |= await self._read_chain(unread, allow_missing=True)
        if number not in bodies:
            newest = await self.newest_number()
            if number > newest:
                raise self._not_found_error(number, newest)
            await self.newest_header()  # it raises `RunErased` if the run was erased
            bodies |= await self._read_chain((number,), allow_missing=False)
        header = self.decode_header(number, bodies[number])
        tree = tree_of(header)
        numbers = tree.chain(number)
        if header.base_object is not None and len(numbers) > 1:
            bodies[numbers[1]] = header.base_object
        missing = tuple(n for n in numbers if n not in bodies)
        bodies |= await self._read_chain(missing, allow_missing=False)
        chain = self._rebuild_chain([(n, bodies[n]) for n in reversed(numbers)], tree)
        state = chain[-1].state
        markers = layout.own_markers(header.markers, self.run_id)
        loaded = LoadedVersion(
            number, tree, state, chain, header.at, markers, replies=header.replies
        )
        self._keep(loaded)
        return loaded

    def _rebuild_chain(
        self, bodies: Sequence[tuple[int, bytes]], tree: Tree
    ) -> tuple[RebuiltVersion, ...]:
        """Rebuild versions, the oldest first, each on the one before."""
        kept = self._objects.recent_versions.steps(self.run_id, tree)
        chain: list[RebuiltVersion] = []
        for number, data in bodies:
            step = kept.get(number)
            if step is None or step.digest != object_digest(data):
                # A later version that was kept has another base.
                kept = {}
                base = chain[-1] if chain else None
                step = self._rebuild_version(number, data, base, tree)
            chain.append(step)
        newest = chain[-1]
        if newest.number != max(kept, default=0):
            key = layout.version_key(self.run_id, newest.number)
            check_state(newest.state, key)
            check_ids(newest.state, key)
        return tuple(chain)

    async def rebuild(self, number: int, bases: Bases) -> RebuiltVersion:
        """Read one version, and rebuild it on bases that are known to be whole.

        Raises `Corrupt` or `FormatError` if the version or its base is not readable.
        """
        return self.rebuild_from(await self.read(number), number, bases)

    def rebuild_from(self, data: bytes, number: int, bases: Bases) -> RebuiltVersion:
        """Rebuild one version from its bytes; raises the same as `rebuild`."""
        header = self.decode_header(number, data)
        carried, tree = header.base_object, tree_of(header)
        base = bases.get(header.base)
        if carried is not None:
            base = self._rebuild_version(header.base, carried, None, tree)
        if header.base and base is None:
            key = layout.version_key(self.run_id, number)
            msg = (
                f"{key} cannot be rebuilt: its base, version {header.base}, is damaged "
                "or missing. Restore that version from a backup."
            )
            raise Corrupt(msg, run_id=self.run_id)
        step = self._rebuild_version(number, data, base, tree)
        step.state.read_messages(base.state if base else None)
        known = base.state if base and base.is_checked else None
        check_state(step.state, layout.version_key(self.run_id, number), known)
        return replace(step, is_checked=True)

    async def append(
        self,
        previous: LoadedVersion | None,
        state: RunState,
        *,
        at: datetime,
        marker_keys: tuple[str, ...] = (),
        may_be_stored: bool = False,
        together: Together | None = None,
    ) -> LoadedVersion:
        """Create the next version, or the first one.

        Args:
            previous: The version before, or `None` for the first version.
            state: The new state.
            at: The time of the version.
            marker_keys: The keys of the markers that point at the run.
            may_be_stored: Whether an append with the same arguments was `Inconclusive`.
                If that one was stored, this append succeeds.
            together: More changes of the same request, for a store that `commits`.

        Raises:
            StaleRun: Another process created this version; nothing was written.
            Corrupt: The key exists but is not listed.
            OutOfTime: As `together` states; nothing was written.
            Inconclusive, StoreUnavailable: The caller must stop and read the run again.
        """
        place = _Place(1, FIRST_TREE)
        answered = 0
        if previous is not None:
            place = _Place(
                previous.number + 1, previous.tree, previous.chain, previous.replies
            )
            answered = previous.state.run.answered
        replies = follow(place.replies, answered, state.run.answered, place.number)
        created = await self._create(
            replace(place, replies=replies),
            state,
            at,
            marker_keys,
            may_be_stored=may_be_stored,
            together=together,
        )
        if self._on_append is not None:
            await self._on_append(previous, created)
        return created

    async def append_root(
        self, number: int, state: RunState, old_tree: Tree, *, at: datetime
    ) -> LoadedVersion:
        """Create a version as the root of a new tree: a full copy without a base.

        The new tree counts as the old one does, so that a run keeps its format.
        Raises `StaleRun` if a version with this number exists.
        """
        tree = replace(old_tree, root=number)
        return await self._create(_Place(number, tree), state, at)

    async def _create(
        self,
        place: _Place,
        state: RunState,
        at: datetime,
        marker_keys: tuple[str, ...] = (),
        *,
        may_be_stored: bool = False,
        together: Together | None = None,
    ) -> LoadedVersion:
        number, tree, chain = place.number, place.tree, place.chain
        base = tree.base(number)
        step = next((step for step in chain if step.number == base), None)
        run, claim = state.run, state.run.claim
        is_thread = run.thread_key is not None
        header = VersionHeader(
            run_id=self.run_id,
            number=number,
            root=tree.root,
            base=base,
            base_digest=step.digest if step else None,
            status=run.status,
            at=at,
            claimed_until=claim.until if claim else None,
            markers=marker_keys,
            base_object=_carried_object(tree, number, step, state),
            inbox=run.last_inbox_number if is_thread else 0,
            answered=run.answered if is_thread else 0,
            replies=place.replies if is_thread else (),
        )
        body = encode_version(header, diff(step.state if step else None, state))
        committed = Committed(store_time=None)
        try:
            committed = await self._put(number, body, together)
        except AlreadyExists:
            if not (may_be_stored and await self.read(number) == body):
                raise await self._taken_error(number) from None
        kept = frozenset(tree.chain(number))
        chain = tuple(step for step in chain if step.number in kept)
        small = _small_root(tree, number, body)
        new = RebuiltVersion(number, state, object_digest(body), small)
        time = committed.store_time
        created = LoadedVersion(
            number, tree, state, (*chain, new), at, marker_keys, time, place.replies
        )
        self._keep(created)
        return replace(created, committed=committed)

    async def _put(
        self, number: int, body: bytes, together: Together | None
    ) -> Committed:
        key = layout.version_key(self.run_id, number)
        if together is None:
            return Committed(store_time=await self._objects.create(key, body))
        changes = Changes(
            key=key,
            body=body,
            also=together.creates,
            between=together.between,
            listing=together.listing,
            deletes=together.deletes,
            only_if_first=layout.versions_prefix(self.run_id),
        )
        return await self._objects.commit(changes)

    def _keep(self, version: LoadedVersion) -> None:
        recent = self._objects.recent_versions
        if version.state.run.status in ENDED_STATUSES:
            recent.forget(self.run_id)
        else:
            recent.keep(self.run_id, version)

    async def delete_late(self, number: int) -> None:
        """Delete a version that this process created after the run was erased."""
        await self._objects.delete(layout.version_key(self.run_id, number))

    async def _taken_error(self, number: int) -> StaleRun | Corrupt:
        if await self.newest_number() >= number:
            return self.stale_error(number - 1)
        key = layout.version_key(self.run_id, number)
        msg = (
            f"Version {number} of run {self.run_id} was not written: {key} exists but "
            "the store does not list it, so continuations did not write it. Move it "
            f"out of {layout.run_prefix(self.run_id)} and try again."
        )
        return Corrupt(msg, run_id=self.run_id)

    def run_not_found_error(self) -> RunNotFound:
        """Return the error for a run that has no version."""
        msg = (
            f"run {self.run_id} was not found: this store has no such run. Check the "
            "run id and the store's URL, or list the runs with `continuations runs`."
        )
        return RunNotFound(msg, run_id=self.run_id)

    def _not_found_error(self, number: int, newest: int = 1) -> RunNotFound:
        if newest == 0:
            return self.run_not_found_error()

        return version_not_found_error(self.run_id, number)

    def stale_error(self, number: int) -> StaleRun:
        """Return the error of a process whose version is no longer the newest."""
        msg = (
            f"run {self.run_id} was not advanced: another process advanced it after "
            f"version {number}. Nothing was written here. Look at the run, or resume "
            "it again."
        )
        return StaleRun(msg, run_id=self.run_id)

    async def read(self, number: int) -> bytes:
        """Return the bytes of a version that exists; raises `Corrupt`."""
        key = layout.version_key(self.run_id, number)
        try:
            return await self._objects.read(key)
        except NotFound:
            msg = f"{key} is missing. Restore it from a backup; no object was changed."
            raise Corrupt(msg, run_id=self.run_id) from None

    async def _read_chain(
        self, numbers: tuple[int, ...], *, allow_missing: bool
    ) -> dict[int, bytes]:
        results = await gather_outcomes(self.read(number) for number in numbers)
        bodies: dict[int, bytes] = {}
        for number, result in zip(numbers, results, strict=True):
            if isinstance(result, bytes):
                bodies[number] = result
            elif not (allow_missing and isinstance(result, ContinuationsError)):
                raise result
        return bodies

    def decode_header(self, number: int, data: bytes) -> VersionHeader:
        """Return the header of a version of this run; raises `RunErased`, `Corrupt`."""
        key = layout.version_key(self.run_id, number)
        header = decode_own_header(data, key, self.run_id)
        self._check_identity(header, number)
        return header

    def _rebuild_version(
        self, number: int, data: bytes, base: RebuiltVersion | None, tree: Tree
    ) -> RebuiltVersion:
        key = layout.version_key(self.run_id, number)
        self._check_base(self.decode_header(number, data), base, tree)
        version = decode_version(data, key, base.state.run if base else None)
        state = rebuild_state(base.state if base else None, version.delta, key)
        small = _small_root(tree, number, data)
        return RebuiltVersion(number, state, version.digest, small)

    def _check_identity(self, header: VersionHeader, number: int) -> None:
        key = layout.version_key(self.run_id, number)
        if (header.run_id, header.number) != (self.run_id, number):
            msg = (
                f"{key} is damaged: it contains version {header.number} of run "
                f"{header.run_id}. It was not changed. Restore it from a backup."
            )
            raise Corrupt(msg, run_id=self.run_id)
        if not 1 <= header.root <= number:
            msg = (
                f"{key} is damaged: its root is version {header.root}. It was not "
                "changed. Restore it from a backup."
            )
            raise Corrupt(msg, run_id=self.run_id)
        carried = header.base_object
        if carried is not None and (header.base, header.base_digest) != (
            header.root,
            object_digest(carried),
        ):
            msg = (
                f"{key} is damaged: it carries another object than its base. It was "
                "not changed. Restore it from a backup."
            )
            raise Corrupt(msg, run_id=self.run_id)

    def _check_base(
        self, header: VersionHeader, base: RebuiltVersion | None, tree: Tree
    ) -> None:
        expected = (base.number, base.digest) if base else (0, None)
        counted = tree.base(header.number) == header.base
        made_from = (header.base, header.base_digest)
        if made_from != expected or tree_of(header) != tree or not counted:
            key = layout.version_key(self.run_id, header.number)
            stored = layout.version_key(self.run_id, base.number) if base else "no base"
            msg = (
                f"{key} cannot be rebuilt: it continues another version {header.base} "
                f"than the stored one ({stored}). Nothing was changed. Restore both "
                "versions from one backup."
            )
            raise Corrupt(msg, run_id=self.run_id)


def version_not_found_error(run_id: str, number: int) -> VersionNotFound:
    """Return the error for a number that no version of a run has."""
    msg = (
        f"run {run_id} has no version {number} in this store. List its versions with "
        f"`continuations history {run_id}` or Runner.history()."
    )
    return VersionNotFound(msg, run_id=run_id)


_WIDTH = 16

ReplyTable = tuple[int, ...]


def follow(table: ReplyTable, before: int, after: int, version: int) -> ReplyTable:
    """Return the table of a version.

    Args:
        table: The table of the version before, or an empty one.
        before: Number of the last message that had its reply there.
        after: Number of the last message that has its reply in the version.
        version: Number of the version.
    """
    if after == before:
        return table
    entries: list[int] = []
    for step, first in _levels(after):
        for number in range(first + step, after + 1, step):
            is_new = number > before
            entries.append(version if is_new else _entry(table, before, number, step))
    return tuple(entries)


def nearest_reply(table: ReplyTable, answered: int, number: int) -> tuple[int, int]:
    """Return the nearest later message with an entry, and its version, 0 if unknown.

    Args:
        table: The table of a version.
        answered: Number of the last message that has its reply there.
        number: Number of a message, at most `answered`.
    """
    for step, first in _levels(answered):
        if number > first:
            found = -(-number // step) * step
            return found, _entry(table, answered, found, step)
    return answered, 0  # no message has the number 0


def _levels(answered: int) -> list[tuple[int, int]]:
    """Return the step of each level, and the message before its first one."""
    levels: list[tuple[int, int]] = []
    step = 1
    while step <= answered:
        width = step * _WIDTH
        levels.append((step, (answered - 1) // width * width))
        step = width
    return levels


def _entry(table: ReplyTable, answered: int, number: int, step: int) -> int:
    position = 0
    for level_step, first in _levels(answered):
        if level_step == step:
            position += (number - first) // step - 1
            is_there = number > first and position < len(table)
            return table[position] if is_there else 0
        position += (answered - first) // level_step
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkStep:
    """A version and the state before it.

    Attributes:
        number: Number of the version.
        before: State of the version before. `None` for the first version, and for one
            with which a repair began anew.
        after: State of the version.
        at: When the version was written.
    """

    number: int
    before: RunState | None
    after: RunState
    at: datetime


class VersionWalk:
    """Rebuilds the versions of a run in their order.

    A version that a repair gave up is skipped: the walk goes on with the repair's.

    Attributes:
        number: Number of the last version, 0 at first.
        state: Its state, or `None` at first.
    """

    def __init__(self, objects: Objects, run_id: str) -> None:
        self.number = 0
        self.state: RunState | None = None
        self._objects = objects
        self._versions = Versions(objects, run_id)
        self._bases: dict[int, RebuiltVersion] = {}

    async def go_to(self, number: int) -> None:
        """Load a version, from which the walk goes on; raises `Corrupt`."""
        if number == 0:
            return
        try:
            loaded = await self._versions.load(number)
        except FormatError as error:
            await self._go_before_repair(error, number)
            return
        self.number, self.state = number, loaded.state
        # A load checks the rows of its last version only.
        self._bases = {step.number: step for step in loaded.chain}
        self._bases[number] = replace(loaded.chain[-1], is_checked=True)

    async def next_step(self, *, exists: bool) -> WalkStep | None:
        """Return the next version, or `None` if the store has no such version.

        Args:
            exists: Whether a later version is known. If so, a version that is missing
                is damage.

        Raises:
            RunErased: The run was erased.
            Corrupt, FormatError: The version cannot be read, and no repair follows.
        """
        number = self.number + 1
        try:
            if exists:
                data = await self._versions.read(number)
            else:
                key = layout.version_key(self._versions.run_id, number)
                data = await self._objects.read(key)
            return self._rebuild(number, data)
        except NotFound:
            return None
        except FormatError as error:
            await self._go_before_repair(error, number)
        number = self.number + 1
        return self._rebuild(number, await self._versions.read(number))

    def _rebuild(self, number: int, data: bytes) -> WalkStep:
        header = self._versions.decode_header(number, data)
        step = self._versions.rebuild_from(data, number, self._bases)
        # A root after other versions was made by a repair.
        before = None if header.root == number else self.state
        kept = {*tree_of(header).chain(number)}
        bases = {each: base for each, base in self._bases.items() if each in kept}
        self._bases = {**bases, number: step}
        self.number, self.state = number, step.state
        return WalkStep(number=number, before=before, after=step.state, at=header.at)

    async def _go_before_repair(self, error: FormatError, number: int) -> None:
        """Go to the place before the newest root; raises the error if it is behind."""
        header = await self._versions.newest_header()  # it raises `RunErased`
        if header is None or header.root <= number:
            raise error
        self.number, self.state, self._bases = header.root - 1, None, {}
