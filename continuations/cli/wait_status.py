"""How the waits of a version stand now: a decided one is never shown as open."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from continuations.core.decisions import Decision
from continuations.engine import portal
from continuations.errors import AlreadyDecided, Cancelled, WaitExpired, WaitNotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations import Runner, Wait


def wait_endings(runner: Runner, waits: Sequence[Wait]) -> dict[str, str]:
    """Return what ended each of the waits that are over, by their ids."""
    found = portal.run_until_complete(_find_endings(runner, waits))
    return {wait.id: end for wait, end in zip(waits, found, strict=True) if end}


async def _find_endings(runner: Runner, waits: Sequence[Wait]) -> list[str | None]:
    return await asyncio.gather(*(_find_ending(runner, wait.id) for wait in waits))


async def _find_ending(runner: Runner, wait_id: str) -> str | None:
    try:
        await runner.async_runner.wait(wait_id)
    except AlreadyDecided as error:
        return decision_text(error.decision)
    except WaitExpired:
        return "expired"
    except Cancelled:
        return "cancelled"
    except WaitNotFound:
        return "over"
    return None


def decision_text(decision: object) -> str:
    """Return a decision in words: what, by whom, when."""
    if not isinstance(decision, Decision):
        return "decided"
    by = f" by {decision.by}" if decision.by else ""
    return f"{decision.kind}{by} at {decision.at.isoformat()}"
