"""The decision of a wait: deadline, votes, and the forms that one person may post."""

from __future__ import annotations

import re
from dataclasses import field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.rows.decisions import Decision, DecisionKind, VerdictKind
from continuations.core.rows.quorum import GROUP_PREFIX, Vote
from continuations.core.rows.slots import ENDING_ALONE, find_own_vote
from continuations.core.rows.waits import TEXT_SCHEMA, Wait, withheld
from continuations.present import wait_words
from continuations.present.json_forms import MAX_TEXT_CHARS
from continuations.present.times import PageText, left_view, time_view
from continuations.present.wait_words import decision_word, votes_text
from continuations.serve.pages.form_view import (
    FieldView,
    FormFields,
    RefusedForm,
    error_text,
)
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


# A longer amount does not fit a button; the title has it.
_MAX_AMOUNT_CHARS = 20
_ALMOST_A_MINUTE = timedelta(microseconds=59_999_999)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """The person who reads the page of a wait, and what this person may do.

    Attributes:
        verdicts: The verdicts that the person may give.
        objection: Why there is no form, or an empty text.
        own_vote: The vote of this person that counts already, or `None`.
        texts: The posted texts of a form that was refused, by field names.
        posted: The verdict of that form.
        errors: Why its values were refused, by pointers into the value.
    """

    verdicts: tuple[VerdictKind, ...] = ()
    objection: str = ""
    own_vote: Vote | None = None
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    posted: str = ""
    errors: Mapping[str, str] = field(default_factory=dict[str, str])

    def with_errors(
        self, fields: Mapping[str, str], errors: Mapping[str, str]
    ) -> Decider:
        """Return the person with a posted form that was refused."""
        posted = fields.get("decision", "")
        return replace(self, texts=fields, posted=posted, errors=errors)


def decider_of(
    wait: Wait,
    person: str,
    allowed: Collection[VerdictKind] | None = None,
    groups: Collection[str] | None = None,
) -> Decider:
    """Return what a person may do with an open wait.

    Args:
        wait: The wait, with its votes.
        person: The name of the person.
        allowed: The verdicts that the door of the person allows; `None`: all.
        groups: The groups of the person; `None`: they are looked up when the person
            decides, so nothing is said about them before.
    """
    offered = wait.rules.verdicts
    kinds: list[VerdictKind] = [k for k in offered if allowed is None or k in allowed]
    own = find_own_vote(wait, person)
    if own is not None:
        # The first vote of a person counts, and a denial still ends the wait.
        left: list[VerdictKind] = [kind for kind in kinds if kind in ENDING_ALONE]
        return Decider(verdicts=tuple(left), own_vote=own)
    objection = _objection(wait, person, groups)
    if objection:
        return Decider(objection=objection)
    return Decider(verdicts=tuple(kinds))


def _objection(wait: Wait, person: str, groups: Collection[str] | None) -> str:
    """Return why a person may not decide, or an empty text."""
    quorum = wait.quorum
    if quorum is None or (groups is None and quorum.needs_groups_of(person)):
        return ""
    found = quorum.objection(person, groups or ())
    if found is None:
        return ""
    return f"You cannot decide this: {found.why.replace(GROUP_PREFIX, 'the group ')}."


@dataclass(frozen=True, slots=True, kw_only=True)
class FormView:
    """One form, which gives one verdict.

    Attributes:
        verdict: The verdict that it posts.
        claim: The statement of the person, and its consequence.
        says_claim: Whether a page shows it: otherwise the page and the button do.
        effect: The consequence of the button in a sentence that a reader cannot miss,
            where neither the title nor the button says it; or an empty text.
        warning: A danger, shown beside the button; or an empty text.
        closed_until: When the button can be pressed, and why not yet; or an empty text.
        opens_in: Seconds until then, rounded up; 0 for a button that can be pressed.
        label: The words of the button.
        tone: The class of the button: `primary`, `danger` or an empty text.
        reason: The label of the field for the reason.
        reason_text: The reason that was posted.
        is_reason_folded: Whether the field for the reason is folded. A page shows it
            below all forms.
        is_typed: Whether the fields have names with types.
        fields: The fields of the value.
        errors: Why the form was refused, where no field has the reason.
        focus: The id of the first field with an error, or an empty text.
    """

    verdict: str
    claim: str
    says_claim: bool
    effect: str
    warning: str
    closed_until: PageText
    opens_in: int
    label: str
    tone: str
    reason: str
    reason_text: str
    is_reason_folded: bool
    is_typed: bool
    fields: tuple[FieldView, ...]
    errors: tuple[str, ...]
    focus: str


def decision_view(wait: Wait, decider: Decider, now: datetime) -> dict[str, Any]:
    """Return where and how a person decides a wait.

    `left` is the time until the deadline, "" without one; `waits_for` has the votes
    that are missing, in words. `answer` is the form behind "Answer instead", or `None`.
    `question` stands above the forms, where they are statements of the person.
    `reasons` has the words above their folded reasons, "" without one.
    """
    offered = wait.rules.verdicts
    kinds: list[VerdictKind] = [kind for kind in offered if kind in decider.verdicts]
    is_folded = wait.rules.follows_policy and "answer" in kinds
    shown: list[VerdictKind] = [
        kind for kind in kinds if not (is_folded and kind == "answer")
    ]
    return {
        "left": "" if wait.deadline is None else left_view(wait.deadline, now),
        "question": "What did you find?" if wait.rules.may_have_run else "",
        "waits_for": _waits_for(wait, decider),
        "objection": decider.objection,
        "forms": [form_view(wait, kind, decider, now) for kind in shown],
        "reasons": _reasons_words(wait, shown),
        "answer": form_view(wait, "answer", decider, now) if is_folded else None,
        # Whether a form says what a denial does.
        "may_deny": "deny" in decider.verdicts,
    }


def recorded_view(result: Decision | Vote, wait: Wait | None) -> dict[str, str]:
    """Return a recorded decision or vote in words, with its effect and consequence.

    Args:
        result: The recorded decision or vote.
        wait: The wait before it, or `None` if the person may not read it.
    """
    word = decision_word(result.wait_id, result.kind)
    run_id = result.wait_id.partition("@")[2]
    by = f"by {result.by or 'a program'}, in the run {run_id}"
    if isinstance(result, Decision):
        title, outcome = f"Recorded: {word}", ""
        if wait is not None and result.kind in wait.rules.verdicts:
            outcome = _outcome(wait, result.kind)
    else:
        title = f"Your vote is recorded: {word}, {votes_text(result)}"
        missing = wait_words.more_votes(result.still_needed)
        outcome = f"{missing} needed. Nothing runs before that."
    effect = "" if wait is None else _effect(wait, result.arguments)
    return {"title": title, "effect": effect, "outcome": outcome, "by": by}


def _outcome(wait: Wait, verdict: DecisionKind) -> str:
    if verdict == "deny":
        return wait_words.at_denial(wait)
    meanings = {str(kind): w.meaning for kind, w in wait.rules.verdicts.items()}
    # Above its field, it ends in a colon.
    return re.sub(":$", ".", meanings[verdict])


def _effect(wait: Wait, edited: str | None) -> str:
    wait = withheld(wait)
    if edited is not None and wait.display is not None:
        title = wait.display.title_of(jsontext.parse(edited))
        return title or f"Run {wait.tool} with other arguments"
    return wait_words.title(wait)


def form_view(
    wait: Wait, verdict: VerdictKind, decider: Decider, now: datetime
) -> FormView:
    """Return the form of one verdict."""
    words = wait.rules.verdicts[verdict]
    is_posted = decider.posted == verdict
    nothing: Mapping[str, str] = {}
    texts = decider.texts if is_posted else nothing
    errors = decider.errors if is_posted else nothing
    fields, is_typed = _fields(wait, verdict, words.value_label, texts, errors)
    refused = RefusedForm.of(fields, errors)
    may_repeat = wait.rules.may_have_run and verdict == "approve"
    opens_in = _opens_in(wait, now) if verdict == "approve" else 0
    return FormView(
        verdict=verdict,
        claim=wait_words.at_denial(wait)
        if verdict == "deny" and wait.denial_stops
        else words.meaning,
        says_claim=not _is_clear(wait, verdict),
        effect=_effect_of_button(wait, verdict),
        warning=wait_words.REPEATS if may_repeat else "",
        closed_until=_closed_until(wait, opens_in),
        opens_in=opens_in,
        label=_label(wait, verdict),
        tone=_tone(wait, verdict),
        reason=_REASONS[verdict]
        if not wait.rules.may_have_run
        else f"Reason for “{words.label}” (optional)",
        reason_text=texts.get("reason", ""),
        is_reason_folded=verdict != "deny" or wait.rules.may_have_run,
        is_typed=is_typed,
        fields=fields,
        errors=refused.errors,
        focus=refused.focus,
    )


def _is_clear(wait: Wait, verdict: VerdictKind) -> bool:
    """Return whether the note of the page and the button say what a verdict does."""
    if wait.rules.follows_policy:
        return verdict == "approve"
    return wait.rules.asks_question and verdict == "answer"


def _effect_of_button(wait: Wait, verdict: VerdictKind) -> str:
    """Return what a button does, where the page asks and its title is a question."""
    if wait.rules.may_have_run and verdict == "approve":
        return f"Runs again, as shown: {wait_words.effect(withheld(wait))}."
    if wait.rules.asks_question and verdict == "answer":
        return "The tool gets this answer, and the run goes on. The answer is final."
    return ""


def _opens_in(wait: Wait, now: datetime) -> int:
    """Return after how many seconds a call may be approved: the first may still run."""
    moment = wait.approve_after
    if moment is None or now > moment:
        return 0
    return int((moment - now).total_seconds()) + 1


def _closed_until(wait: Wait, seconds: int) -> PageText:
    if not seconds or wait.approve_after is None:
        return ""
    # The page shows minutes: at the next whole one, it is not too early.
    shown = time_view(wait.approve_after + _ALMOST_A_MINUTE)
    return ("Available from ", shown, ". Until then, the first call may run.")


def _fields(
    wait: Wait,
    verdict: VerdictKind,
    label: str,
    texts: Mapping[str, str],
    errors: Mapping[str, str],
) -> tuple[tuple[FieldView, ...], bool]:
    """Return the fields of the value, and whether their names have types."""
    schema = None
    if verdict == "approve":
        schema, label = wait.form_schema, "Form"
    elif verdict == "answer" and wait.answer_schema_json != TEXT_SCHEMA:
        schema = wait.answer_schema
    if schema is not None:
        form = FormFields(schema=schema, id=verdict, texts=texts, errors=errors)
        return form.fields(label), True
    name = {"answer": "value", "fail": "error"}.get(verdict)
    if name is None:
        return (), False
    plain = FieldView(
        kind="text",
        id=f"{verdict}-{name}",
        name=name,
        label="Error" if name == "error" else label,
        value=texts.get(name, ""),
        max_chars=MAX_TEXT_CHARS,
        hints=(_EMPTY_RESULT,) if wait.rules.may_have_run else (),
        error=error_text(errors.get("", "")),
    )
    return (plain,), False


_EMPTY_RESULT = "It may stay empty."


def labelled(form: FormView, label: str) -> FormView:
    """Return a form with another button."""
    return replace(form, label=label)


def approval_label(wait: Wait, rest: str = "") -> str:
    """Return the verb and the amount, if the call has one: `Approve €12,400.00`."""
    verb, readings = wait.rules.verdicts["approve"].label, wait.readings
    paths = [] if wait.display is None else [path for path, _ in wait.display.money]
    amounts = [readings[path] for path in paths if path in readings]
    amount = amounts[0] if len(paths) == len(amounts) == 1 else ""
    if len(amount) > _MAX_AMOUNT_CHARS:
        amount = ""
    return " ".join(filter(None, (verb, amount, rest)))


def _label(wait: Wait, verdict: VerdictKind) -> str:
    """Return the words of a button, on one line; an approval says its amount."""
    label = wait.rules.verdicts[verdict].label
    if not wait.rules.follows_policy:
        return label
    if verdict == "approve":
        return approval_label(wait)
    if verdict == "deny":
        return f"{label}: {'the run stops' if wait.denial_stops else 'nothing runs'}"
    return f"{label}: nothing runs"


def _tone(wait: Wait, verdict: VerdictKind) -> str:
    if wait.rules.may_have_run:
        return ""  # a color must not recommend one of three claims
    if verdict in ("deny", "fail"):
        return "danger"
    return "primary" if verdict == next(iter(wait.rules.verdicts)) else ""


_REASONS: Mapping[str, str] = {
    "approve": "Reason for the approval (optional)",
    "deny": "Reason: tell the agent why (optional)",
    "answer": "Reason for the answer (optional)",
    "fail": "Reason for the failure (optional)",
}


def _reasons_words(wait: Wait, kinds: list[VerdictKind]) -> str:
    folded = [kind for kind in kinds if kind != "deny" or wait.rules.may_have_run]
    if not folded:
        return ""
    nouns = {"approve": "the approval", "answer": "the answer"}
    noun = nouns.get(folded[0]) if len(folded) == 1 else None
    return f"Give a reason for {noun}" if noun else "Give a reason"


def _waits_for(wait: Wait, decider: Decider) -> str:
    """Return whose decision is missing, or an empty text for a single decider."""
    missing = wait_words.votes_missing(wait)
    if not missing or not wait.rules.follows_policy:
        return missing
    if decider.own_vote is not None or decider.objection or not decider.verdicts:
        return missing
    if wait_words.count_missing(wait) == 1:
        return "Yours is the last vote: if you approve, it runs."
    return f"{missing.removesuffix('.')}, yours is one of them."
