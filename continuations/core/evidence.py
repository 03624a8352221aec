"""Evidence: what earlier calls of a frame returned, for the person who decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from continuations.core.visible_text import escape_invisible

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import TypeAlias

    from continuations.core.messages import Message

    Scrub: TypeAlias = Callable[[str], str]

MAX_FINDINGS = 5
MAX_FINDING_CHARS = 240
MAX_WORDS_CHARS = 400


class Finding(NamedTuple):
    """The result of one earlier call, shortened.

    Attributes:
        source: Name of the tool or agent that was called.
        text: Beginning of the result, on one line.
        length: Characters of the whole result.
        by_agent: Whether an agent wrote the result. Its words are not checked.
    """

    source: str
    text: str
    length: int
    by_agent: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether the result is longer than `text` shows."""
        return self.length > MAX_FINDING_CHARS


def findings(
    messages: Sequence[Message], agents: Collection[str], scrubbed: Scrub = str
) -> tuple[Finding, ...]:
    """Return the newest results since the last user message, the oldest first.

    Args:
        messages: The messages of the frame.
        agents: The names of its tools that are agents.
        scrubbed: Removes secrets from a text.
    """
    results: list[tuple[str, str]] = []
    newest: list[Finding] = []
    for message in reversed(messages):
        if message.role == "user" or len(newest) == MAX_FINDINGS:
            break
        if message.role == "tool":
            results.append((message.answered_call_id or "", message.content))
        elif message.role == "assistant" and results:
            names = {each.tool_call_id: each.tool for each in message.tool_calls}
            for call_id, content in results:
                if len(newest) < MAX_FINDINGS:
                    name = names.get(call_id, "")
                    text = scrubbed(content)
                    newest.append(_finding(name, text, by_agent=name in agents))
            results = []
    return tuple(reversed(newest))


def agent_words(messages: Sequence[Message], scrubbed: Scrub = str) -> str | None:
    """Return the beginning of what the agent wrote when it made its calls."""
    for message in reversed(messages):
        if message.role == "assistant":
            text = escape_invisible(scrubbed(message.content.strip())[:MAX_WORDS_CHARS])
            return text[:MAX_WORDS_CHARS] or None
        if message.role == "user":
            return None
    return None


def _finding(source: str, content: str, *, by_agent: bool) -> Finding:
    text = escape_invisible(content[:MAX_FINDING_CHARS])[:MAX_FINDING_CHARS]
    return Finding(escape_invisible(source)[:64], text, len(content), by_agent)
