"""LangChain: its tools as tools.

search = from_langchain(search_tool, read_only=True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from continuations.errors import InvalidInput
from continuations.interop import missing_package
from continuations.serve.option_checks import check_type
from continuations.tools import SchemaToolOptions, Tool

try:
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool, InjectedToolCallId, ToolException
    from langchain_core.tools import Tool as SingleInputTool
except ImportError as error:
    raise missing_package("langchain", "langchain-core", error) from None

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from continuations import ToolContext

__all__ = ["from_langchain"]

_CLOSED = {"additionalProperties": False}


def from_langchain(
    tool: BaseTool,
    *,
    injected: Mapping[str, Callable[[ToolContext], Any]] | None = None,
    **options: Unpack[SchemaToolOptions],
) -> Tool[..., Any]:
    """Make a tool from a LangChain tool.

    Name, description and JSON Schema come from the tool. All effect flags are yours:
    nothing is guessed.

    Args:
        tool: The tool, of `@tool` or a subclass of `BaseTool`.
        injected: For each injected argument (`InjectedToolArg`) a function of the
            context that returns its value. `InjectedToolCallId` needs none.
        **options: The options of `Tool.from_schema`.

    Returns:
        The tool. Its result is the text that LangChain would show to the model.

    Raises:
        InvalidInput: An injected argument has no function, the tool has no schema of
            its arguments, or an option is invalid.
    """
    check_type("tool", tool, BaseTool, "a tool of langchain_core.tools.tool")
    schema = _schema(tool)
    functions = dict(injected or {})
    _check_injected(tool, schema, functions)

    async def invoke(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        given = {name: function(ctx) for name, function in functions.items()}
        request = {
            "type": "tool_call",
            "name": tool.name,
            "args": {**arguments, **given},
            "id": ctx.call_id,
        }
        reply: object = await tool.ainvoke(request)
        if not isinstance(reply, ToolMessage):
            kind = type(reply).__name__
            text = f"{tool.name} returned a {kind}, which only LangGraph can carry out"
            raise TypeError(text)
        content = cast("Any", reply.content)
        if reply.status == "error":
            text = content if isinstance(content, str) else repr(content)
            raise ToolException(text)
        return content

    options.setdefault("description", tool.description)
    return Tool.from_schema(tool.name, schema, invoke, **options)


def _schema(tool: BaseTool) -> dict[str, Any]:
    if isinstance(tool, SingleInputTool) and tool.args_schema is None:
        return {
            "type": "object",
            "properties": tool.args,
            "required": list(tool.args),
            **_CLOSED,
        }
    model: Any = tool.tool_call_schema
    found = cast(
        "dict[str, Any]",
        model if isinstance(model, dict) else model.model_json_schema(),
    )
    schema = {name: value for name, value in found.items() if name != "description"}
    # pydantic ignores an unknown argument, so an approval of one has no effect.
    return schema if isinstance(model, dict) else {**_CLOSED, **schema}


def _check_injected(
    tool: BaseTool, schema: Mapping[str, Any], functions: Mapping[str, Any]
) -> None:
    # The second one is the only place that knows the direct ones, such as ToolRuntime.
    wanted: set[str] = set(_fields(tool)) - set(schema.get("properties", {}))
    wanted |= set(getattr(tool, "_injected_args_keys", ()))
    wanted -= _call_ids(tool)
    if isinstance(tool, SingleInputTool) or isinstance(tool.args_schema, dict):
        wanted = set()
    missing, unknown = sorted(wanted - set(functions)), sorted(set(functions) - wanted)
    if missing:
        raise InvalidInput(
            f"from_langchain: the argument {missing[0]} of tool {tool.name} is "
            f"injected. Pass injected={{{missing[0]!r}: function of the ToolContext}}."
        )
    if unknown:
        raise InvalidInput(
            f"from_langchain: tool {tool.name} has no injected argument {unknown[0]}. "
            "Leave it out: arguments that a model gives are in the schema."
        )


def _fields(tool: BaseTool) -> Mapping[str, Any]:
    """Return the fields of the arguments, injected ones included."""
    model: Any = tool.get_input_schema()
    return cast("Mapping[str, Any]", getattr(model, "model_fields", {}))


def _call_ids(tool: BaseTool) -> set[str]:
    return {
        name
        for name, field in _fields(tool).items()
        for each in field.metadata
        if each is InjectedToolCallId or isinstance(each, InjectedToolCallId)
    }
