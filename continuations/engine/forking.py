"""Fork a run: a new run that goes on from a version of another run.

An approval, a digest and an idempotency key belong to one run. So a fork asks again for
everything that the other run was allowed to do, and about everything that it started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.past_rules import forked_row
from continuations.core.run import kept_requesters
from continuations.engine import file_moving, fork_changes
from continuations.engine.adoption import Relocation
from continuations.engine.journal import StoreJournal
from continuations.engine.later_versions import LaterCalls, read_later_calls
from continuations.engine.publishing import Publisher
from continuations.engine.readiness import is_runnable
from continuations.engine.stack_binding import StackBinding
from continuations.errors import RunExists, StaleRun
from continuations.ledger import decisions
from continuations.ledger.arrivals import Arrivals
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.authoring.registry import AgentRegistry
    from continuations.core.decisions import Decision, Verdict
    from continuations.core.doors import Door
    from continuations.core.run import RunRow
    from continuations.core.state import RunState
    from continuations.core.waits import Wait
    from continuations.engine.ports import Ports
    from continuations.ledger.loaded_version import LoadedVersion
    from continuations.ledger.objects import Objects
    from continuations.ledger.voting import GroupsOf

_STORED_FIELDS = ("kind", "by", "reason", "arguments", "value", "form", "grant_json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkChanges:
    """The things that differ in a fork.

    Attributes:
        verdicts: Verdicts by the ids of waits of the version that is forked.
        results: Results by the ids of calls.
        messages: A message more, or other messages, by the ids of frames.
    """

    verdicts: Mapping[str, Verdict]
    results: Mapping[str, Any]
    messages: Mapping[str, Any]

    @classmethod
    def from_arguments(
        cls, decisions: object, results: object, messages: object
    ) -> ForkChanges:
        """Check the types of the arguments; raises `InvalidInput`."""
        return cls(
            verdicts=fork_changes.as_mapping(decisions, "decisions"),
            results=fork_changes.as_mapping(results, "results"),
            messages=fork_changes.as_mapping(messages, "messages"),
        )

    def apply(self, source: RunState, version: int) -> RunState:
        """Return the state with other messages and results; raises `InvalidInput`."""
        fork_changes.check_ids(self.verdicts, source.waits, "decisions", "open wait")
        fork_changes.check_can_go_on(source, version, self.messages)
        state = fork_changes.with_results(source, self.results)
        state = fork_changes.with_messages(state, self.messages)
        fork_changes.check_ids(self.verdicts, state.waits, "decisions", "open wait")
        return state


@dataclass(frozen=True, slots=True, kw_only=True)
class Forker:
    """Stores a new run that goes on from a version of another run."""

    objects: Objects
    agent_registry: AgentRegistry
    ports: Ports
    lease: float
    groups_of: GroupsOf | None = None
    requester: str | None = None

    async def fork(
        self,
        run_id: str,
        version: int | None,
        changes: ForkChanges,
        new_id: str,
        door: Door,
    ) -> str:
        """Create the run, or complete the one that an equal call created.

        The version comes first, then the decisions. A repeat records those that are
        missing. Raises `InvalidInput`, `DecisionRefused`, `RunExists` and the errors of
        the store.
        """
        versions = Versions(self.objects, run_id)
        newest = await versions.newest_number()
        source = await (
            versions.load_newest() if version is None else versions.load(version)
        )
        source.state.read_messages()
        changed = changes.apply(source.state, source.number)
        later = await read_later_calls(
            self.objects, run_id, source.state, (source.number, newest)
        )
        state = self._forked_state(source, changed, later, new_id)
        checked = await self._checked_decisions(state, changed, changes.verdicts)
        digest = _fork_digest(source, changes, checked)
        state = replace(state, run=replace(state.run, input_digest=digest))
        first = await self._create(state, source.state.run)
        await self._decide(first, changed, changes.verdicts, door)
        return new_id

    def _forked_state(
        self,
        source: LoadedVersion,
        changed: RunState,
        later: LaterCalls,
        new_id: str,
    ) -> RunState:
        now = self.ports.clock.now()
        tools = {*changed.run.doubtful_tools, *later.tools}
        run = forked_row(
            changed.run,
            id=new_id,
            run_nonce=self.ports.ids.new_ulid(now),
            created_at=now,
            input_digest="",  # the caller adds that of its arguments
            status="running",
            requester=self.requester,
            # They asked for the work that goes on here.
            requesters=kept_requesters(changed.run.asked_by),
            doubtful_tools=tuple(sorted(tools)),
            forked_from=f"{changed.run.id}@{source.number}",
        )
        relocation = Relocation(
            changed,
            StackBinding(self.agent_registry),
            self.ports,
            now,
            begun_later=later.begun_ids,
            answered_later=later.answered_ids,
            renews_waits=True,
        )
        return relocation.move(run)

    async def _checked_decisions(
        self, state: RunState, changed: RunState, verdicts: Mapping[str, Verdict]
    ) -> dict[str, Decision]:
        """Return the decisions by old wait id; raises what `decide` would raise."""
        now = self.ports.clock.now()
        found: dict[str, Decision] = {}
        for wait_id, verdict in verdicts.items():
            wait = _wait_in_fork(state, changed.waits[wait_id])
            proposed = decisions.build_decision(
                wait, verdict, now=now, decision_id=self.ports.ids.new_ulid(now)
            )
            if wait.quorum is not None:
                from continuations.ledger import voting  # noqa: PLC0415 - rarely needed

                groups_of = self.groups_of
                proposed = await voting.checked_voter(wait, proposed, groups_of)
            found[wait_id] = proposed
        return found

    async def _create(self, state: RunState, source: RunRow) -> RunState:
        """Create the first version, or return that of an equal call."""
        run_id = state.run.id
        publisher = Publisher(self.objects, self.ports)
        versions = Versions(self.objects, run_id)
        journal = StoreJournal(
            self.objects, versions, None, self.ports, lease=self.lease
        )
        await file_moving.give_files(self.objects, journal, state, source, {})
        try:
            if is_runnable(state):
                await journal.make_release_marker()
            await publisher.commit_and_publish(journal, state, state, Arrivals())
        except StaleRun:
            await file_moving.take_back_files(self.objects, state)
            return await self._created_before(state, versions, publisher)
        return state

    async def _created_before(
        self, state: RunState, versions: Versions, publisher: Publisher
    ) -> RunState:
        newest = await versions.load_newest()
        if newest.state.run.input_digest != state.run.input_digest:
            msg = (
                f"run_id {versions.run_id!r} is taken: that run is no equal fork, and "
                "was not changed. Use another run_id."
            )
            raise RunExists(msg, run_id=versions.run_id)
        if newest.state.run.status == "suspended":
            await publisher.finish_publishing(newest)
        return newest.state if newest.number == 1 else (await versions.load(1)).state

    async def _decide(
        self,
        first: RunState,
        changed: RunState,
        verdicts: Mapping[str, Verdict],
        door: Door,
    ) -> None:
        for wait_id, verdict in verdicts.items():
            now = self.ports.clock.now()
            await decisions.decide(
                self.objects,
                _wait_in_fork(first, changed.waits[wait_id]).id,
                verdict,
                now=now,
                decision_id=self.ports.ids.new_ulid(now),
                groups_of=self.groups_of,
                door=door,
            )


def _wait_in_fork(state: RunState, wait: Wait) -> Wait:
    """Return the wait of a fork that a wait of the other run became.

    Calls and frames keep their ids, and each has at most one wait.
    """
    subject = (wait.call_id, wait.frame_id)
    return next(
        each
        for each in state.waits.values()
        if (each.call_id, each.frame_id) == subject
    )


def _fork_digest(
    source: LoadedVersion, changes: ForkChanges, checked: Mapping[str, Decision]
) -> str:
    """Return a digest that recognizes a repeated fork with the same arguments."""
    stored = {
        wait_id: [getattr(each, name) for name in _STORED_FIELDS]
        for wait_id, each in checked.items()
    }
    given = [stored, dict(changes.results), dict(changes.messages)]
    run = source.state.run
    parts = (run.id, run.run_nonce, str(source.number), jsontext.canonical(given))
    return jsontext.digest("forked", *parts)
