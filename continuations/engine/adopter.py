"""Store an adopted run: its first version, its waits and its markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.run import kept_requesters
from continuations.engine import file_moving
from continuations.engine.adoption import adopted_state, source_digest
from continuations.engine.journal import StoreJournal
from continuations.engine.outcomes import outcome_of
from continuations.engine.publishing import Publisher
from continuations.engine.readiness import is_runnable
from continuations.engine.stack_binding import StackBinding
from continuations.errors import InvalidInput, RunExists, RunNotFound, StaleRun
from continuations.ledger.arrivals import Arrivals
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass
from continuations.wire.continuation import Continuation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.authoring.registry import AgentRegistry
    from continuations.core.state import RunState
    from continuations.engine.outcomes import Outcome
    from continuations.engine.ports import Ports
    from continuations.ledger.objects import Objects
    from continuations.ledger.versions import LoadedVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopter:
    """Stores the state of another run as a new, suspended run."""

    objects: Objects
    agent_registry: AgentRegistry
    ports: Ports
    lease: float

    async def adopt(
        self,
        continuation: Continuation,
        run_id: str,
        requester: str | None,
        files: Mapping[str, bytes],
    ) -> Outcome:
        """Create the run, or return the one that an equal call created.

        Raises `InvalidInput` if the run of `source` has ended, and `RunExists` if the
        id belongs to another run.
        """
        source = continuation.run_state
        is_known = await self._is_of_this_store(continuation)
        binding = StackBinding(self.agent_registry)
        state = adopted_state(
            source,
            binding,
            self.ports,
            run_id=run_id,
            requester=requester,
            requesters=kept_requesters(source.run.asked_by if is_known else ()),
        )
        publisher = Publisher(self.objects, self.ports)
        journal = StoreJournal(
            self.objects,
            Versions(self.objects, run_id),
            None,
            self.ports,
            lease=self.lease,
        )
        paused = is_runnable(state)
        await file_moving.give_files(self.objects, journal, state, source.run, files)
        try:
            if paused:
                await journal.make_release_marker()
            await publisher.commit_and_publish(journal, state, state, Arrivals())
        except StaleRun:
            await file_moving.take_back_files(self.objects, state)
            return await self._adopted_before(source, run_id, publisher)
        assert journal.loaded is not None  # noqa: S101 - it was just committed
        return self._outcome(journal.loaded, paused=paused)

    async def _is_of_this_store(self, continuation: Continuation) -> bool:
        """Return whether the run of a continuation is in this store.

        Raises `InvalidInput` if it has gone on since: the calls that it has made would
        be made again. A fork knows them.
        """
        source = continuation.run_state.run
        try:
            newest = await Versions(self.objects, source.id).load_newest()
        except RunNotFound:
            return False
        version = continuation.version
        if newest.state.run.run_nonce != source.run_nonce:
            return False
        if version >= newest.number:
            return True
        msg = (
            f"continuation was not adopted: run {source.id} is in this store and has "
            f"gone on to version {newest.number} since. Fork it: "
            f"runner.fork({source.id!r}, {version})."
        )
        raise InvalidInput(msg, run_id=source.id)

    async def _adopted_before(
        self, source: RunState, run_id: str, publisher: Publisher
    ) -> Outcome:
        """Return the run of an equal call, and publish what that call left undone."""
        loaded = await Versions(self.objects, run_id).load_newest()
        run = loaded.state.run
        if run.input_digest != source_digest(source):
            msg = (
                f"run_id {run_id!r} is taken: that run does not continue this "
                "continuation, and was not changed. Use another run_id."
            )
            raise RunExists(msg, run_id=run_id)
        if run.status == "suspended":
            await publisher.finish_publishing(loaded)
        paused = is_runnable(loaded.state) and run.claim is None
        return self._outcome(loaded, paused=paused)

    def _outcome(self, loaded: LoadedVersion, *, paused: bool) -> Outcome:
        agent = self.agent_registry.find_root_agent(loaded.state.run.agent)
        continuation = Continuation(loaded.state, loaded.number)
        return outcome_of(continuation, agent, paused=paused)
