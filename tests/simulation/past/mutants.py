"""Bugs of forks and rewinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from continuations.core.changes.events import RepeatAllowed
from continuations.core.changes.reducer import advance
from continuations.core.reading import past_rules
from continuations.core.rows.calls import CallRow, Started
from continuations.core.rows.decisions import Verdict
from continuations.core.rows.run import RunRow
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.rows.waits import Wait
from continuations.engine.journal.later_versions import LaterCalls, read_later_calls
from continuations.engine.journal.run_ending import RunEnder
from continuations.engine.past import forking, rewinding
from continuations.engine.past.adoption import Relocation
from continuations.engine.past.forking import Forker
from continuations.engine.past.rewinding import Rewinder
from continuations.ledger.decisions import decisions
from continuations.ledger.loaded_version import LoadedVersion
from continuations.value_class import replace
from tests.simulation.families import PAST, SEAMS
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    gives_back,
    mutants_of,
    patch,
)

mutant = mutants_of(PAST)


@mutant("nothing_is_repeated_unasked")
def tools_of_later_versions_are_forgotten() -> Patches:
    """A fork or rewind forgets which tools were approved and started."""

    async def read(original: Original) -> Any:
        found = await original()
        return LaterCalls(found.begun, (), found.wait_ids)

    yield patch(read_later_calls, read)


@mutant("nothing_is_repeated_unasked")
def started_calls_are_repeated() -> Patches:
    """A call that was started is repeated by a fork or rewind."""

    def repeated(original: Original, state: RunState, call: CallRow) -> Any:
        if isinstance(call.state, Started):
            return advance(state, RepeatAllowed(call_id=call.id))
        return original()

    yield patch(Relocation._with_unfinished_call, repeated)


@mutant("waits_are_asked_anew")
def waits_keep_their_ids() -> Patches:
    """A wait keeps its id when its run is rewound."""

    def moved(original: Original, self: Relocation, wait: Wait) -> Any:
        found = original()
        return replace(found, id=wait.id) if self._stays else found

    yield patch(Relocation._moved_wait, moved)


@mutant("waits_are_asked_anew")
def replaced_waits_stay_open() -> Patches:
    """The waits that a rewind replaces stay open."""

    async def close_waits(original: Original, reason: str | None) -> None:
        if not (reason or "").startswith("The run was rewound"):
            await original()

    yield patch(RunEnder.close_waits, close_waits)


@mutant("begun_rewinds_are_finished")
def a_begun_rewind_is_forgotten() -> Patches:
    """A worker that takes over a run forgets that it is being rewound."""

    async def finish(original: Original, loaded: LoadedVersion) -> Any:
        run = replace(loaded.state.run, rewind_to=loaded.number)
        state = replace(loaded.state, run=run)
        return await original(loaded=replace(loaded, state=state))

    yield patch(Rewinder.finish, finish)


@mutant("no_grant_survives_its_rewind")
def grants_survive_a_rewind() -> Patches:
    """Grants stay valid that were given after the version of a rewind."""

    def rewound(original: Original, newest: RunRow) -> Any:
        return replace(original(), grants=newest.grants)

    yield patch(rewinding._rewound_run, rewound)


@mutant("forks_begin_with_nothing_of_their_own")
def a_fork_has_the_grants_of_its_source() -> Patches:
    """A fork has the grants of its source."""

    def forked(original: Original, source: RunRow) -> Any:
        return replace(original(), grants=source.grants)

    yield patch(past_rules.forked_row, forked)


@mutant("ids_never_go_back")
def usage_goes_back() -> Patches:
    """A rewind forgets what the models cost since its version."""

    def rewound(original: Original, target: RunRow) -> Any:
        return replace(original(), usage=target.usage)

    yield patch(rewinding._rewound_run, rewound)


@mutant("ids_never_go_back", "each_message_once", family=SEAMS)
def messages_are_read_again() -> Patches:
    """A rewound run reads its messages again."""

    def rewound(original: Original, target: RunRow) -> Any:
        number = target.last_inbox_number
        return replace(original(), last_inbox_number=number)

    yield patch(rewinding._rewound_run, rewound)


@mutant("rewinds_tell_what_is_not_undone")
def a_rewind_tells_of_no_call() -> Patches:
    """A rewind does not tell which calls were made."""

    async def rewind(original: Original) -> Any:
        rewound = await original()
        return replace(rewound, calls=())

    yield patch(Rewinder.rewind, rewind)


@mutant("forks_change_no_other_run")
def a_fork_decides_in_its_source() -> Patches:
    """A decision of a fork is recorded in its source too."""

    async def decide(
        original: Original, self: Forker, verdicts: Mapping[str, Verdict]
    ) -> None:
        await original()
        now = self.ports.clock.now()
        for wait_id, verdict in verdicts.items():
            decision_id = self.ports.ids.new_ulid(now)
            await decisions.decide(
                self.objects, wait_id, verdict, now=now, decision_id=decision_id
            )

    yield patch(Forker._decide, decide)


@mutant("a_fork_has_the_transcripts_that_were_asked_for")
def changed_messages_are_forgotten() -> Patches:
    """A fork has the messages of its source instead of the changed ones."""
    yield gives_back(forking.with_messages, "state")


@mutant("models_read_the_changed_messages_of_a_fork")
def messages_of_agents_below_are_not_changed() -> Patches:
    """A fork changes the messages of its root agent only."""

    def with_messages(original: Original, messages: Mapping[str, Any]) -> Any:
        of_root = {key: x for key, x in messages.items() if key == ROOT_FRAME_ID}
        return original(messages=of_root)

    yield patch(forking.with_messages, with_messages)
