"""The doctor at the command line: straight to the ledger, no agent is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.engine import portal
from continuations.engine.ports import Ports
from continuations.ledger import doctor
from continuations.ledger.objects import Objects

if TYPE_CHECKING:
    from continuations import Runner
    from continuations.ledger.examination import Examination


def examined(runner: Runner, run_id: str) -> Examination:
    """Return what is found of a run; writes nothing."""
    return portal.call(doctor.examine(Objects(runner.store), run_id))


def repaired(runner: Runner, found: Examination) -> int | None:
    """Repair a run; returns the number of the new root, `None` if none was needed."""
    machine = Ports()
    now = machine.clock.now()
    mended = portal.call(
        doctor.repair(
            Objects(runner.store),
            found.run_id,
            now=now,
            ulid=lambda: machine.ids.ulid(now),
        )
    )
    return mended.number if mended.number > found.newest else None
