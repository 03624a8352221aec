"""Let a model or a function of the application write the summary of a history."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from continuations.authoring import callables
from continuations.authoring.call_gate import current_gate
from continuations.core.model_protocol import ModelReply
from continuations.core.model_settings import merged_settings
from continuations.core.output_retries import is_empty_reply
from continuations.core.tool_messages import INCOMPLETE_REPLY_TEXTS
from continuations.core.usage import Usage
from continuations.engine.error_reports import describe_error
from continuations.engine.summary_request import (
    default_prompt,
    summary_request,
    transcript_text,
)
from continuations.errors import ModelError
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.authoring.compaction import Compaction, SummaryAgent
    from continuations.authoring.tool_protocol import AgentProtocol
    from continuations.core.messages import Message
    from continuations.core.run import RunRow
    from continuations.engine.model_registry import ModelRegistry
    from continuations.engine.run_options import RunOptions

_log = logging.getLogger("continuations")


class NoSummary(Exception):
    """No summary was made. The text says why, without any text of the application.

    Attributes:
        usage: The cost of the attempt.
        model_error: The error of the model, or `None`.
    """

    def __init__(
        self, reason: str, usage: Usage, model_error: ModelError | None = None
    ) -> None:
        super().__init__(reason)
        self.usage = usage
        self.model_error = model_error


@dataclass(frozen=True, slots=True)
class _Writer:
    """An agent that writes a summary, with the model that is asked."""

    name: str
    model: Any

    @property
    def model_name(self) -> str | None:
        """The name of the model; `None` if there is no model."""
        model = self.model
        return model if isinstance(model, str | None) else model.name


@dataclass(frozen=True, slots=True)
class Summarizer:
    """Makes the summary of the older messages of one frame."""

    model_registry: ModelRegistry
    run_options: RunOptions

    async def summarize(
        self, agent: AgentProtocol, messages: Sequence[Message], run: RunRow
    ) -> tuple[str, Usage]:
        """Return the summary and its cost; raises `NoSummary`."""
        compaction = agent.compaction
        assert compaction is not None  # noqa: S101 - the caller has asked
        function = compaction.summary_function
        if function is not None:
            data = [message.data for message in messages]
            text = await _result_of(function, data)
            return _checked(text, Usage()), Usage()
        return await self._ask_model(agent, compaction, messages, run)

    async def _ask_model(
        self,
        agent: AgentProtocol,
        compaction: Compaction,
        messages: Sequence[Message],
        run: RunRow,
    ) -> tuple[str, Usage]:
        writer = compaction.summary_agent
        own = _Writer(f"{agent.name}/summary", agent.model)
        if writer is None:
            asked = own
            prompt, settings = default_prompt(compaction.soft), agent.settings
        else:
            asked = _Writer(writer.name, writer.model or agent.model)
            prompt, settings = await self._prompt_of(writer, messages), writer.settings
        if run.settings_json is not None:
            settings = merged_settings(settings, run.settings_json)
        request = summary_request(
            messages,
            prompt,
            settings,
            agent=asked.name,
            run_id=run.id,
        )
        gate = current_gate()
        try:
            reply = await self.model_registry.get_reply(
                asked,
                request,
                self.run_options.should_pause,
                may_request=lambda: gate.is_open,
            )
        except ModelError as error:
            usage = error.usage if isinstance(error.usage, Usage) else Usage()
            raise NoSummary(str(error).rstrip("."), usage, error) from error
        if not isinstance(reply, ModelReply):
            reason = "its model replies later, and no summary waits for that"
            raise NoSummary(reason, reply.usage)
        if reply.finish_reason in INCOMPLETE_REPLY_TEXTS:
            reason = f"its model stopped with {reply.finish_reason}"
            raise NoSummary(reason, reply.usage)
        if reply.message.tool_call_ids or is_empty_reply(reply.message):
            raise NoSummary("its model replied without a text", reply.usage)
        return _checked(reply.message.content, reply.usage), reply.usage

    async def _prompt_of(
        self, writer: SummaryAgent, messages: Sequence[Message]
    ) -> str:
        text, context = transcript_text(messages), self.run_options.context
        prompt: str = await _result_of(writer.make_instructions, text, context)
        return prompt


async def _result_of(function: Any, *arguments: Any) -> Any:
    """Return what a function of the application returns; raises `NoSummary`."""
    try:
        return await callables.call(function, *arguments)
    except BaseException as error:
        if callables.is_task_cancellation(error):
            raise
        _log.warning(
            "a function that writes summaries failed: %s", describe_error(error)
        )
        reason = f"its function raised {type(error).__name__}"
        raise NoSummary(reason, Usage()) from error


def _checked(text: object, usage: Usage) -> str:
    if isinstance(text, str) and text.strip():
        return text
    got = "an empty text" if isinstance(text, str) else type(text).__name__
    reason = f"the summary must be a text, got {got}"
    raise NoSummary(reason, usage)
