"""The replies of models that could not be used, with the reasons, for people.

A reply that a hook refuses is no message. The message in its place has an excerpt and
the reason in its metadata, which no provider gets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from continuations.core import jsontext
from continuations.core.changes.output_retries import is_retry_request, retry_reason
from continuations.core.messages import WITHHELD
from continuations.core.rows.state import ROOT_FRAME_ID
from continuations.core.visible_text import shorten

if TYPE_CHECKING:
    from continuations.core.messages import Detail, Message
    from continuations.core.rows.state import RunState

# Characters of a reply that are kept or shown.
_MAX_EXCERPT = 1000
# Replies of one run that are shown, the newest.
_MAX_SHOWN = 10
_EXCERPT, _REASON = "refused_reply", "refused_because"


class RefusedReply(NamedTuple):
    """A reply that was refused.

    Attributes:
        agent: Name of the agent.
        text: The beginning of the reply; "" for a reply without text.
        reason: Why it was refused.
    """

    agent: str
    text: str
    reason: str


def with_refused(withheld: Message, text: str, reason: str) -> Message:
    """Return the message in the place of a reply that a hook refuses."""
    facts = {_EXCERPT: shorten(text, _MAX_EXCERPT), _REASON: reason}
    return withheld.with_metadata(jsontext.canonical(facts))


def shown_facts(facts: dict[str, Any], detail: Detail) -> dict[str, Any]:
    """Return the metadata of a message; the excerpt is a text of a transcript."""
    if detail == "transcript" or _EXCERPT not in facts:
        return facts
    return {**facts, _EXCERPT: WITHHELD}


def refused_replies(state: RunState) -> list[RefusedReply]:
    """Return the last replies of the agents of a run that were refused."""
    found: list[RefusedReply] = []
    for frame in state.frames.values():
        messages = state.logs[frame.id].messages
        failure = state.run.failure if frame.id == ROOT_FRAME_ID else None
        for number, message in enumerate(messages, 1):
            following = messages[number] if number < len(messages) else None
            refused = _refused(message, following)
            if refused is None and following is None and failure is not None:
                is_output = failure.code == "output" and message.role == "assistant"
                refused = (message.content, failure.message) if is_output else None
            if refused is not None:
                text, reason = refused
                text = shorten(text, _MAX_EXCERPT)
                found.append(RefusedReply(frame.agent, text, reason))
    return found[-_MAX_SHOWN:]


def _refused(message: Message, following: Message | None) -> tuple[str, str] | None:
    """Return the text of a refused reply and the reason, `None` for another message."""
    if message.role != "assistant":
        return None
    if _EXCERPT in (message.metadata_json or ""):
        facts = message.metadata or {}
        if _EXCERPT in facts:
            return str(facts[_EXCERPT]), str(facts.get(_REASON, ""))
    if following is None or not is_retry_request(following):
        return None
    return message.content, retry_reason(following)
