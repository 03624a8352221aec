"""The words of the page of a wait, one table for its kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.waits import Wait


class KindWords(NamedTuple):
    """How one kind of wait is named: an icon and a word, never a color alone.

    Attributes:
        icon: The name of the icon.
        word: The word of the kind.
        tone: The class of the color, or an empty text.
        arguments: The words before the name of the tool, above the arguments.
    """

    icon: str
    word: str
    tone: str
    arguments: str


KIND_WORDS: Mapping[str, KindWords] = {
    "approval": KindWords("shield", "Approval", "is-wait", "What will run:"),
    "unknown": KindWords("warn", "Did it happen?", "is-odd", "What was started:"),
    "question": KindWords("ask", "Question", "", "The call that asks:"),
    "event": KindWords("ring", "Event", "", "The call that waits:"),
    "timer": KindWords("clock", "Timer", "", "The call that waits:"),
    "external": KindWords("ring", "Outside job", "", "The call that waits:"),
    "model": KindWords("clock", "Model", "", "The agent that waits:"),
    "operator": KindWords("lock", "Paused", "", "The agent that waits:"),
    "input": KindWords("shield", "Input", "is-wait", "What this agent will read:"),
    "output": KindWords("shield", "Output", "is-wait", "What this agent will return:"),
}
NOTE_ICONS = {
    "approval": "lock",
    "unknown": "warn",
    "question": "ask",
    "input": "lock",
    "output": "lock",
}


# The statement of each answer about an unknown outcome.
CLAIMS: Mapping[str, tuple[str, str]] = {
    "answer": ("ok", "I saw that it happened"),
    "deny": ("lock", "I saw that it did not happen: leave it"),
    "approve": ("warn", "I saw that it did not happen: run it"),
}
# The words for a denial, by the kind of its wait.
DENIED: Mapping[str, str] = {
    "approval": "denied",
    "question": "declined",
    "input": "refused",
    "output": "withheld",
}
REPEATS = "If the first call did take effect, this repeats the effect."


def title(wait: Wait) -> str:
    """Return the effect in one sentence: the title of the page."""
    if wait.rules.judges_text:
        return wait.rules.question.format(tool=wait.tool)
    if wait.rules.may_have_run:
        return f"{wait.title or f'Run {wait.tool}'}: did it happen?"
    if wait.kind == "question" and wait.question:
        return wait.question
    if wait.title is not None:
        return wait.title
    if wait.kind == "approval":
        return f"Run {wait.tool}"
    return wait.rules.question.format(tool=wait.tool)


def lead(wait: Wait) -> str:
    """Return a further sentence below the title, or an empty text."""
    if wait.kind == "question":
        return wait.title or ""
    return wait.question or ""


def truth(wait: Wait) -> str:
    """Return whether the call can run more than once, below the title."""
    if wait.rules.may_have_run:
        return (
            "The call was started once, and its outcome is unknown. Check whether it "
            "took effect before you decide. If it did, running it again repeats it."
        )
    if wait.kind == "question":
        return f"{wait.rules.explanation} The first answer ends the question."
    if wait.kind != "approval":
        return wait.rules.explanation
    if wait.votes_needed == 1:
        return "Runs once, exactly as shown."
    return f"Runs once, exactly as shown, after {wait.votes_needed} votes."


def reversal(wait: Wait) -> str:
    """Return whether the effect can be undone, or an empty text for other kinds."""
    if wait.reversible is not None:
        can = "can" if wait.reversible else "cannot"
        return f"The effect {can} be undone."
    if wait.kind != "approval":
        return ""
    return "The tool does not say that it can be undone: treat it as final."


def at_denial(wait: Wait) -> str:
    """Return the consequence of a denial, or an empty text."""
    words = wait.rules.verdicts.get("deny")
    if words is None or wait.rules.may_have_run:
        return ""
    if wait.denial_stops:
        return "The call does not run, and the run stops."
    return words.meaning


def rule_text(wait: Wait) -> str:
    """Return the rule that asks, without its name: who decides, and how many."""
    quorum = wait.quorum
    if quorum is None or not wait.rules.asks_person:
        return ""
    who = ", ".join(quorum.approvers) or "all who can open this page"
    count = wait.votes_needed
    is_one = count == 1 and len(quorum.approvers) == 1
    text = f"{count} of {who}" if count > 1 else f"one of {who}"
    text = f"only {who} decides" if is_one else text
    if quorum.not_requester:
        text += f", not the requester ({quorum.excluded_text})"
    return f"{text}."
