"""An agent that pays under a policy, in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations import (
    Runner,
    Suspended,
    tool,
)
from continuations_storage import MemoryStore
from tests.engine import ledgers
from tests.engine.offices import boss

if TYPE_CHECKING:
    from continuations import Outcome, Wait
    from tests.engine.scripts import Script

PAY: Script = {"go": [[["pay", {"cents": 5}]], "end"]}


def payer(policy: Any = True) -> Any:
    """Return the tool `pay` with a policy."""

    def pay(cents: int, to: str = "kim") -> str:
        """Pay."""
        ledgers.add(ledgers.EFFECTS, tool="pay", what=f"{cents} {to}")
        return f"paid {cents} to {to}"

    return tool(pay, approval=policy)


def waiting(runner: Runner, run_id: str = "r1") -> Wait:
    """Start a run and return the wait that it stands at."""
    outcome = runner.start("go", run_id=run_id)
    assert isinstance(outcome, Suspended)
    [wait] = outcome.waits
    return wait


def only(outcome: Outcome) -> Wait:
    """Return the one wait of an outcome."""
    assert isinstance(outcome, Suspended)
    [wait] = outcome.waits
    return wait


def office(policy: object = True, script: Script = PAY, **options: Any) -> Runner:
    """Return a runner of an agent that pays under a policy."""
    options.setdefault("store", MemoryStore())
    return Runner(boss(script, payer(policy)), **options)
