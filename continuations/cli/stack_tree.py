"""Lay out the stack of a run as a tree of agents, calls and waits.

The layout uses a list of pending branches and no recursion, so a thousand levels work.
Below `MAX_INDENT_DEPTH` the indentation stops growing; a number shows the level.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from continuations.cli.formatting import decision_text, usage_text
from continuations.cli.output import line_with_places
from continuations.core import jsontext
from continuations.core.changes.operator_changes import operator_waits
from continuations.core.reading.views import refused_replies
from continuations.core.rows.attachments import attachments_of_run
from continuations.core.rows.calls import Ready
from continuations.core.visible_text import escape_invisible, indent_escaped
from continuations.engine.arrivals.readiness import is_runnable
from continuations.present.times import counted
from continuations.present.wait_words import wait_facts
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from continuations import Call, Continuation, Frame, Wait
    from continuations.results import Decision

MAX_INDENT_DEPTH = 12
# A terminal shows the calls of this many levels; a line counts those below.
FOLDED_DEPTH = 3
_MAX_FOLDED_IDS = 3
_STATE_STYLES = {
    "waiting": "wait",
    "unknown": "wait",
    "decided": "done",
    "errored": "bad",
    "refused": "bad",
}
_WORD = re.compile(r"[\w.-]+\Z")


class Line(NamedTuple):
    """One line of the tree: the branch characters, the text, and a style."""

    prefix: str
    text: str
    style: str = ""


class _Branch(NamedTuple):
    call: Call
    depth: int
    prefix: str
    child_prefix: str


def header_lines(continuation: Continuation) -> Iterator[Line]:
    """Yield the run, its version, status, usage, claim, error and output."""
    run = continuation.run_state.run
    text = f"{run.id}: {run.status}, version {continuation.version}"
    yield Line("", escape_invisible(text), "head")
    by = f" by {escape_invisible(run.requester)}" if run.requester else ""
    started = f"started {readable_time(run.created_at)}{by}"
    yield Line("", f"{started}; {usage_text(continuation.usage)}")
    if run.thread_key is not None:
        count = (
            f"{counted(run.last_inbox_number, 'message')}, {run.answered:,} answered"
        )
        thread = f"conversation {run.thread_key} with {run.agent}: {count}"
        yield Line("", escape_invisible(thread))
    if run.title:
        yield Line("", f"title: {escape_invisible(run.title)}")
    if run.labels:
        labels = " ".join(f"{name}={value}" for name, value in run.labels)
        yield Line("", f"labels: {labels}")
    if run.claim is not None:
        claim = f"claimed by {run.claim.worker} until {readable_time(run.claim.until)}"
        yield Line("", escape_invisible(claim), "busy")
    for wait in operator_waits(continuation.run_state):
        held = f"held by an operator: {wait.policy or wait.kind}"
        note = f" ({wait.note})" if wait.note else ""
        yield Line("", escape_invisible(held + note), "busy")
    for frame in continuation.run_state.frames.values():
        if frame.model_error is not None:
            reason = frame.model_error
            text = f"the model of agent {frame.agent} gave no usable reply: {reason}"
            yield Line("", escape_invisible(text), "bad")
    yield from _refused_lines(continuation)
    yield from _attachment_lines(continuation)
    if continuation.failure is not None:
        label = "error" if run.thread_key is None else "last reply failed"
        yield Line("", f"{label}: {escape_invisible(continuation.failure.code)}", "bad")
        yield Line("", indent_escaped(continuation.failure.message))
    if continuation.output is not None:
        is_reply = run.thread_key is not None
        yield Line("", "last reply:" if is_reply else "output:")
        yield Line("", indent_escaped(continuation.output))


def _refused_lines(continuation: Continuation) -> Iterator[Line]:
    for refused in refused_replies(continuation.run_state):
        label = f"agent {refused.agent} gave a reply that was refused: {refused.reason}"
        yield Line("", escape_invisible(label), "bad")
        yield Line("", indent_escaped(refused.text or "(no text)"))


def _attachment_lines(continuation: Continuation) -> Iterator[Line]:
    for attachment in attachments_of_run(continuation.run_state):
        shown = escape_invisible(attachment.label)
        yield Line("", f"attachment {shown} {attachment.digest}")


def next_step_lines(continuation: Continuation) -> Iterator[Line]:
    """Yield why no process works on a run that can continue, and the next command."""
    run = continuation.run_state.run
    if operator_waits(continuation.run_state):
        unpause = f"next: continuations unpause {escape_invisible(run.id)}"
        yield Line("", line_with_places(unpause))
    if run.status != "suspended":
        return
    attempts = [
        wait.deadline
        for wait in continuation.waits
        if wait.rules.may_wake and wait.deadline is not None
    ]
    if attempts:
        later = f"the next sweep asks it after {readable_time(min(attempts))}"
        wake = f"next: continuations wake {escape_invisible(run.id)}"
        yield Line("", line_with_places(f"{wake} (asks the model at once; {later})"))
    if not is_runnable(continuation.run_state):
        return
    if run.history_lost:
        yield Line("", "versions of the run were lost, and it was repaired")
    waits = "" if continuation.waits else "no open waits; "
    yield Line("", f"{waits}the run can continue")
    resume = f"next: continuations resume {escape_invisible(run.id)}"
    yield Line("", line_with_places(resume))


def awaits_worker(
    continuation: Continuation, decisions: Mapping[str, Decision]
) -> bool:
    """Return whether a call is approved, and no worker begins it now."""
    state = continuation.run_state
    is_approved = any(each.kind == "approve" for each in decisions.values()) or any(
        isinstance(call.state, Ready) and call.approved_digest is not None
        for call in state.calls.values()
    )
    return state.run.claim is None and is_approved


def tree_lines(
    root: Frame,
    decisions: Mapping[str, Decision],
    now: datetime,
    max_depth: int | None = None,
) -> Iterator[Line]:
    """Yield the tree; `decisions` are the recorded ones, by wait id.

    Calls below `max_depth` are counted in one line, with the ids of some open waits.
    """
    yield Line("", escape_invisible(root.agent), "agent")
    yield from _state_lines(root, "  ")
    if root.wait is not None:
        yield from _wait_lines(root.wait, "  ", decisions, now)
    pending = _branches(root, "", 1)
    while pending:
        branch = pending.pop()
        frame = branch.call.frame
        wait = branch.call.wait if frame is None else frame.wait
        state = "decided" if wait and wait.id in decisions else branch.call.state
        yield Line(branch.prefix, *_call_text(branch.call, frame, state))
        if wait is not None:
            yield from _wait_lines(wait, branch.child_prefix + "  ", decisions, now)
        if frame is not None:
            yield from _state_lines(frame, branch.child_prefix + "  ")
            if max_depth is not None and branch.depth >= max_depth:
                yield from _folded_lines(frame, branch.child_prefix, decisions)
                continue
            pending.extend(_branches(frame, branch.child_prefix, branch.depth + 1))


def _folded_lines(
    top: Frame, indent: str, decisions: Mapping[str, Decision]
) -> Iterator[Line]:
    """Yield the number of the calls below a frame, and the open waits among them."""
    calls: list[Call] = list(top.calls)
    for call in calls:  # grows while it is read
        if call.frame is not None:
            calls.extend(call.frame.calls)
    if not calls:
        return
    found = (c.wait if c.frame is None else c.frame.wait for c in calls)
    open_ids = [wait.id for wait in found if wait and wait.id not in decisions]
    count, waits = counted(len(calls), "call"), counted(len(open_ids), "open wait")
    text = f"… {count} below, {waits} (show them with --all)"
    yield Line(f"{indent}└─ ", text, "wait" if open_ids else "thought")
    for wait_id in open_ids[:_MAX_FOLDED_IDS]:
        yield Line(f"{indent}     ", escape_invisible(wait_id), "copy")


def _state_lines(frame: Frame, indent: str) -> Iterator[Line]:
    if frame.state:
        text = f"state {jsontext.dump(frame.state)}"
        yield Line(indent, escape_invisible(text))


def _branches(frame: Frame, indent: str, depth: int) -> list[_Branch]:
    """Return the branches of a frame's calls in reverse order, for `list.pop`."""
    calls = frame.calls
    if depth > MAX_INDENT_DEPTH:
        prefix = f"{indent}[{depth}] "
        return [_Branch(call, depth, prefix, indent) for call in reversed(calls)]
    branches = [_Branch(call, depth, f"{indent}├─ ", f"{indent}│  ") for call in calls]
    if branches:
        last = branches[-1]
        branches[-1] = last._replace(prefix=f"{indent}└─ ", child_prefix=f"{indent}   ")
    return branches[::-1]


def _call_text(call: Call, frame: Frame | None, state: str) -> tuple[str, str]:
    # A model may invent a tool name that imitates other text, so such a name is quoted.
    # A workflow that waits by itself has calls of `.ask` and so on.
    name = call.tool.removeprefix(".")
    tool = name if _WORD.match(name) else jsontext.dump(call.tool)
    agent = "" if frame is None or frame.agent == call.tool else f" ({frame.agent})"
    tasks = "".join(f"{each} / " for each in call.tasks)
    text = f"{tasks}{tool}{agent} {jsontext.dump(call.shown_arguments)}"
    if frame is not None:
        return escape_invisible(text), "agent"
    return f"{escape_invisible(text)}: {state}", _STATE_STYLES.get(state, "")


def _approvers_text(wait: Wait) -> str:
    facts = wait_facts(wait)
    return "".join(
        f", {label.lower()} {facts[label]}"
        for label in ("Approvers", "Votes")
        if label in facts
    )


def _deadline_label(wait: Wait) -> str:
    # A wait without an object ends at its deadline by itself: its label says for what.
    return "deadline" if wait.rules.has_object else wait.rules.deadline_label.lower()


def _due_words(wait: Wait) -> str:
    if wait.rules.may_wake:
        return "due; the next sweep or resume asks again"
    word = "expired" if wait.rules.verdicts else "due"
    return f"{word}; the next sweep or resume records it"


def _wait_lines(
    wait: Wait, indent: str, decisions: Mapping[str, Decision], now: datetime
) -> Iterator[Line]:
    # The id has a line of its own and is never cut, because people copy it.
    decision = decisions.get(wait.id)
    if decision is not None:
        text = f"{decision_text(decision)}; resume the run"
        yield Line(indent, escape_invisible(text), "done")
    else:
        people = _approvers_text(wait)
        deadline = ""
        if wait.deadline is not None:
            label = _deadline_label(wait)
            deadline = f", {label} {readable_time(wait.deadline)}"
            if now > wait.deadline:
                deadline += f" ({_due_words(wait)})"
        since = readable_time(wait.created_at)
        text = f"waits for {wait.rules.awaited} since {since}{deadline}{people}"
        yield Line(indent, escape_invisible(text), "wait")
    if wait.note is not None:
        yield Line(indent, escape_invisible(wait.note))
    yield Line(indent, escape_invisible(wait.id), "copy")
