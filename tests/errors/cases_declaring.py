"""Declaring agents, tools and approval policies."""

from __future__ import annotations

from continuations.errors import InvalidInput
from tests.errors.case import Area, Case

AGENTS = Area(
    "Declaring agents",
    (
        Case(
            "agent-suspend-when-twice",
            InvalidInput,
            'Agent("clerk", suspend_when=[every(turns=2), every(turns=2)])',
            'Agent("clerk", suspend_when=[every(turns=2), every(turns=3)])',
            names=("clerk", "every 2 turns"),
        ),
        Case(
            "agent-output-type",
            InvalidInput,
            "run(talker(output_type=5), TASK)",
            'run(talker("5", output_type=int), TASK)',
            names=("talker", "output_type"),
        ),
        Case(
            "agent-output-type-without-schema",
            InvalidInput,
            "run(talker(output_type=type(len)), TASK)",
            'run(talker("5", output_type=int), TASK)',
            names=("talker", "output_type"),
        ),
    ),
)

TOOLS = Area(
    "Declaring tools",
    (
        Case(
            "tool-of-a-string",
            InvalidInput,
            'tool("pay")',
            'tool(name="pay")(pay.function)',
            names=("'pay'", "function", "@tool(name='pay')"),
        ),
        Case(
            "tool-generator",
            InvalidInput,
            """
                @tool
                async def rooms(city: str) -> object:
                    "List rooms."
                    yield city
            """,
            """
                @tool
                async def rooms(city: str) -> list[str]:
                    "List rooms."
                    return [city]
            """,
            names=("rooms", "yield"),
        ),
        Case(
            "agent-tools-one-function",
            InvalidInput,
            'Agent("clerk", tools=pay.function)',
            'Agent("clerk", tools=[pay.function])',
            names=("clerk", "tools", "pay(cents, note)"),
        ),
    ),
)

_FIND = """
    schema = {"type": "object", "properties": {"room": {"type": "string"}}}
    def find(arguments): return arguments["room"]
"""
_FOUND = 'run(clerk(Tool.from_schema("find", schema, find)), TASK)'

SCHEMA_TOOLS = Area(
    "Tools with a JSON Schema",
    (
        Case(
            "schema-tool-invalid-schema",
            InvalidInput,
            'run(clerk(Tool.from_schema("find", {"type": "object", "required": 5}, find)), TASK)',
            _FOUND,
            setup=_FIND,
            names=("find", "schema"),
        ),
    ),
)

POLICIES = Area(
    "Approval policies",
    (
        Case(
            "tool-on-timeout",
            InvalidInput,
            'tool(book.function, timeout=5, on_timeout="retry")',
            'tool(book.function, timeout=5, on_timeout="tell_model")',
            names=("book", "on_timeout"),
        ),
    ),
)
