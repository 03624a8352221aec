"""Outcomes, waits and decisions as lines to read, everything foreign made visible."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from continuations.cli.standing import said
from continuations.core import jsontext
from continuations.engine.outcomes import Failed, Finished, Suspended
from continuations.engine.reports import laid_out
from continuations.engine.visible import quoted, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from continuations import Continuation, Decision, Outcome, Usage, Wait, WaitSummary

# Up to this many characters arguments stand on one line, beyond it one to a line.
_WIDE = 100


def outcome_lines(outcome: Outcome) -> Iterator[str]:
    """Say how a run ended or stands; the first line is the outcome's name alone."""
    yield type(outcome).__name__
    yield f"run: {visible(outcome.run_id)}"
    match outcome:
        case Finished():
            text = outcome.output
            yield "output:"
            yield quoted(text if isinstance(text, str) else _raw_output(outcome))
            yield f"usage: {usage(outcome.usage)}"
        case Failed():
            yield f"error: {visible(outcome.error.code)}"
            yield quoted(outcome.error.message)
        case Suspended():
            yield from _suspended_lines(outcome)


def _raw_output(outcome: Finished) -> str:
    # Of a declared type: its text as the model said it.
    return outcome.continuation.output or ""


def _suspended_lines(outcome: Suspended) -> Iterator[str]:
    if not outcome.waits:
        yield "waits: none; resume it"
        return
    yield "waits:"
    for wait in outcome.waits:
        yield f"  {visible(wait.id)}"
        yield from wait_lines(wait, "    ")


def wait_lines(wait: Wait, indent: str = "") -> Iterator[str]:
    """Say all that a decider needs of a wait, but for its id and schema."""
    facts = {
        "kind": wait.kind,
        "path": " > ".join(wait.path),
        "tool": wait.tool,
        "note": wait.note,
        "policy": wait.policy,
        "since": when(wait.created_at),
        "deadline": when(wait.deadline) if wait.deadline else None,
        "valid for": f"{wait.valid_for} s" if wait.valid_for is not None else None,
        "if denied": "the run is stopped" if wait.denial_stops else None,
        "if expired": "the run is stopped" if wait.expiry_stops else None,
    }
    for name, fact in facts.items():
        if fact is not None:
            yield f"{indent}{name}: {visible(fact)}"
    yield from json_lines("arguments", wait.arguments_json, indent)


def json_lines(name: str, text: str, indent: str = "") -> Iterator[str]:
    """Say a JSON text whole, on one line or one value to a line."""
    shown = visible(text)
    if len(shown) <= _WIDE:
        yield f"{indent}{name}: {shown}"
        return
    yield f"{indent}{name}:"
    yield quoted(laid_out(text), f"{indent}  ")


def decision_lines(decision: Decision, run_id: str) -> Iterator[str]:
    """Say which decision stands, and what comes next."""
    yield visible(said(decision))
    yield f"wait: {visible(decision.wait_id)}"
    if decision.reason is not None:
        yield f"reason: {visible(decision.reason)}"
    if decision.arguments is not None:
        yield from json_lines("edited arguments", decision.arguments)
    if decision.value is not None:
        yield from json_lines("value", decision.value)
    yield f"next: continuations resume {visible(run_id)}"


def table_lines(waits: Sequence[WaitSummary]) -> Iterator[str]:
    """Say which waits are open, one to a line, the id first."""
    # Not rich's table: it takes two seconds for 10,000 waits, and cuts what is wide.
    rows: list[tuple[str, ...]] = [("wait", "run", "kind", "since")]
    rows += [(wait.id, wait.run_id, wait.kind, when(wait.since)) for wait in waits]
    rows = [tuple(visible(cell) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        yield "  ".join(cell.ljust(width) for cell, width in cells).rstrip()


def run_json(continuation: Continuation, ends: Mapping[str, str]) -> dict[str, Any]:
    """Return a run as JSON values; `ends` tells what ended waits that are over."""
    report: dict[str, Any] = jsontext.parse(continuation.to_json())
    report["run"]["usage"] = asdict(continuation.usage)
    for wait in report["waits"]:
        wait["ended"] = ends.get(wait["id"])
    return report


def json_text(value: object) -> str:
    """Return JSON in ASCII: whatever cannot be seen is an escape."""
    return json.dumps(value, ensure_ascii=True)


def usage(used: Usage) -> str:
    """Return what a run has cost so far, in words."""
    return (
        f"{used.requests} requests, {used.input_tokens} tokens in, "
        f"{used.output_tokens} out"
    )


def when(time: datetime) -> str:
    """Return a time to the second, in UTC."""
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"
