"""Format outcomes, waits and decisions as lines of text.

Text of models, tools and people is escaped, so that it cannot imitate other lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.rows.decisions import Decision
from continuations.core.rows.wait_rules import WAIT_RULES, WaitRules
from continuations.core.rows.waits import withheld
from continuations.core.visible_text import escape_invisible, indent_escaped
from continuations.engine.outcomes import Failed, Finished, Suspended
from continuations.present import wait_view, wait_words
from continuations.present.json_forms import indented_json
from continuations.present.times import counted
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from continuations import Outcome, RunSummary, Wait, WaitSummary
    from continuations.core.rows.quorum import Vote
    from continuations.ledger.decisions.worklist import ListedWait
    from continuations.prices import Usage

# Longer JSON is laid out with one value per line.
_MAX_INLINE_CHARS = 100

# The line above the facts is the wait id, which contains the run id.
_FACTS_IN_THE_ID = ("Run", "Wait")
# A wait without a decision does not expire: the next sweep ends it, or `unpause`.
_WITHOUT_VERDICTS: frozenset[str] = frozenset(
    kind for kind in WAIT_RULES if not WAIT_RULES[kind].verdicts
)


def outcome_lines(outcome: Outcome) -> Iterator[str]:
    """Yield an outcome; the first line is the name of its class alone."""
    yield type(outcome).__name__
    yield f"run: {escape_invisible(outcome.run_id)}"
    match outcome:
        case Finished():
            yield "output:"
            yield indent_escaped(_output_text(outcome))
            yield f"usage: {usage_text(outcome.usage)}"
        case Failed():
            yield f"error: {escape_invisible(outcome.error.code)}"
            yield indent_escaped(outcome.error.message)
        case Suspended():
            yield from _suspended_lines(outcome)


def _output_text(outcome: Finished) -> str:
    if isinstance(outcome.output, str):
        return outcome.output
    # An output of a declared type is shown as the text that the model wrote.
    return outcome.continuation.output or ""


def _suspended_lines(outcome: Suspended) -> Iterator[str]:
    run_id = escape_invisible(outcome.run_id)
    if not outcome.waits:
        yield "waits: none"
        yield f"next: continuations resume {run_id}"
        return
    yield "waits:"
    for wait in outcome.waits:
        yield f"  {escape_invisible(wait.id)}"
        yield from wait_lines(wait, "    ")
    if outcome.paused:
        yield f"next: continuations resume {run_id}"
        return
    for kind, rules in WAIT_RULES.items():
        waits = [wait for wait in outcome.waits if wait.kind == kind]
        ids = [escape_invisible(wait.id) for wait in waits]
        if ids and rules.ended_by_unpause:
            yield f"next: continuations unpause {run_id}"
        elif ids and not rules.verdicts:
            yield "next: continuations sweep (when the time has come)"
        elif ids:
            wait_id = ids[0] if len(ids) == 1 else "WAIT"
            has_form = any(wait.form_schema is not None for wait in waits)
            yield f"next: {_next_command(rules, wait_id, has_form=has_form)}"
            if rules.takes_events:
                yield f"  or: continuations signal {run_id} NAME --data VALUE"


def _next_command(rules: WaitRules, wait_id: str, *, has_form: bool) -> str:
    first, *others = rules.verdicts
    commands = {"approve": "approve --run-again"} if rules.may_have_run else {}
    alternatives = ", ".join(f"or {commands.get(each, each)}" for each in others)
    values = ["VALUE"] * (first == "answer") + ["--form JSON"] * has_form
    words = ["continuations", first, wait_id, *values]
    return f"{' '.join(words)} ({alternatives})"


def _state_word(wait: WaitSummary) -> str:
    if not wait.expired:
        return "open"
    return "due" if wait.kind in _WITHOUT_VERDICTS else "expired"


def wait_lines(wait: Wait, indent: str = "", agent_state: str = "") -> Iterator[str]:
    """Yield the fields of a wait that a person needs to decide, without the id.

    They have the order of the page of a wait: what is asked, the arguments, the
    reasons, the deadline and the people, the origin.

    Args:
        wait: The wait.
        indent: The beginning of each line.
        agent_state: The stored state of the agent whose call waits, as JSON.
    """
    yield f"{indent}kind: {wait.kind}"
    if wait.display is not None:
        yield from _title_lines(wait, indent)
    yield from _fact_lines(wait_words.asked_facts(wait), indent)
    if wait.subject == "call":
        shown = withheld(wait).arguments_json
        yield from json_field_lines("arguments", shown, indent)
    if wait.display is not None:
        yield from _display_lines(wait, indent)
    if agent_state:
        yield from json_field_lines("state of the agent", agent_state, indent)
    yield from _fact_lines(wait_words.reason_facts(wait), indent)
    yield from _fact_lines(wait_words.consequence_facts(wait), indent)
    yield from _fact_lines(wait_words.origin_facts(wait), indent)


def _title_lines(wait: Wait, indent: str) -> Iterator[str]:
    first = {"Title": wait.title, "Effect": wait_words.effect_text(wait)}
    yield from _fact_lines({k: v for k, v in first.items() if v}, indent)


def _fact_lines(facts: Mapping[str, str], indent: str) -> Iterator[str]:
    for label, fact in facts.items():
        if label not in _FACTS_IN_THE_ID:
            yield f"{indent}{label.lower()}: {escape_invisible(fact)}"


def _display_lines(wait: Wait, indent: str) -> Iterator[str]:
    """Yield the readings of the arguments, the evidence and the agent's words."""
    arguments = wait_view.argument_views(wait)
    readings = {
        place: text for argument in arguments for place, text in argument.places.items()
    }
    secrets = [each.name for each in arguments if each.is_secret]
    if readings or secrets:
        yield f"{indent}readings:"
    for place, text in readings.items():
        yield f"{indent}  {escape_invisible(place)}: {escape_invisible(text)}"
    for name in secrets:
        yield f"{indent}  {escape_invisible(name)}: {wait_words.MASK_NOTE}"
    if wait.evidence:
        yield f"{indent}evidence:"
    for fact in wait_view.fact_views(wait):
        text = escape_invisible(f"{fact.label}: {fact.text}")
        yield f"{indent}  {text}"
    if wait.agent_words is not None:
        words = escape_invisible(wait.agent_words)
        yield f"{indent}agent's words, not checked: {words}"


def json_field_lines(name: str, text: str, indent: str = "") -> Iterator[str]:
    """Yield a JSON text in full, on one line or with one value per line."""
    escaped = escape_invisible(text)
    if len(escaped) <= _MAX_INLINE_CHARS:
        yield f"{indent}{name}: {escaped}"
        return
    yield f"{indent}{name}:"
    yield indent_escaped(indented_json(text), f"{indent}  ")


def title_lines(wait: Wait | None, decided: Decision | Vote) -> Iterator[str]:
    """Yield the title of the call that was decided, as edited if it was."""
    display = None if wait is None else wait.display
    title = None if display is None else display.title
    if display is not None and decided.arguments is not None:
        # The title of a function is that of the other arguments.
        title = display.title_of(jsontext.parse(decided.arguments))
    if title is not None:
        yield f"title: {escape_invisible(title)}"


def decision_text(decision: Decision) -> str:
    """Return the kind, the person and the time of a decision as text."""
    decider = wait_words.decider_text(decision)
    by = f" by {decider}" if decider else ""
    # A deadline has no decider: only `wake` ends a wait by a name before its time.
    is_woken = decision.kind == "expire" and decision.by is not None
    word = "woken" if is_woken else wait_words.DECISION_WORDS[decision.kind].lower()
    return f"{word}{by} at {readable_time(decision.at)}"


def decided_lines(wait: Wait | None, decided: Decision | Vote) -> Iterator[str]:
    """Yield what was recorded, and the next step; after a vote the wait is still open.

    Args:
        wait: The wait, for its title, if it could be read before.
        decided: The recorded decision or vote.
    """
    yield from title_lines(wait, decided)
    run_id = escape_invisible(decided.wait_id.partition("@")[2])
    if isinstance(decided, Decision):
        text, step = decision_text(decided), f"continuations resume {run_id}"
    else:
        word = wait_words.DECISION_WORDS[decided.kind].lower()
        text = f"{word} by {decided.by}: {wait_words.votes_text(decided)}"
        step = f"{decided.still_needed} more must decide the same way"
    yield escape_invisible(text)
    yield f"wait: {escape_invisible(decided.wait_id)}"
    if decided.reason is not None:
        yield f"reason: {escape_invisible(decided.reason)}"
    values = {
        "edited arguments": decided.arguments,
        "value": decided.value,
        "form": decided.form,
    }
    for name, value in values.items():
        if value is not None:
            yield from json_field_lines(name, value)
    yield f"next: {step}"


def wait_table_lines(waits: Sequence[WaitSummary]) -> Iterator[str]:
    """Yield a table of waits, one per line, the id first."""
    # Not rich's table: it takes two seconds for 10,000 waits and cuts wide cells.
    head = ("WAIT", "RUN", "KIND", "OPENED", "STATE")
    rows = [
        (
            wait.id,
            wait.run_id,
            wait.kind,
            readable_time(wait.created_at),
            _state_word(wait),
        )
        for wait in waits
    ]
    return _table_lines(head, rows)


def worklist_lines(rows: Sequence[ListedWait]) -> Iterator[str]:
    """Yield a table of waits with their tools and deadlines, the id first."""
    head = ("WAIT", "KIND", "TOOL", "DEADLINE", "STATE")
    table = [
        (
            row.wait.id,
            row.wait.kind,
            row.wait.tool,
            readable_time(row.wait.deadline) if row.wait.deadline else "",
            "expired" if row.expired else "open",
        )
        for row in rows
    ]
    return _table_lines(head, table)


def run_table_lines(runs: Sequence[RunSummary]) -> Iterator[str]:
    """Yield a table of runs, one per line, the id first."""
    # The columns of threads, only if there are threads.
    some_threads = any(run.thread is not None for run in runs)
    thread_columns = ("THREAD", "MESSAGES") if some_threads else ()
    columns = ("STARTED", "UPDATED", "TITLE", "LABELS")
    head = ("RUN", "STATUS", "AGENT", *thread_columns, *columns)
    rows = [
        (
            run.run_id,
            run.status,
            run.agent,
            *(_thread_cells(run) if some_threads else ()),
            readable_time(run.created_at) if run.created_at else "",
            readable_time(run.updated_at) if run.updated_at else "",
            run.title or "",
            " ".join(f"{name}={value}" for name, value in run.labels.items()),
        )
        for run in runs
    ]
    return _table_lines(head, rows)


def _thread_cells(run: RunSummary) -> tuple[str, str]:
    return ("", "") if run.thread is None else (run.thread, str(run.messages))


def _table_lines(
    head: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> Iterator[str]:
    escaped = [tuple(escape_invisible(cell) for cell in row) for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*escaped, strict=True)]
    for row in escaped:
        cells = zip(row, widths, strict=True)
        yield "  ".join(cell.ljust(width) for cell, width in cells).rstrip()


def usage_text(usage: Usage) -> str:
    """Return the model usage of a run as text."""
    tokens = f"{counted(usage.input_tokens, 'token')} in, {usage.output_tokens:,} out"
    text = f"{counted(usage.requests, 'request')}, {tokens}"
    if not usage.currency:
        return text
    cost = usage.cost
    known = "cost unknown" if cost is None else f"{cost:f} {usage.currency}"
    return f"{text}, {known}"
