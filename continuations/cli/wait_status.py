"""Find out which waits of a version are already closed, so none is shown as open."""

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
    """Return how each closed wait ended, by wait id; open waits are left out."""
    endings = portal.run_until_complete(_find_endings(runner, waits))
    return {wait.id: end for wait, end in zip(waits, endings, strict=True) if end}


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
        return "closed"
    return None


def decision_text(decision: object) -> str:
    """Return the kind, the person and the time of a decision as text."""
    if not isinstance(decision, Decision):
        return "decided"
    by = f" by {decision.by}" if decision.by else ""
    return f"{decision.kind}{by} at {decision.at.isoformat()}"
