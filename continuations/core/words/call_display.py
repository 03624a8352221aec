"""The words for people about a call, apart from its arguments: a part of its wait.

Evidence is a part of them: what earlier calls of the frame returned, for the person who
decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from continuations.core.visible_text import escape_beginning, escape_invisible
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.words.summaries import MoneyReading


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDisplay:
    """The words for people about a call, made by code when its wait is opened.

    Attributes:
        title: The call as one sentence, from the tool's `summary`. Invisible
            characters are escaped, and long values are shortened.
        template: The template of the title, to make the title of an edit.
        money: How amounts are read: paths into the arguments, with their readings.
        secrets: Paths of the arguments that people must not read.
        reversible: Whether the effect can be undone; `None`: the tool does not say.
        evidence: Results of earlier calls of the frame.
        agent_words: The text of the agent's turn that made the call. It is not checked.
        requester: The person or program that asked for the run.
    """

    title: str | None = None
    template: str | None = None
    money: tuple[tuple[str, MoneyReading], ...] = ()
    secrets: tuple[str, ...] = ()
    reversible: bool | None = None
    evidence: tuple[Finding, ...] = ()
    agent_words: str | None = None
    requester: str | None = None

    def title_of(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the title of a call with other arguments, as an edit gives them.

        Args:
            arguments: The arguments as JSON values, with secrets masked.

        Returns:
            The title from the template; `None` if a function made the title.
        """
        if self.template is None:
            return None
        from continuations.core.words.summaries import render_template  # noqa: PLC0415 - only for edits

        return render_template(self.template, arguments, dict(self.money))

    def readings(
        self, arguments: Mapping[str, Any], schema: Mapping[str, Any]
    ) -> dict[str, str]:
        """Return the readings of arguments by their places.

        An amount of the template is read as the title reads it.

        Args:
            arguments: The arguments as JSON values.
            schema: Their JSON Schema.

        Returns:
            For example `{"cents": "€12,400.00", "day": "Tuesday, 24 November 2026"}`.
        """
        from continuations.core.words.summaries import (  # noqa: PLC0415 - only for people
            money_in,
            readings_by_place,
        )

        money = money_in(self.template or "", dict(self.money))
        return readings_by_place(arguments, schema, money)


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from continuations.core.messages import Message, ToolCallRequest

    Scrub: TypeAlias = Callable[[str], str]
    ScrubResult: TypeAlias = Callable[[str, ToolCallRequest | None], str]

MAX_FINDINGS = 5
MAX_FINDING_CHARS = 240
MAX_WORDS_CHARS = 400


class Finding(NamedTuple):
    """The result of one earlier call, shortened.

    Attributes:
        source: Name of the tool or agent that was called.
        text: Beginning of the result, on one line.
        length: Characters of the whole result, escaped as `text` is.
        by_agent: Whether an agent wrote the result. Its words are not checked.
    """

    source: str
    text: str
    length: int
    by_agent: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether the result is longer than `text` shows."""
        return self.length > len(self.text)


def findings(
    messages: Sequence[Message],
    agents: Collection[str],
    scrubbed: ScrubResult = lambda text, _: text,
) -> tuple[Finding, ...]:
    """Return the newest results since the last user message, the oldest first.

    Args:
        messages: The messages of the frame.
        agents: The names of its tools that are agents.
        scrubbed: Removes secrets from the result of a call. It gets the call too.
    """
    results: list[tuple[str, str]] = []
    newest: list[Finding] = []
    for message in reversed(messages):
        if message.role == "user" or len(newest) == MAX_FINDINGS:
            break
        if message.role == "tool":
            results.append((message.answered_call_id or "", _result_text(message)))
        elif message.role == "assistant" and results:
            calls = {each.tool_call_id: each for each in message.tool_calls}
            # In a workflow, results of several messages may come in any order.
            later = [each for each in results if each[0] not in calls]
            for call_id, content in results:
                call = calls.get(call_id)
                if call is not None and len(newest) < MAX_FINDINGS:
                    text, name = scrubbed(content, call), call.tool
                    found = _finding(name.lstrip("."), text, by_agent=name in agents)
                    newest.append(found)
            results = later
    for _call_id, content in results[: MAX_FINDINGS - len(newest)]:
        newest.append(_finding("", scrubbed(content, None), by_agent=False))
    return tuple(reversed(newest))


def agent_words(messages: Sequence[Message], scrubbed: Scrub = str) -> str | None:
    """Return the beginning of what the agent wrote when it made its calls."""
    for message in reversed(messages):
        if message.role == "assistant":
            return _words(scrubbed(message.content.strip())) or None
        if message.role == "user":
            return None
    return None


def _result_text(message: Message) -> str:
    """Return a result; labels stand for its attachments."""
    if not message.has_attachments:
        return message.content
    from continuations.core.attachment_parts import labelled_text  # noqa: PLC0415 - rarely needed

    return labelled_text(message.role, message.data.get("content"))


def _words(text: str) -> str:
    """Return the beginning of a text, and at its end whether there is more."""
    shown = escape_beginning(text, MAX_WORDS_CHARS)
    if len(escape_invisible(text)) == len(shown):
        return shown
    return f"{escape_beginning(text, MAX_WORDS_CHARS - 1)}…"


def _finding(source: str, content: str, *, by_agent: bool) -> Finding:
    text = escape_beginning(content, MAX_FINDING_CHARS)
    length = len(escape_invisible(content))
    return Finding(escape_invisible(source)[:64], text, length, by_agent)
