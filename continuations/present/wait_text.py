"""The words for people about waits and decisions, the same on every page and mail.

Texts of models and tools are returned as they are: escape them where they are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.quorum import Vote
    from continuations.core.waits import Wait


DECISION_WORDS: Mapping[str, str] = {
    "approve": "Approved",
    "deny": "Denied",
    "answer": "Answered",
    "fail": "Failed",
    "expire": "Expired",
    "cancel": "Cancelled",
}


def wait_facts(wait: Wait) -> dict[str, str]:
    """Return what a person needs to know about a wait, except its arguments.

    The keys are labels in the order of the page of a wait. A fact that does not apply
    is left out.
    """
    parts = (asked_facts, reason_facts, consequence_facts, origin_facts)
    return {label: fact for part in parts for label, fact in part(wait).items()}


def asked_facts(wait: Wait) -> dict[str, str]:
    """Return the question, or the event that the wait is for, and who asked."""
    return _known(
        {
            wait.rules.question_label: wait.question,
            "Event": wait.event,
            "Key": wait.event_key,
            "Requested by": wait.requester,
        }
    )


def reason_facts(wait: Wait) -> dict[str, str]:
    """Return why the call waits, beside the results of earlier calls."""
    return _known({wait.rules.policy_label: wait.policy, "Note": wait.note})


def origin_facts(wait: Wait) -> dict[str, str]:
    """Return where the call comes from."""
    return _known(
        {
            "Tool" if wait.subject == "call" else "Agent": wait.tool,
            "Path": " > ".join(wait.path),
            "Run": wait.run_id,
            "Wait": wait.id,
            "Opened": readable_time(wait.created_at),
        }
    )


def consequence_facts(wait: Wait) -> dict[str, str]:
    """Return until when a wait can be decided, by whom, and what follows."""
    return _known(
        {
            wait.rules.deadline_label: None
            if wait.deadline is None
            else readable_time(wait.deadline),
            "Then": _then(wait),
            "Approve after": None
            if wait.approve_after is None
            else readable_time(wait.approve_after),
            "Approval valid for": None
            if wait.valid_for is None
            else f"{wait.valid_for} s",
            "If denied": "the run stops" if wait.denial_stops else None,
            "Editable": _editable(wait),
            "Form": _form(wait),
            "Approvers": ", ".join(wait.approvers) or None,
            "May not decide": _excluded(wait),
            "Votes": _votes(wait),
            "Answer": _answer_type(wait),
        }
    )


def _then(wait: Wait) -> str | None:
    """Return the consequence of the deadline; `None` without one."""
    if wait.deadline is None:
        return None
    # Imported here: a decision prints its words, and no deadline.
    from continuations.present.deadline_words import at_deadline  # noqa: PLC0415

    return at_deadline(wait)


def _known(facts: Mapping[str, str | None]) -> dict[str, str]:
    return {label: fact for label, fact in facts.items() if fact is not None}


def _editable(wait: Wait) -> str | None:
    return None if wait.editable is None else ", ".join(wait.editable) or "nothing"


def _form(wait: Wait) -> str | None:
    """Return the fields of the form that an approval needs."""
    if wait.form_schema_json is None:
        return None
    from continuations.present.form_fields import form_fields  # noqa: PLC0415 - few waits have one

    return "; ".join(each.text for each in form_fields(wait)) or "no fields"


def _excluded(wait: Wait) -> str | None:
    """Return who may not decide."""
    if wait.quorum is None or not wait.quorum.not_requester:
        return None
    return f"the requester ({wait.quorum.excluded_text})"


def _votes(wait: Wait) -> str | None:
    """Return the votes so far, and how many are needed; `None` for a single decider."""
    if wait.votes_needed == 1 and not wait.votes:
        return None
    voted = "; ".join(_vote_text(wait, vote) for vote in wait.votes)
    count = f"{wait.votes_needed} needed"
    return f"{voted}; {count}" if voted else count


def _vote_text(wait: Wait, vote: Vote) -> str:
    edited = (
        "" if vote.arguments is None else f" with {_edit_text(wait, vote.arguments)}"
    )
    value = "" if vote.value is None else f" {vote.value}"
    form = "" if vote.form is None else f" with the form {vote.form}"
    return f"{vote.by}: {vote.kind}{value}{edited}{form}"


def _edit_text(wait: Wait, arguments: str) -> str:
    """Return edited arguments, whole, with the title that they give."""
    display = wait.display
    title = display and display.title_of(jsontext.parse(arguments))
    shown = f"edited arguments {arguments}"
    return f"{shown} ({title})" if title else shown


def votes_text(vote: Vote) -> str:
    """Return how far a wait is after a vote: `1 of 2 votes`."""
    count = vote.votes_needed - vote.still_needed
    return f"{count} of {vote.votes_needed} votes"


def _answer_type(wait: Wait) -> str | None:
    """Return the JSON type of the answer, unless it is a text."""
    name = wait.answer_type_name
    return None if name in (None, "string") else f"JSON of type {name}"
