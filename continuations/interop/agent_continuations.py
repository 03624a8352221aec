"""The names of SnapLogic's prototype `agent-continuations`, over this library.

An application of the prototype runs with other import lines:

    from continuations.interop.agent_continuations import ContinuationAgent, tool

`request()` takes and returns the dicts of the prototype. The loop, the approvals and
the resumption are those of this library, so some results differ on purpose; see
docs/how-to/adopt.md.
"""

from __future__ import annotations

import functools
import inspect
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import continuations
from continuations import tools
from continuations.core import jsontext
from continuations.core.changes import tool_messages
from continuations.core.rows.calls import CLOSED_STATES, CallRow, Nested
from continuations.core.rows.decisions import Deny
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.errors import ContinuationsError, InvalidInput
from continuations.interop import snaplogic
from continuations.models.openai_chat import OpenAIChat
from continuations.tools import SuspendCondition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from continuations.authoring.tool.tool_protocol import ToolProtocol
    from continuations.wire.continuation import Continuation

__all__ = [
    "Agent",
    "AgentExecutionStatus",
    "ContinuationAgent",
    "Tool",
    "suspend_function",
    "tool",
]

_ROOT_NAME = "agent"
_MODEL_NAME = "gpt-4o-mini"
_HOOKS = (
    "_form_input",
    "_call_model_and_check_status",
    "_prepare_tools",
    "_call_all_tools",
    "_call_tool",
    "_create_response",
)


class AgentExecutionStatus(Enum):
    """The states of the prototype's loop. `request` tells them by `end_reason`."""

    RUNNING = auto()
    COMPLETED = auto()
    SUSPENDED = auto()
    REJECTED = auto()
    ERROR = auto()


@dataclass(frozen=True)
class _Prompt:
    prompt: str


class _PromptAgent(continuations.Agent[str]):
    """An agent that another one calls with one string, `prompt`."""

    def first_user_message(self, arguments_json: str) -> str:
        """Return the prompt."""
        return str(jsontext.parse(arguments_json)["prompt"])


class _Probe(BaseException):
    """Raised by `request` of an agent that is looked for."""

    def __init__(self, agent: Agent, given: object) -> None:
        super().__init__()
        self.agent = agent
        self.given = given


# Whether `request` is called only to find out whose it is.
_probing: ContextVar[bool] = ContextVar("probing", default=False)


class Agent:
    """An agent of the prototype that cannot pause.

    Args:
        instruction: The instructions.
        tools: Functions that `tool` declared, and agents made by `as_tool`.

    Raises:
        InvalidInput: An item of `tools` is no tool.
    """

    suspension_list: Sequence[Callable[[], bool]] = ()

    def __init__(self, instruction: str, tools: Sequence[Callable[..., Any]]) -> None:
        self.instruction = instruction
        self.tools = tools
        self.tool_map = {tool_of(each).name: each for each in tools}

    def __init_subclass__(cls) -> None:
        """Refuse a subclass that overrides a step of the prototype's loop."""
        for name in _HOOKS:
            if name in vars(cls):
                raise InvalidInput(
                    f"{cls.__name__}.{name} would never be called: the loop is another "
                    "one here. Use continuations.Agent and its options."
                )

    def request(self, input: Mapping[str, Any]) -> dict[str, Any]:  # noqa: A002 - the prototype's name
        """Run the agent to its end.

        Args:
            input: `{"prompt": text}`.

        Returns:
            `result` and `messages`.

        Raises:
            InvalidInput: `input` has no prompt, or a call waits for an approval.
            ModelError: The model did not reply.
            ContinuationsError: The run failed.
        """
        response = self._respond(input, pauses=False)
        del response["end_reason"]
        return response

    def as_tool(
        self, name: str, description: str, need_approval: bool = False
    ) -> Callable[..., Any]:
        """Make a tool that calls this agent.

        Args:
            name: The name of the tool.
            description: The description for the model.
            need_approval: Whether each call waits for an approval.

        Returns:
            A tool for the `tools` of another agent.
        """
        declare = tool(
            name=name,
            description=description,
            need_approval=need_approval,
            is_agent=True,
        )
        return declare(self.request)

    def _respond(self, given: Mapping[str, Any], *, pauses: bool) -> dict[str, Any]:
        if _probing.get():
            raise _Probe(self, given)
        agent = self.built(_ROOT_NAME)
        for each in self._suspension_functions():
            reset(each)
        if "continuation" in given:
            outcome = _resumed(given, agent)
        else:
            outcome = continuations.run(agent, self._messages(given))
        if isinstance(outcome, continuations.Failed):
            why = outcome.error.message.rstrip(".")
            msg = f"run {outcome.run_id} failed: {why}. Send the prompt again."
            raise ContinuationsError(msg, run_id=outcome.run_id)
        if isinstance(outcome, continuations.Finished):
            return completed_response(outcome.continuation)
        names = list(outcome.reasons)
        if not pauses and not names:
            raise InvalidInput(
                f"tool {outcome.waits[0].tool} needs an approval, and an Agent cannot "
                "pause. The call did not run. Use ContinuationAgent."
            )
        return paused_response(outcome.continuation, names)

    def _messages(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        prompt = given.get("prompt")
        if not isinstance(prompt, str):
            msg = 'input has no "prompt". Pass {"prompt": "..."} or a paused result.'
            raise InvalidInput(msg)
        return [
            {"role": "developer", "content": self.instruction},
            {"role": "user", "content": prompt},
        ]

    def _suspension_functions(self) -> Iterator[Callable[[], bool]]:
        yield from self.suspension_list
        for each in self.tool_map.values():
            declared = tool_of(each)
            if declared.is_agent:
                yield from _agent_of(declared)._suspension_functions()  # noqa: SLF001 - an agent like this one

    @functools.cache  # noqa: B019 - agents live as long as the application
    def built(self, name: str) -> continuations.Agent[str]:
        """Return the agent of this library under a name."""
        tools = [_built_tool(tool_of(each)) for each in self.tools]
        return _PromptAgent(
            name,
            instructions=self.instruction,
            tools=tools,
            model=OpenAIChat(_MODEL_NAME),
            suspend_when=[*map(_condition, self.suspension_list)],
            input_type=_Prompt,
            settings={"parallel_tool_calls": True} if tools else None,
        )


class ContinuationAgent(Agent):
    """An agent of the prototype that pauses for approvals and suspension functions.

    Args:
        instruction: The instructions.
        tools: Functions that `tool` declared, and agents made by `as_tool`.
        suspension_list: Functions that `suspend_function` declared.

    Raises:
        InvalidInput: An item of `tools` is no tool.
    """

    def __init__(
        self,
        instruction: str,
        tools: Sequence[Callable[..., Any]],
        suspension_list: Sequence[Callable[[], bool]] = (),
    ) -> None:
        super().__init__(instruction, tools)
        self.suspension_list = suspension_list

    def request(self, input: Mapping[str, Any]) -> dict[str, Any]:  # noqa: A002 - the prototype's name
        """Run the agent until it ends or pauses, or resume a paused result.

        In the `approval_info` of a paused result, set `approved` to `True` to approve
        a call, and to `Deny(reason=...)` to deny it. `False` is no decision: the call
        goes on waiting. A decision counts for the full path of ids.

        Args:
            input: `{"prompt": text}`, or a dict that `request` returned, also after
                JSON. It is not changed.

        Returns:
            The result of the prototype. `end_reason` is `completed`,
            `approval_required` or `suspended`. A denied call is reported to the model,
            which goes on.

        Raises:
            InvalidInput: `input` has no prompt.
            FormatError: The paused result is invalid or does not fit the agents.
            ModelError: The model did not reply.
            ContinuationsError: The run failed.
        """
        return self._respond(input, pauses=True)


def _resumed(given: Mapping[str, Any], agent: continuations.Agent[str]) -> Any:
    """Resume a paused result with its decisions."""
    plain, denied = without_denials(given)
    paused = snaplogic.read(plain, agent)
    waits = paused.continuation.waits
    answers = paused.decisions(waits)
    for wait in waits:
        verdict = denied.get(paused.path_of(wait))
        if verdict is not None:
            answers[wait.id] = verdict
    return continuations.resume(paused.continuation, agent, answers=answers)


def _condition(function: Callable[[], bool]) -> SuspendCondition:
    """Return a condition that asks a suspension function before each turn."""
    return SuspendCondition(function.__name__, lambda _progress: bool(function()))


def _built_tool(declared: Tool) -> ToolProtocol:
    if not declared.is_agent:
        return declared.function_tool
    agent = _agent_of(declared).built(declared.name)
    return agent.as_tool(
        declared.name, declared.description, approval=declared.need_approval
    )


def _agent_of(declared: Tool) -> Agent:
    """Return the agent whose `request` a function calls; raises `InvalidInput`."""
    if declared.found_agent is None:
        declared.found_agent = _find_agent(declared)
    found: Agent = declared.found_agent
    return found


def _find_agent(declared: Tool) -> Agent:
    given: dict[str, Any] = {"prompt": ""}
    token = _probing.set(True)
    try:
        declared.func(given)
    except _Probe as found:
        if found.given is given:
            return found.agent
    finally:
        _probing.reset(token)
    raise InvalidInput(
        f"tool {declared.name} has is_agent=True, and does not pass on its input to "
        "request() of an agent. Use agent.as_tool(name, description)."
    )


_Json = dict[str, Any]


def completed_response(continuation: Continuation) -> _Json:
    """Return the result of an agent that has ended."""
    return {
        "result": continuation.output,
        "messages": continuation.root.messages,
        "end_reason": "completed",
    }


def paused_response(continuation: Continuation, suspended_by: list[str]) -> _Json:
    """Return the result of an agent that is paused."""
    state = continuation.run_state
    top = _node(state, ROOT_FRAME_ID)
    suspended = {"suspend_list": suspended_by} if suspended_by else {}
    if "resume_request" not in top:
        return {"continuation": top, **suspended, "end_reason": "suspended"}
    return {
        "continuation": top,
        "approval_info": list(_entries(top, [], [])),
        **suspended,
        "end_reason": "approval_required",
    }


def _node(state: RunState, frame_id: str) -> _Json:
    messages = [message.data for message in state.logs[frame_id].messages]
    rows = [state.calls[call] for call in state.frames[frame_id].open_call_ids]
    if not rows:
        return {"messages": messages}
    asked = {call["id"]: call for call in messages[-1]["tool_calls"]}
    pending: list[_Json] = []
    for row in rows:
        if isinstance(row.state, CLOSED_STATES):
            text = tool_messages.tool_message_text(row)
            result = {"role": "tool", "tool_call_id": row.tool_call_id}
            messages.append({**result, "content": text})
        else:
            pending.append(_request(state, row, asked[row.tool_call_id]))
    processed = [{"id": call["id"], "approved": False} for call in pending]
    return {"messages": messages, "resume_request": pending, "processed": processed}


def _request(state: RunState, row: CallRow, asked: _Json) -> _Json:
    request: _Json = {
        key: asked[key] for key in ("id", "type", "function") if key in asked
    }
    if isinstance(row.state, Nested):
        request["continuation"] = _node(state, row.state.frame_id)
    return request


def _entries(node: _Json, names: list[str], ids: list[str]) -> Iterator[_Json]:
    for call in node.get("resume_request", []):
        here = {
            "paths": [*names, call["function"]["name"]],
            "path_ids": [*ids, call["id"]],
        }
        below = call.get("continuation")
        if below is None:
            yield {**here, "tool_call": call, "approved": False}
        elif "resume_request" in below:
            yield from _entries(below, here["paths"], here["path_ids"])
        else:
            yield {**here, "approved": True}


def without_denials(
    given: Mapping[str, Any],
) -> tuple[Mapping[str, Any], dict[tuple[str, ...], Deny]]:
    """Return a paused result as plain JSON values, and its denials by path of ids."""
    denied: dict[tuple[str, ...], Deny] = {}
    entries: list[Any] = []
    for entry in jsontext.as_array(given.get("approval_info")) or ():
        fields = jsontext.as_object(entry)
        verdict = fields.get("approved") if fields is not None else None
        if fields is not None and isinstance(verdict, Deny):
            path = jsontext.as_array(fields.get("path_ids")) or ()
            denied[tuple(map(str, path))] = verdict
            entries.append({**fields, "approved": False})
        else:
            entries.append(entry)
    return ({**given, "approval_info": entries} if denied else given), denied


class Tool:
    """A declared tool; `tool` makes it.

    Args:
        func: The function, or for an agent the function that passes on its input.
        name: The name for the model. Default: the name of the function.
        description: The description for the model. Default: the docstring.
        need_approval: Whether each call waits for an approval.
        is_agent: Whether the function calls `request` of an agent with its input.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        name: str | None = None,
        description: str | None = None,
        need_approval: bool = False,
        is_agent: bool = False,
    ) -> None:
        self.func = func
        self.name = name or str(getattr(func, "__name__", ""))
        self.description = description or inspect.getdoc(func) or ""
        self.need_approval = need_approval
        self.is_agent = is_agent
        # The agent of such a function, once it was looked for.
        self.found_agent: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.func(*args, **kwargs)

    @functools.cached_property
    def function_tool(self) -> tools.Tool[..., Any]:
        """The tool of this library; for tools that are no agents."""
        made: tools.Tool[..., Any] = continuations.tool(
            self.func,
            name=self.name,
            description=self.description,
            approval=self.need_approval,
        )
        return made

    def to_openai_function(self) -> dict[str, Any]:
        """Return the tool as the chat completions API takes it.

        Returns:
            The type, and the name, description and JSON Schema of the arguments.
        """
        parameters: dict[str, Any] = {
            "type": "object",
            "properties": {"prompt": {"type": "string"}},
            "required": ["prompt"],
        }
        if not self.is_agent:
            parameters = dict(self.function_tool.parameters)
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": parameters,
        }
        return {"type": "function", "function": function}


def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    need_approval: bool = False,
    is_agent: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function as a tool; the function stays callable.

    Args:
        name: The name for the model. Default: the name of the function.
        description: The description for the model. Default: the docstring.
        need_approval: Whether each call waits for an approval.
        is_agent: Whether the function returns `agent.request(input)`. The function is
            called once, to find the agent, and must pass on its input unchanged.

    Returns:
        A decorator.
    """

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return func(*args, **kwargs)

        declared: Any = wrapper
        declared._tool = Tool(func, name, description, need_approval, is_agent)  # noqa: SLF001 - the prototype's attribute
        return wrapper

    return decorate


def tool_of(declared: object) -> Tool:
    """Return the `Tool` of a declared function; raises `InvalidInput`."""
    found = getattr(declared, "_tool", None)
    if isinstance(found, Tool):
        return found
    name = getattr(declared, "__name__", repr(declared)[:60])
    raise InvalidInput(f"tools has {name}, which is no tool. Declare it with @tool().")


def suspend_function(
    **state: Any,
) -> Callable[[Callable[[], bool]], Callable[[], bool]]:
    """Declare a function that says before each model turn whether to suspend.

    The state belongs to one request: each `request` begins with the initial state. So
    `n=2` lets an agent make two turns after every resumption.

    Args:
        **state: The initial state, as attributes of the function.

    Returns:
        A decorator.
    """

    def decorate(func: Callable[[], bool]) -> Callable[[], bool]:
        @functools.wraps(func)
        def wrapper() -> bool:
            return func()

        vars(wrapper).update(state)
        declared: Any = wrapper
        declared._initial_state = state  # noqa: SLF001 - read by `reset` alone
        return wrapper

    return decorate


def reset(function: Callable[[], bool]) -> None:
    """Give a suspension function its initial state again."""
    vars(function).update(getattr(function, "_initial_state", {}))
