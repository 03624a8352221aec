"""The words for people about a call, apart from its arguments: a part of its wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.words.evidence import Finding
    from continuations.core.words.reading_texts import MoneyReading


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

        Args:
            arguments: The arguments as JSON values.
            schema: Their JSON Schema.

        Returns:
            For example `{"cents": "€12,400.00", "day": "Tuesday, 24 November 2026"}`.
        """
        from continuations.core.words.reading_texts import readings_by_place  # noqa: PLC0415 - only for people

        return readings_by_place(arguments, schema, dict(self.money))
