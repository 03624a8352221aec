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
from continuations.errors import (
    InvalidInput,
    RunErased,
    RunExists,
    RunNotFound,
    StaleRun,
)
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
        publisher = Publisher(self.objects, self.ports)
        try:
            is_known = await self._is_of_this_store(source)
        except (InvalidInput, RunErased):
            # A repeat returns the run of the first call, whatever became of its source.
            adopted = await self._adopted_before(source, run_id, publisher)
            if adopted is None:
                raise
            return adopted
        state = adopted_state(
            source,
            StackBinding(self.agent_registry),
            self.ports,
            run_id=run_id,
            requester=requester,
            requesters=kept_requesters(source.run.asked_by if is_known else ()),
        )
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
            adopted = await self._adopted_before(source, run_id, publisher)
            if adopted is None:
                msg = (
                    f"run_id {run_id!r} is taken: that run does not continue this "
                    "continuation, and was not changed. Use another run_id."
                )
                raise RunExists(msg, run_id=run_id) from None
            return adopted
        assert journal.loaded is not None  # noqa: S101 - it was just committed
        return self._outcome(journal.loaded, paused=paused)

    async def _is_of_this_store(self, source: RunState) -> bool:
        """Return whether the run of a continuation is in this store, in this state.

        Raises `InvalidInput` if it is in another state: one of the two has made calls
        of which the other does not know, and they would be made again. A fork knows
        them. Raises `RunErased` if it was erased.
        """
        run_id = source.run.id
        try:
            newest = await Versions(self.objects, run_id).load_newest()
        except RunNotFound:
            return False
        except RunErased as error:
            msg = (
                f"continuation was not adopted: run {run_id} was erased from this "
                "store. Adopt the continuation into another store, or start a new run."
            )
            raise RunErased(msg, run_id=run_id) from error
        if newest.state.run.run_nonce != source.run.run_nonce:
            return False
        if _is_same_work(newest.state, source):
            return True
        msg = (
            f"continuation was not adopted: run {run_id} is in this store, and its "
            f"newest version {newest.number} is in another state. Go on with that "
            f"run: runner.resume({run_id!r}). Or fork one of its versions: "
            f"runner.fork({run_id!r}, version)."
        )
        raise InvalidInput(msg, run_id=run_id)

    async def _adopted_before(
        self, source: RunState, run_id: str, publisher: Publisher
    ) -> Outcome | None:
        """Return the run of an equal call, and publish what that call left undone.

        Return `None` if no equal call made a run with this id.
        """
        try:
            loaded = await Versions(self.objects, run_id).load_newest()
        except RunNotFound:
            return None
        run = loaded.state.run
        if run.input_digest != source_digest(source):
            return None
        if run.status == "suspended":
            await publisher.finish_publishing(loaded)
        paused = is_runnable(loaded.state) and run.claim is None
        return self._outcome(loaded, paused=paused)

    def _outcome(self, loaded: LoadedVersion, *, paused: bool) -> Outcome:
        agent = self.agent_registry.find_root_agent(loaded.state.run.agent)
        continuation = Continuation(loaded.state, loaded.number)
        return outcome_of(continuation, agent, paused=paused)


def _is_same_work(one: RunState, other: RunState) -> bool:
    """Return whether two states of a run have the same agents, messages and calls.

    And both know of the same calls that a rewind left, or that a repair lost. Numbers
    of versions tell nothing: a continuation that went on without a store counts its
    own.
    """
    return (
        (one.run.doubtful_tools, one.run.history_lost)
        == (other.run.doubtful_tools, other.run.history_lost)
        and one.frames == other.frames
        and one.calls == other.calls
        and {key: log.messages for key, log in one.logs.items()}
        == {key: log.messages for key, log in other.logs.items()}
    )
