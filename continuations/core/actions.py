"""Wishes: what the core asks the engine to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the frame's model for its next reply."""

    frame: str


@dataclass(frozen=True, slots=True)
class Examine:
    """Find the call's tool, validate its arguments, ask its approval policy."""

    call: str


@dataclass(frozen=True, slots=True)
class Begin:
    """Record the intent to run the call, or enter the agent that it calls."""

    call: str


@dataclass(frozen=True, slots=True)
class Run:
    """Run the call: its intent is recorded."""

    call: str


@dataclass(frozen=True, slots=True)
class Verify:
    """Ask the tool whether a call of unknown outcome happened."""

    call: str


Action: TypeAlias = Ask | Examine | Begin | Run | Verify
