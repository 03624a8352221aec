"""Hooks and guardrails of the simulation: functions of the arguments alone.

So each process decides alike, and a law can tell what they decided.
"""

from __future__ import annotations

from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import (
    CallInfo,
    ChangeArguments,
    ChangeResult,
    Hooks,
    ResultInfo,
    TurnInfo,
)

# The hook halves this argument.
TOO_MUCH, HALF = "22", "2"
# The first guardrail asks about these arguments.
ASKED = frozenset({"2", "3"})
# The second one refuses these. A person may approve the last one as an edit.
REFUSED = frozenset({"3", "9"})
# The guardrail on the input refuses this task.
REFUSED_TASK = "refused task"
# Results of tools that change the state begin with this line.
CHECKED = "checked"


def halved(what: str) -> str:
    """Return the argument of a call after the hook."""
    return HALF if what == TOO_MUCH else what


def _halve(call: CallInfo) -> ChangeArguments | None:
    what = call.arguments.get("what")
    return ChangeArguments({"what": HALF}) if what == TOO_MUCH else None


def _mark(result: ResultInfo) -> ChangeResult | None:
    marked = result.tool == "keep" and not result.failed
    return ChangeResult(f"{CHECKED}\n{result.text}") if marked else None


def _asks(call: CallInfo) -> Tripped | None:
    asks = call.arguments.get("what") in ASKED
    return Tripped("a person decides") if asks else None


def _refuses(call: CallInfo) -> Tripped | None:
    refuses = call.arguments.get("what") in REFUSED
    return Tripped("never") if refuses else None


def _refuses_task(turn: TurnInfo) -> Tripped | None:
    return Tripped("never") if turn.text == REFUSED_TASK else None


HOOKS = Hooks(before_tool=_halve, after_tool=_mark)
GUARDRAILS = Guardrails(
    input=[Guardrail(check=_refuses_task, name="input")],
    tools=[
        Guardrail(check=_asks, name="asks", on_trip="ask"),
        Guardrail(check=_refuses, name="refuses", on_trip="refuse"),
    ],
)
