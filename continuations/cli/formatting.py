"""Outcomes, waits and decisions as lines to read, everything foreign made visible."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from continuations.cli.wait_status import decision_text
from continuations.core import jsontext
from continuations.engine.outcomes import Failed, Finished, Suspended
from continuations.present.escaping import escape_invisible, indent_escaped
from continuations.present.json_forms import indented_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from continuations import Continuation, Decision, Outcome, Usage, Wait, WaitSummary

# Up to this many characters arguments stand on one line, beyond it one to a line.
_MAX_LINE = 100


def outcome_lines(outcome: Outcome) -> Iterator[str]:
    """Say how a run ended or stands; the first line is the outcome's name alone."""
    yield type(outcome).__name__
    yield f"run: {escape_invisible(outcome.run_id)}"
    match outcome:
        case Finished():
            text = outcome.output
            yield "output:"
            yield indent_escaped(
                text if isinstance(text, str) else _output_text(outcome)
            )
            yield f"usage: {usage_text(outcome.usage)}"
        case Failed():
            yield f"error: {escape_invisible(outcome.error.code)}"
            yield indent_escaped(outcome.error.message)
        case Suspended():
            yield from _suspended_lines(outcome)


def _output_text(outcome: Finished) -> str:
    # Of a declared type: its text as the model said it.
    return outcome.continuation.output or ""


def _suspended_lines(outcome: Suspended) -> Iterator[str]:
    if not outcome.waits:
        yield "waits: none; resume it"
        return
    yield "waits:"
    for wait in outcome.waits:
        yield f"  {escape_invisible(wait.id)}"
        yield from wait_lines(wait, "    ")


def wait_lines(wait: Wait, indent: str = "") -> Iterator[str]:
    """Say all that a decider needs of a wait, but for its id and schema."""
    facts = {
        "kind": wait.kind,
        "path": " > ".join(wait.path),
        "tool": wait.tool,
        "note": wait.note,
        "policy": wait.policy,
        "since": utc_text(wait.created_at),
        "deadline": utc_text(wait.deadline) if wait.deadline else None,
        "valid for": f"{wait.valid_for} s" if wait.valid_for is not None else None,
        "if denied": "the run is stopped" if wait.denial_stops else None,
        "if expired": "the run is stopped" if wait.expiry_stops else None,
    }
    for name, fact in facts.items():
        if fact is not None:
            yield f"{indent}{name}: {escape_invisible(fact)}"
    yield from json_field_lines("arguments", wait.arguments_json, indent)


def json_field_lines(name: str, text: str, indent: str = "") -> Iterator[str]:
    """Say a JSON text whole, on one line or one value to a line."""
    shown = escape_invisible(text)
    if len(shown) <= _MAX_LINE:
        yield f"{indent}{name}: {shown}"
        return
    yield f"{indent}{name}:"
    yield indent_escaped(indented_json(text), f"{indent}  ")


def decision_lines(decision: Decision, run_id: str) -> Iterator[str]:
    """Say which decision stands, and what comes next."""
    yield escape_invisible(decision_text(decision))
    yield f"wait: {escape_invisible(decision.wait_id)}"
    if decision.reason is not None:
        yield f"reason: {escape_invisible(decision.reason)}"
    if decision.arguments is not None:
        yield from json_field_lines("edited arguments", decision.arguments)
    if decision.value is not None:
        yield from json_field_lines("value", decision.value)
    yield f"next: continuations resume {escape_invisible(run_id)}"


def wait_table_lines(waits: Sequence[WaitSummary]) -> Iterator[str]:
    """Say which waits are open, one to a line, the id first."""
    # Not rich's table: it takes two seconds for 10,000 waits, and cuts what is wide.
    rows: list[tuple[str, ...]] = [("wait", "run", "kind", "since")]
    rows += [
        (wait.id, wait.run_id, wait.kind, utc_text(wait.created_at)) for wait in waits
    ]
    rows = [tuple(escape_invisible(cell) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        yield "  ".join(cell.ljust(width) for cell, width in cells).rstrip()


def run_json(continuation: Continuation, ends: Mapping[str, str]) -> dict[str, Any]:
    """Return a run as JSON values; `ends` tells what ended waits that are over."""
    report: dict[str, Any] = jsontext.parse(continuation.to_json())
    for wait in report["waits"]:
        wait["ended"] = ends.get(wait["id"])
    return report


def ascii_json(value: object) -> str:
    """Return JSON in ASCII: whatever cannot be seen is an escape."""
    return json.dumps(value, ensure_ascii=True)


def usage_text(usage: Usage) -> str:
    """Return what a run has cost so far, in words."""
    return (
        f"{usage.requests} requests, {usage.input_tokens} tokens in, "
        f"{usage.output_tokens} out"
    )


def utc_text(time: datetime) -> str:
    """Return a time to the second, in UTC."""
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"
