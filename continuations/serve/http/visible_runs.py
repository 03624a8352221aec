"""Responses about several runs, without those that the sender may not view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.serve.http.request_context import RequestContext


async def of_publication(
    context: RequestContext, form: dict[str, Any]
) -> dict[str, Any]:
    """Return the response to an event without the runs that the sender may not view."""
    shown = await _visible(context, form["run_ids"])
    return {
        **form,
        **{name: [each for each in form[name] if each in shown] for name in _OF_EVENTS},
    }


_OF_EVENTS = ("run_ids", "woken")


async def of_sweep(context: RequestContext, form: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a sweep without the runs that the sender may not view."""
    resumed, failed = form["resumed"], form["failed"]
    ids = [*(row["run_id"] for row in resumed), *failed, *form["skipped"]]
    shown = await _visible(context, ids)
    return {
        **form,
        "resumed": [row for row in resumed if row["run_id"] in shown],
        "failed": {key: slug for key, slug in failed.items() if key in shown},
        "skipped": [key for key in form["skipped"] if key in shown],
    }


async def _visible(context: RequestContext, run_ids: Iterable[str]) -> set[str]:
    return {each for each in dict.fromkeys(run_ids) if await context.may("view", each)}
