"""The first state of a run, and the validation of its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from continuations.authoring import callables
from continuations.authoring.errors import InstructionsInvalid
from continuations.core import jsontext
from continuations.core.messages import (
    MalformedMessage,
    Message,
    find_violation,
    system_message,
    user_message,
)
from continuations.core.rows.frames import FrameRow, MessageLog
from continuations.core.rows.run import Budget, RunRow
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.engine.code_changes import first_manifest
from continuations.errors import InvalidId, InvalidInput
from continuations.ledger import layout
from continuations.ledger.index.run_overview import has_thread_id
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.authoring.tool.tool_protocol import AgentProtocol
    from continuations.authoring.workflow.workflow import BoundWorkflow, Workflow
    from continuations.core.prices import Prices
    from continuations.core.rows.attachments import Audio, Content, File, Image
    from continuations.engine.ports import Ports


_Parts: TypeAlias = "Sequence[Mapping[str, Any] | str | Image | Audio | File]"
# A text, chat messages or parts, or the arguments of a workflow.
Input: TypeAlias = "str | _Parts | Mapping[str, Any] | BoundWorkflow[Any]"

# The text of one user message, perhaps with attachments.
UserText: TypeAlias = "str | Sequence[str | Image | Audio | File]"


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits that are stored with a run when it starts.

    `prices` are those of this process. A budget in money needs them.
    """

    budget: Budget | None
    max_depth: int | None
    prices: Prices | None = None


def check_new_run_id(run_id: object) -> str:
    """Return the id of a run that starts, is forked or is adopted.

    Raises `InvalidId` for an id that is not valid, and for the id of a thread's run, of
    any generation: the thread would take such a run for its own.
    """
    checked = layout.check_run_id(run_id)
    if not has_thread_id(checked):
        return checked
    msg = (
        f"run_id {checked!r} is not allowed: an id of this form belongs to a thread. "
        "Pass another run_id, or post to the thread with runner.thread(agent, key=...)."
    )
    raise InvalidId(msg, run_id=checked)


def first_messages(
    agent: AgentProtocol, agent_input: Input, ports: Ports
) -> tuple[Message, ...]:
    """Return the first messages of a run; raises `InvalidInput`."""
    bound = getattr(agent_input, "workflow", None)
    if bound is None and not agent.is_workflow:
        return parse_input(agent_input)
    if bound is None and isinstance(agent_input, Mapping):
        declared = cast("Workflow[Any, Any]", agent)
        agent_input = declared.bind_arguments(agent_input)
        bound = agent
    if bound is not agent:
        why = (
            f"{agent.name} is a workflow, and input is not its arguments. Pass "
            f"{agent.name}.bind(...), or the arguments by name: a dict, or --args at "
            "the command line."
        )
        if bound is not None:
            why = (
                f"input is bound to the workflow {bound.name}, and the run begins with "
                f"{agent!r}. Bind the object that the runner was given."
            )
        raise InvalidInput(f"the run was not started: {why}")
    return (start_entry(cast("BoundWorkflow[Any]", agent_input).arguments_json, ports),)


def parse_input(agent_input: Input) -> tuple[Message, ...]:
    """Return the input of a run as messages; raises `InvalidInput`."""
    if isinstance(agent_input, str) and agent_input:
        messages: tuple[Message, ...] = (user_message(agent_input),)
    elif isinstance(agent_input, list | tuple) and agent_input:
        messages = _parse_list(agent_input)
    else:
        got = type(agent_input).__name__ if agent_input else "nothing"
        raise InvalidInput(
            "input must be a non-empty text, or a non-empty list of chat messages or "
            f"of texts and attachments, got {got}."
        )
    violation = find_violation(messages)
    if violation is not None:
        msg = f"input is not a conversation that a model accepts: {violation}."
        raise InvalidInput(msg)
    return messages


def _parse_list(items: Sequence[object]) -> tuple[Message, ...]:
    if not all(isinstance(item, Mapping) for item in items):
        from continuations.engine.start import input_parts  # noqa: PLC0415 - rarely needed

        if input_parts.is_part_list(items):
            parts = input_parts.user_content(items, "input")
            return (Message.from_mapping({"role": "user", "content": parts}),)
    return tuple(_parse_message(index, item) for index, item in enumerate(items))


def contents_of(messages: Sequence[Message], agent_input: Input) -> Sequence[Content]:
    """Return the attachments of an input that `parse_input` accepts.

    Raises `InvalidInput` if they are too large together.
    """
    if not any(message.has_attachments for message in messages):
        return ()
    from continuations.engine.start import input_parts  # noqa: PLC0415 - rarely needed

    return input_parts.contents_of(agent_input)


def with_instructions(
    messages: tuple[Message, ...], instructions: str
) -> tuple[Message, ...]:
    """Return the first messages of a frame.

    The instructions come first, unless the input starts with a system or developer
    message.
    """
    has_own_instructions = messages and messages[0].role in ("system", "developer")
    if not instructions or has_own_instructions:
        return messages
    return (system_message(instructions), *messages)


def problem_of(error: BaseException) -> str:
    """Return what a function of instructions did wrong, without the text of a value."""
    wrong = isinstance(error, InstructionsInvalid)
    return str(error) if wrong else f"raised {type(error).__name__}"


async def root_instructions(
    agent: AgentProtocol, agent_input: Input, context: Any
) -> str:
    """Return the instructions of a root agent for a run; raises `InvalidInput`."""
    try:
        return await stored_instructions(agent, agent_input, context)
    except BaseException as error:
        if callables.is_task_cancellation(error):
            raise
        raise InvalidInput(
            f"agent {agent.name}: the instructions function {problem_of(error)}. "
            "Nothing was started. Correct the function, then start again."
        ) from error


def _parse_message(index: int, value: object) -> Message:
    if not _is_mapping(value):
        raise InvalidInput(
            f"input[{index}] must be a chat message as a dict, got "
            f"{type(value).__name__}. Pass {{'role': 'user', 'content': ...}}."
        )
    fields = jsontext.as_object(value) or {}
    parts = jsontext.as_array(fields.get("content"))
    try:
        if parts is not None:
            from continuations.engine.start import input_parts  # noqa: PLC0415 - rarely needed

            fields = input_parts.with_part_content(fields, parts, f"input[{index}]")
        message = Message.from_mapping(fields)
    except (MalformedMessage, jsontext.NotJson) as error:
        msg = f"input[{index}] is not a valid chat message: {error}."
        raise InvalidInput(msg) from None
    content = message.data.get("content")
    if content or (message.tool_call_ids and message.role == "assistant"):
        return message
    msg = f"input[{index}] has no content. Pass a text or a list of parts."
    raise InvalidInput(msg)


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def parse_user_message(text: object) -> Message:
    """Return a text, or texts and attachments, as a user message.

    Raises `InvalidInput`.
    """
    items = jsontext.as_array(text)
    if items:
        from continuations.engine.start import input_parts  # noqa: PLC0415 - rarely needed

        parts = input_parts.user_content(items, "text")
        return Message.from_mapping({"role": "user", "content": parts})
    if not isinstance(text, str) or not text:
        got = "an empty string" if text == "" else type(text).__name__
        raise InvalidInput(f"text must be a non-empty string, got {got}.")
    return user_message(text)


def check_budget(
    budget: object, prices: Prices | None, root: AgentProtocol
) -> Budget | None:
    """Return a valid budget or `None`.

    Raises `InvalidInput`, and `PriceUnknown` for a budget in money without prices.
    """
    if budget is None:
        return None
    if isinstance(budget, Budget):
        limits = [n for n in (budget.requests, budget.tokens) if n is not None]
        if all(type(limit) is int and limit > 0 for limit in limits):
            if budget.cost is None:
                return budget
            from continuations.engine.start.money_budgets import checked_money  # noqa: PLC0415 - few runs have one

            return checked_money(budget, prices, root)
    raise InvalidInput(
        "budget must be Budget(requests=..., tokens=..., cost=...) with integers above "
        f"0, got {budget!r}."
    )


async def first_state(
    agent: AgentProtocol,
    messages: tuple[Message, ...],
    agent_input: Input,
    *,
    ports: Ports,
    context: Any,
    limits: RunLimits,
    run_id: str | None = None,
    thread_key: str | None = None,
) -> RunState:
    """Return the first state of a run with the code of this process.

    Args:
        agent: The root agent.
        messages: The input as messages; none for a thread.
        agent_input: The input for the function of the instructions.
        ports: The clock and the source of new ids.
        context: The application's object.
        limits: The limits of the run.
        run_id: Id of the run. Default: a new one.
        thread_key: The key of a thread.

    Raises:
        InvalidInput: The instructions function raised, or a limit is invalid.
    """
    instructions = await root_instructions(agent, agent_input, context)
    now = ports.clock.now()
    run_nonce = ports.ids.new_ulid(now)
    return initial_state(
        agent,
        messages,
        instructions,
        run_id=run_id or run_nonce,
        run_nonce=run_nonce,
        manifest=first_manifest(agent),
        now=now,
        limits=limits,
        thread_key=thread_key,
    )


def start_entry(arguments: str, ports: Ports) -> Message:
    """Return the first entry of the history of a workflow."""
    from continuations.core.rows.workflow_history import StartEntry, message_of  # noqa: PLC0415 - few runs have a workflow
    from continuations.wire.fields import to_milliseconds  # noqa: PLC0415

    now = ports.clock.now()
    seed = ports.ids.new_ulid(now)
    return message_of(StartEntry(arguments, to_milliseconds(now), seed))


def initial_state(  # noqa: PLR0913 - the parts of a state, all by keyword
    agent: AgentProtocol,
    messages: tuple[Message, ...],
    instructions: str,
    *,
    run_id: str,
    run_nonce: str,
    manifest: str,
    now: datetime,
    limits: RunLimits,
    thread_key: str | None = None,
) -> RunState:
    """Return the first state of a run, whose input is `messages`.

    With `thread_key` it is a thread, which rests until its first message.
    """
    # Without the instructions: a job that is delivered again after the deployment of a
    # new prompt is the same job.
    texts = [message.text for message in messages]
    texts += [] if thread_key is None else ["thread", thread_key]
    run = RunRow(
        id=run_id,
        run_nonce=run_nonce,
        agent=agent.name,
        created_at=now,
        input_digest=jsontext.digest(agent.name, *texts),
        next_id=3,
        budget=check_budget(limits.budget, limits.prices, agent),
        max_depth=limits.max_depth,
        thread_key=thread_key,
    )
    frame = FrameRow(
        id=ROOT_FRAME_ID,
        agent=agent.name,
        parent_call_id=None,
        max_turns=agent.max_turns,
        step="new" if agent.is_workflow else "",
    )
    return RunState.from_rows(
        run=run,
        manifest=manifest,
        frames={ROOT_FRAME_ID: frame},
        calls={},
        waits={},
        logs={ROOT_FRAME_ID: MessageLog(2, with_instructions(messages, instructions))},
    )


async def stored_instructions(
    agent: AgentProtocol, agent_input: Any, context: Any
) -> str:
    """Return the instructions that a conversation stores; errors pass.

    Those of a state are made for each request.
    """
    if agent.renders_state:
        return ""
    return await agent.make_instructions(agent_input, context)
