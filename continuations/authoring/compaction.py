"""When and how the history of an agent is shortened: `Agent(compaction=…)`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from continuations.authoring import callables
from continuations.core.words.summaries import MIN_CHARS
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from continuations.core.model_protocol import Model

    Messages: TypeAlias = list[dict[str, Any]]
    SummaryFunction: TypeAlias = Callable[[Messages], str | Awaitable[str]]
    CountTokens: TypeAlias = Callable[[Messages], int]


class SummaryAgent(Protocol):
    """An agent that writes a summary."""

    @property
    def name(self) -> str:
        """The name of the agent."""
        ...

    @property
    def model(self) -> str | Model | None:
        """The name of a model, or a `Model`; `None`: that of the shortened agent."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """Options that are sent to the provider unchanged."""
        ...

    async def make_instructions(self, agent_input: Any, context: Any) -> str:
        """Return the system message; the function's errors pass."""
        ...


_MAX_NUMBER = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """When the history of an agent is shortened, and how.

    The tokens of a frame are counted before each request to its model. Above a budget,
    a summary takes the place of the older messages. The system message, the last
    message of the user and the newest messages stay as they are. Earlier versions of
    the run keep all messages.

    Attributes:
        soft: Tokens above which the history is shortened. If that fails, the agent goes
            on, and the next attempt comes after a tenth of `soft` more.
        hard: Tokens above which no request is sent until the history is shortened. If
            that fails, the turn ends with `CompactionFailed`. At least `soft`.
        keep_last: How many of the newest messages stay as they are. If they have more
            than half of `soft`, fewer stay, but at least two rounds: two replies of the
            model with the results of their calls. Default: 20.
        summarize: The writer of the summary. An `Agent`: its instructions, model and
            settings are used; its tools are not offered. A plain or async function that
            takes the messages in the chat completions format and returns a text.
            `None`: the model of the agent itself. Default: `None`.
        count_tokens: A plain function that returns the tokens of messages in the chat
            completions format, for messages that the provider has not counted. Default:
            four bytes of JSON count as a token.
        shorten_results: To how many characters the older results of tools are cut
            before a summary is tried, at least 200. If that suffices, no summary is
            made. `None`: not at all. Default: 2,000.
        max_result_chars: How many characters a tool may return, at least 200. The
            beginning and the end of a longer result are kept. It does not
            apply to replies of agents and answers of people. `None`: no limit. A limit
            is at most as many characters as `hard` has tokens. Default: 50,000.

    Raises:
        InvalidInput: An option is invalid.
    """

    soft: int
    hard: int
    keep_last: int = 20
    summarize: SummaryAgent | SummaryFunction | None = None
    count_tokens: CountTokens | None = None
    shorten_results: int | None = 2000
    max_result_chars: int | None = 50_000

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("soft", "hard", "keep_last"):
            _check_number(name, getattr(self, name), 1)
        if self.hard < self.soft:
            msg = f"hard must be at least soft, which is {self.soft}, got {self.hard}."
            raise InvalidInput(msg)
        for name in ("shorten_results", "max_result_chars"):
            if getattr(self, name) is not None:
                _check_number(name, getattr(self, name), MIN_CHARS, " or None")
        if not _can_summarize(self.summarize):
            raise _error("summarize", "an Agent or a function of the messages")
        count: object = self.count_tokens
        is_async = inspect.iscoroutinefunction(count)
        if count is not None and (is_async or not callables.takes_positional(count, 1)):
            raise _error("count_tokens", "a plain function of the messages")

    @property
    def result_limit(self) -> int | None:
        """The characters that a tool may return; `None`: no limit."""
        chars = self.max_result_chars
        return None if chars is None else max(MIN_CHARS, min(chars, self.hard))

    @property
    def summary_agent(self) -> SummaryAgent | None:
        """The agent that writes the summary; `None`: another writer."""
        writer: Any = self.summarize
        return writer if _is_agent(writer) else None

    @property
    def summary_function(self) -> SummaryFunction | None:
        """The function that writes the summary; `None`: a model."""
        writer: Any = self.summarize
        return None if _is_agent(writer) else writer


def _check_number(name: str, value: object, low: int, otherwise: str = "") -> None:
    if type(value) is int and low <= value <= _MAX_NUMBER:
        return
    wanted = f"an integer from {low} to {_MAX_NUMBER}{otherwise}"
    raise InvalidInput(f"{name} of Compaction must be {wanted}, got {value!r:.60}.")


def _error(name: str, wanted: str) -> InvalidInput:
    return InvalidInput(f"{name} of Compaction must be {wanted}. Pass one, or None.")


def _is_agent(value: Any) -> bool:
    return hasattr(value, "make_instructions")


def _can_summarize(value: Any) -> bool:
    if value is None or isinstance(value, type):
        return value is None
    return _is_agent(value) or callables.takes_positional(value, 1)
