"""The OpenAI Agents SDK: its tools as tools, and its interruptions as waits.

refund_tool = from_openai_agents(refund, idempotent=True)

await open_state(runner, agent, state_json, run_id="refund-17")
state = await decided_state(runner, agent, state_json, run_id="refund-17")
result = await agents.Runner.run(agent, state)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

from continuations.errors import ContinuationsError, InvalidInput
from continuations.interop import missing_package
from continuations.interop.paused_calls import (
    PausedCall,
    digest_of,
    keep_approval,
    open_calls,
    paused_calls,
    read_verdicts,
    refuse_unchanged,
)
from continuations.serve.option_checks import check_type
from continuations.tools import SchemaToolOptions, Tool

try:
    import agents
    from agents.tool_context import ToolContext as SdkContext
except ImportError as error:
    raise missing_package("openai_agents", "openai-agents", error) from None

if TYPE_CHECKING:
    from continuations import AsyncRunner, Outcome, ToolContext

__all__ = ["decided_state", "from_openai_agents", "open_state"]

_KIT = "openai-agents"
_LABEL = "from_openai_agents"


def from_openai_agents(
    function_tool: agents.FunctionTool,
    *,
    context: Callable[[ToolContext], Any] | None = None,
    **options: Unpack[SchemaToolOptions],
) -> Tool[..., Any]:
    """Make a tool from a function tool of the OpenAI Agents SDK.

    Name, description and JSON Schema come from the tool. All effect flags are yours:
    nothing is guessed. A tool that needs an approval in the SDK always asks, unless
    `approval=` has a policy of yours.

    Args:
        function_tool: The tool, of `@function_tool`.
        context: Returns the object that the tool finds in `ctx.context`. Default: the
            `context=` of the run.
        **options: The options of `Tool.from_schema`.

    Returns:
        The tool.

    Raises:
        InvalidInput: The tool has guardrails, an `is_enabled` or a needed approval that
            would be lost, or is an agent. Or an option is invalid.
    """
    wanted = "a FunctionTool of @agents.function_tool, and no hosted tool"
    check_type("function_tool", function_tool, agents.FunctionTool, wanted)
    name = function_tool.name
    _check_kept(function_tool, options)
    if function_tool.needs_approval is not False:
        keep_approval(_LABEL, name, options)
    # Without the SDK's formatter, an exception of the function is raised.
    raising = replace(
        function_tool,
        _failure_error_function=None,
        _use_default_failure_error_function=False,
    )

    async def invoke(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        text = json.dumps(arguments, ensure_ascii=False)
        made = SdkContext(
            context=ctx.context if context is None else context(ctx),
            tool_name=name,
            tool_call_id=ctx.call_id,
            tool_arguments=text,
        )
        return await raising.on_invoke_tool(made, text)

    options.setdefault("description", function_tool.description)
    return Tool.from_schema(name, function_tool.params_json_schema, invoke, **options)


def _check_kept(tool: agents.FunctionTool, options: Mapping[str, Any]) -> None:
    lost = ""
    if tool.tool_input_guardrails or tool.tool_output_guardrails:
        lost = "its guardrails, which only the SDK runs. Use Agent(guardrails=...)"
    elif tool.is_enabled is not True and "is_enabled" not in options:
        lost = "its is_enabled. Pass is_enabled="
    elif getattr(tool, "_is_agent_tool", False):
        lost = "the interruptions of its agent. Make an Agent, and list it in tools"
    if lost:
        raise InvalidInput(f"from_openai_agents: tool {tool.name} would lose {lost}.")


async def open_state(
    runner: AsyncRunner,
    agent: agents.Agent[Any],
    state: str | Mapping[str, Any],
    *,
    run_id: str,
    flow: Any = paused_calls,
    by: str | None = None,
    title: str | None = None,
) -> Outcome[Any]:
    """Open a `RunState`: each of its interruptions becomes an approval.

    The application keeps the state, and the run has only its digest.

    Args:
        runner: A runner that has `paused_calls` among its agents.
        agent: The agent with which the run of the SDK began.
        state: The JSON of `RunState.to_json()`, or the text of `to_string()`.
        run_id: The id of the run. Use another one for each pause.
        flow: The workflow, of `make_paused_calls`.
        by: The requester.
        title: The subject of the run, on one line.

    Returns:
        `Suspended`, with an approval for each interruption.

    Raises:
        InvalidInput: The state is damaged, of another agent, or not interrupted, or it
            has an interruption without a name or arguments.
        RunExists: The run id belongs to another state.
    """
    data, restored = await _restored(agent, state, {})
    calls = [_paused(item) for item in restored.get_interruptions()]
    return await open_calls(
        runner,
        calls,
        kit=_KIT,
        run_id=run_id,
        state=digest_of(data),
        flow=flow,
        by=by,
        title=title,
    )


async def decided_state(
    runner: AsyncRunner,
    agent: agents.Agent[Any],
    state: str | Mapping[str, Any],
    *,
    run_id: str,
    flow: Any = paused_calls,
    **restore: Any,
) -> agents.RunState[Any, agents.Agent[Any]]:
    """Return the state with its decisions, for `agents.Runner.run(agent, state)`.

    Only an `Approve` becomes `approve`. A denial, an expiry, an answer and a cancelled
    call become `reject`, with the reason. Call `run` with one such state only: the SDK
    does not know that another copy was continued.

    Args:
        runner: The runner.
        agent: The agent with which the run of the SDK began.
        state: The state that was opened, unchanged.
        run_id: The id of the run.
        flow: The workflow with which it was opened.
        **restore: `context_override`, `context_deserializer` and `strict_context` of
            `RunState.from_json`.

    Returns:
        The decided `RunState`.

    Raises:
        InvalidInput: The state is not the one that was opened.
        NotFinished: An interruption is not decided.
        RunFailed: The run was cancelled.
    """
    data, restored = await _restored(agent, state, restore)
    kept, verdicts = await read_verdicts(runner, run_id, kit=_KIT, flow=flow)
    refuse_unchanged(run_id, kept, digest_of(data), "the RunState")
    items = restored.get_interruptions()
    for item, verdict in zip(items, verdicts, strict=True):
        if verdict.ending == "approved":
            restored.approve(item)
        else:
            restored.reject(item, rejection_message=verdict.refusal)
    return restored


async def _restored(
    agent: agents.Agent[Any], state: Any, restore: Mapping[str, Any]
) -> tuple[Any, agents.RunState[Any, agents.Agent[Any]]]:
    """Return the JSON of a state, and the state; raises `InvalidInput`."""
    check_type("agent", agent, agents.Agent, "the Agent of the OpenAI Agents SDK")
    problem = "the state must be the JSON of RunState.to_json() or to_string()"
    try:
        data: Any = json.loads(state) if isinstance(state, str) else state
        if isinstance(data, Mapping):
            copied: Any = json.loads(json.dumps(data))
            found = await agents.RunState.from_json(agent, copied, **restore)
            return cast("Any", data), found
    except ContinuationsError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a damaged state does
        problem = f"the SDK cannot read the state ({_first_line(error)})"
    msg = f"the RunState was not opened: {problem}. Pass the stored state and its agent"
    raise InvalidInput(f"{msg}.")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160].rstrip(".")


def _paused(item: agents.ToolApprovalItem) -> PausedCall:
    name, call_id = item.qualified_name or item.name, _call_id(item)
    try:
        arguments: Any = json.loads(item.arguments or "{}")
    except ValueError:
        arguments = None
    if not name or not call_id or not isinstance(arguments, dict):
        raise InvalidInput(
            f"the RunState was not opened: the interruption of {name or 'a tool'} has "
            "no id or no JSON object as arguments, so no person could check it. Decide "
            "it in the SDK."
        )
    return PausedCall(id=call_id, tool=name, arguments=cast("Any", arguments))


def _call_id(item: agents.ToolApprovalItem) -> str | None:
    raw: Any = item.raw_item
    fields = cast("dict[str, Any]", raw if isinstance(raw, dict) else vars(raw))
    return cast("str | None", fields.get("call_id") or fields.get("id"))
