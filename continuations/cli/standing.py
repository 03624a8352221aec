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


def standing(runner: Runner, waits: Sequence[Wait]) -> dict[str, str]:
    """Return what ended each of the waits that are over, by their ids."""
    found = portal.call(_found(runner, waits))
    return {wait.id: end for wait, end in zip(waits, found, strict=True) if end}


async def _found(runner: Runner, waits: Sequence[Wait]) -> list[str | None]:
    return await asyncio.gather(*(_end(runner, wait.id) for wait in waits))


async def _end(runner: Runner, wait_id: str) -> str | None:
    try:
        await runner.asynchronous.wait(wait_id)
    except AlreadyDecided as error:
        return said(error.decision)
    except WaitExpired:
        return "expired"
    except Cancelled:
        return "cancelled"
    except WaitNotFound:
        return "over"
    return None


def said(decision: object) -> str:
    """Return a decision in words: what, by whom, when."""
    if not isinstance(decision, Decision):
        return "decided"
    by = f" by {decision.by}" if decision.by else ""
    return f"{decision.kind}{by} at {decision.at.isoformat()}"
