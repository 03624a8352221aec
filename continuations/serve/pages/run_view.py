"""The page of one run: title, state, facts, what it waits for, and one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core.changes.operator_changes import operator_waits
from continuations.core.reading.views import RefusedReply, refused_replies
from continuations.core.rows.calls import STATE_NAMES
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.run import RunRow as Run
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.rows.waits import Wait, withheld
from continuations.core.visible_text import shorten
from continuations.present.times import (
    PageText,
    counted,
    length_text,
    second_view,
    time_view,
)
from continuations.present.wait_view import FactView, fact_views
from continuations.present.wait_words import question
from continuations.serve.pages.model_turns import ModelTurn, tokens_text
from continuations.serve.pages.run_log import arguments_text, is_workflow, message_text
from continuations.serve.pages.run_states import StatePill, run_state
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from continuations.core.usage import Usage
    from continuations.serve.pages.call_arguments import CallArguments
    from continuations.serve.pages.run_rows import RowState, RunRow
    from continuations.serve.pages.working_time import WorkingTime

_TITLE_CHARS = 120
_WAKE_HINT = "The next attempt comes by itself, or with “Ask the model now”."
MAX_BANNER_WAITS = 20
_MAX_TURNS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """The part of the page above the table.

    Attributes:
        run_id: Id of the run.
        thread: Agent and key of a thread, for the link to its conversation, or `None`.
        title: Its title, or the beginning of its input.
        state: Its state.
        facts: Facts about it.
        banner: The reasons why it does not go on, or `None`: `waits`, how many `more`
            there are, a `note` how the run goes on, and whether it `asks` a person.
        output: Final text, or the last reply of a thread.
        failure: Why it failed or was cancelled, or "".
        model_errors: The agents whose model gave no usable reply, with the reasons.
        refused: The last replies that were refused, with the reasons.
        version: Number of the shown version.
        newest: Number of the newest version.
        is_paused: Whether an operator holds it.
        may_resume: Whether it can go on now, and no worker works on it.
        may_wake: Whether it waits for its model, which can be asked now.
        has_ended: Whether it has ended.
        is_workflow: Whether it is a workflow, which reads no messages.
        may_reopen: Whether an approved call waits for a tool that the code here lacks.
    """

    run_id: str
    thread: tuple[str, str] | None
    title: str
    state: StatePill
    facts: tuple[Fact, ...]
    banner: dict[str, Any] | None
    output: str
    failure: str
    model_errors: tuple[tuple[str, str], ...]
    refused: tuple[RefusedReply, ...]
    version: int
    newest: int
    is_paused: bool
    may_resume: bool
    may_wake: bool
    has_ended: bool
    is_workflow: bool
    may_reopen: bool = False


def run_title(state: RunState) -> str:
    """Return the title of a run, or the beginning of its input, or its id.

    A workflow without a title has its name and arguments: `buy(item: pen, cents: 90)`.
    """
    run = state.run
    if run.title:
        return run.title
    if run.thread_key is not None:
        return shorten(f"{run.agent}: {run.thread_key}", _TITLE_CHARS)
    for message in state.logs[ROOT_FRAME_ID].messages:
        if message.role == "user":
            text = message_text(message.data.get("content"), "user").strip()
            if is_workflow(state):
                arguments = arguments_text(text, _TITLE_CHARS).replace("\n", " ")
                text = f"{run.agent}({arguments})"
            line = text.split("\n", 1)[0]
            return shorten(line, _TITLE_CHARS) or run.id
    return run.id


def run_view(
    state: RunState,
    time: WorkingTime,
    *,
    version: int,
    newest: int,
    now: datetime,
    first_version: int = 1,
    decided: Collection[str] = (),
    votes: Mapping[str, str] | None = None,
) -> RunView:
    """Return the part of the page above the table.

    Args:
        state: The state of the run.
        time: Its time axis.
        version: Number of the version.
        newest: Number of the newest version.
        now: The time of the report.
        first_version: Number of the first version that the time axis covers.
        decided: Ids of waits whose decision is recorded, but not yet applied.
        votes: By the id of a wait, how many votes it has.
    """
    run = state.run
    paused = bool(operator_waits(state))
    failure = run.failure
    ended = run.status in ENDED_STATUSES
    works = run.claim is not None and now < run.claim.until
    return RunView(
        run_id=run.id,
        thread=None if run.thread_key is None else (run.agent, run.thread_key),
        title=run_title(state),
        state=run_state(
            state, now, decided=decided, votes=votes or {}, is_old=version < newest
        ),
        facts=run_facts(run, time, now, first_version),
        banner=None
        if ended
        else _banner(state, decided, votes or {}, now, is_old=version < newest),
        output=run.output or "",
        failure="" if failure is None else f"{failure.code}: {failure.message}",
        model_errors=tuple(
            (frame.agent, frame.model_error)
            for frame in state.frames.values()
            if frame.model_error is not None
        ),
        refused=tuple(refused_replies(state)),
        version=version,
        newest=newest,
        is_paused=paused,
        may_resume=not (works or paused) and can_go_on(state, decided),
        may_wake=any(wait.rules.may_wake for wait in state.waits.values()),
        has_ended=ended,
        is_workflow=is_workflow(state),
    )


def can_go_on(state: RunState, decided: Collection[str]) -> bool:
    """Return whether a resume would do something."""
    if state.run.status in ENDED_STATUSES or state.is_suspended:
        return False
    is_decided = any(wait_id in state.waits for wait_id in decided)
    return state.run.status == "running" or is_decided or bool(state.runnable)


# The banner --------------------------------------------------------------------


def _banner(
    state: RunState,
    decided: Collection[str],
    votes: Mapping[str, str],
    now: datetime,
    *,
    is_old: bool,
) -> dict[str, Any] | None:
    waits = sorted(state.waits.values(), key=lambda wait: wait.sort_key())
    # A person can do something about the first ones.
    waits.sort(key=lambda wait: not wait.rules.asks_person)
    shown = [_banner_wait(wait, decided, votes, now) for wait in waits]
    note = _old_note(state) if is_old else _note(state, decided, now)
    if not shown and not note:
        return None
    return {
        "waits": shown[:MAX_BANNER_WAITS],
        "more": max(len(shown) - MAX_BANNER_WAITS, 0),
        "note": note,
        "asks": any(wait.rules.asks_person or wait.rules.may_wake for wait in waits),
    }


def _banner_wait(
    wait: Wait, decided: Collection[str], votes: Mapping[str, str], now: datetime
) -> dict[str, PageText]:
    """Return one reason why a run does not go on; a wait with a page has its id."""
    wait = withheld(wait)
    wait_id = wait.id if wait.rules.has_object else ""
    if wait.id in decided:
        words: PageText = "Decided, not yet resumed"
        return {"words": words, "title": wait_title(wait), "wait_id": wait_id}
    awaited = f"Waits for {wait.rules.awaited}"
    if wait.id in votes:
        awaited += f", {votes[wait.id]}"
    words = awaited
    if wait.deadline is not None and not wait.rules.asks_person:
        left = wait.deadline - now
        rest = f" (in {length_text(left)})" if left.total_seconds() > 0 else ""
        words = (f"{awaited} until ", time_view(wait.deadline, now), rest)
    title = wait_title(wait)
    if wait.rules.may_wake:
        title = f"{wait.note or ''} {_WAKE_HINT}".lstrip()
    return {"words": words, "title": title, "wait_id": wait_id}


def wait_title(wait: Wait) -> str:
    """Return the call or question of a wait; "" for a wait without either."""
    if wait.title is not None and not wait.rules.may_have_run:
        return wait.title
    if wait.rules.may_have_run:
        text = question(wait)
        return f"{text} {wait.title}" if wait.title else text
    if wait.question is not None:
        return wait.question
    if wait.event is not None:
        key = "" if wait.event_key is None else f", key {wait.event_key}"
        return f"{wait.event}{key}"
    if wait.rules.ended_by_unpause:
        return wait.policy or ""
    return question(wait) if wait.rules.has_object else ""


def _note(state: RunState, decided: Collection[str], now: datetime) -> str:
    run = state.run
    if run.claim is not None:
        if now < run.claim.until:
            return "A worker works on it."
        return "Its worker is gone: a resume or the next sweep continues it."
    if run.status == "resting":
        return "The thread waits for its next message; nothing is paid for."
    if can_go_on(state, decided):
        return "A worker, a resume or the next sweep continues it."
    return "Nothing runs; nothing is paid for."


def _old_note(state: RunState) -> str:
    """Return how the run went on, of an older version: it says nothing of today."""
    if state.run.claim is not None:
        return "A worker worked on it."
    return "No worker worked on it."


# One call ----------------------------------------------------------------------


def call_view(
    row: RunRow,
    row_state: RowState,
    state: RunState,
    now: datetime,
    arguments: CallArguments,
) -> dict[str, Any]:
    """Return the selected row of a run, for the template.

    `arguments` are whole; `raw_arguments` is one text, if they are no object.
    `result_goes_to` names the agent that reads the result. `wait_id` is the open wait
    with a page, and `open_call` the id of the call if it can be cancelled. `evidence`
    has the results that the open wait shows, and the names of their rows. `turns` are
    the last ones of its model, and `earlier_turns` says how many more there are. `ids`
    are facts for developers. Without such a thing, a text is empty.
    """
    written = row.arguments_json or ""
    views = arguments.views(row.call_id, written) if written else ()
    wait, call_id = row.wait, row.call_id or ""
    is_open = wait is not None and wait.id in state.waits and wait.rules.has_object
    return {
        "name": row.name,
        "title": "" if wait is None or row.is_group else wait.title or "",
        "state": row_state,
        "path": _path(row),
        "arguments": views or (),
        "raw_arguments": written if views is None else "",
        "result": row.result or "",
        "result_goes_to": row.agent.name if row.agent and not row.is_task else "",
        "wait_id": wait.id if wait is not None and is_open else "",
        "open_call": call_id if call_id in state.calls and row.ended is None else "",
        "evidence": evidence_lines(row, wait) if wait is not None and is_open else (),
        "turns": [_turn_text(turn) for turn in row.turns[-_MAX_TURNS:]],
        "earlier_turns": max(len(row.turns) - _MAX_TURNS, 0),
        "facts": _call_facts(row, now),
        "ids": _call_ids(row, state),
    }


def _turn_text(turn: ModelTurn) -> PageText:
    """Return when the reply of a turn came, how long it took, and what it used."""
    length = "" if turn.begin is None else length_text(turn.end - turn.begin)
    rest = ", ".join(filter(None, (length, turn.tokens)))
    return (second_view(turn.end), f": {rest}" if rest else "")


def _path(row: RunRow) -> tuple[str, ...]:
    names: list[str] = []
    above: RunRow | None = row
    while above is not None:
        names.append(above.name)
        above = above.parent
    return tuple(reversed(names))


def _call_facts(row: RunRow, now: datetime) -> tuple[Fact, ...]:
    facts = [Fact(words="Began", value=time_view(row.began, now))]
    if row.ended is not None:
        facts.append(Fact(words="Ended", value=time_view(row.ended, now)))
    return tuple(facts)


def _call_ids(row: RunRow, state: RunState) -> tuple[Fact, ...]:
    facts: list[Fact] = []
    if row.call_id is not None:
        facts.append(Fact(words="Call", value=row.call_id))
    if row.frame_id is not None:
        facts.append(Fact(words="Frame", value=row.frame_id))
    call = state.calls.get(row.call_id or "")
    if call is not None:
        name = STATE_NAMES[type(call.state)]
        facts.append(Fact(words="Stored state", value=name))
        if call.attempts:
            facts.append(Fact(words="Starts", value=str(call.attempts)))
        if call.grant is not None:
            facts.append(Fact(words="Approved by grant", value=call.grant))
    return tuple(facts)


def evidence_lines(row: RunRow, wait: Wait) -> tuple[tuple[FactView, str], ...]:
    """Return the evidence that a wait keeps, the oldest first.

    Each has the name of its row in addresses, "" if the page does not have it.
    """
    earlier = [
        each
        for each in (row.agent.calls if row.agent else ())
        if each.ended is not None and each is not row
    ]
    lines: list[tuple[FactView, str]] = []
    for fact in reversed(fact_views(wait)):
        names = [each.name for each in earlier]
        key = ""
        if fact.source in names:
            place = len(names) - 1 - names[::-1].index(fact.source)
            key = earlier[place].key
            del earlier[place:]
        lines.append((fact, key))
    return tuple(reversed(lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A fact about a run: words, then the value.

    Attributes:
        words: The meaning of the value.
        value: The value.
        source: The run and version that the value names, for a link; or `None`.
    """

    words: str
    value: PageText
    source: tuple[str, str] | None = None


def run_facts(
    run: Run, time: WorkingTime, now: datetime, first_version: int
) -> tuple[Fact, ...]:
    """Return the facts below the title of a run.

    Args:
        run: The row of the run.
        time: Its time axis.
        now: The time of the report.
        first_version: Number of the first version that the time axis covers.
    """
    asked = time_view(run.created_at, now)
    facts = [Fact(words="agent", value=run.agent)]
    if run.requester is not None:
        value = (f"{run.requester}, ", asked)
        facts.append(Fact(words="asked for by", value=value))
    else:
        facts.append(Fact(words="started", value=asked))
    if run.forked_from is not None:
        run_id, _, version = run.forked_from.rpartition("@")
        fork = f"{run_id}, version {version}"
        facts.append(Fact(words="fork of", value=fork, source=(run_id, version)))
    processes = "1 process" if time.workers == 1 else f"{time.workers} processes"
    worked = f"{length_text(time.worked)} in {processes}"
    if first_version > 1:
        worked += f" since version {first_version}"
    facts.append(Fact(words="worked", value=worked))
    if time.slept:
        facts.append(Fact(words="asleep", value=length_text(time.slept)))
    facts.append(Fact(words="model", value=usage_text(run.usage)))
    facts += [
        Fact(words="label", value=f"{name}={value}") for name, value in run.labels
    ]
    return tuple(facts)


def usage_text(usage: Usage) -> str:
    """Return a usage: `14 requests, 21,460 tokens`; no tokens if none are counted."""
    requests = counted(usage.requests, "request")
    return ", ".join(filter(None, (requests, tokens_text(usage))))
