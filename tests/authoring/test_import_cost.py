"""Declaring agents is cheap: the first use of a tool imports pydantic."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import continuations.authoring.agent.agent
import continuations.authoring.approval
import continuations.authoring.registry
import continuations.authoring.context
import continuations.authoring.errors
import continuations.authoring.manifest
import continuations.authoring.agent.agent
import continuations.authoring.tool.tool
from continuations.authoring.agent.agent import Agent
from continuations.authoring.approval import ApprovalPolicy
from continuations.authoring.registry import AgentRegistry
from continuations.authoring.context import ToolContext
from continuations.authoring.tool.tool import tool

@tool
def balance(account: str) -> int:
    "Balance in cents."
    return 1

@tool(approval=ApprovalPolicy(when=lambda cents: cents > 100), timeout=3)
async def pay(cents: int, ctx: ToolContext) -> None:
    "Pay."

accounts = Agent("accounts", tools=[balance, pay], output_type=list[int])
head = Agent("head", tools=lambda: [accounts, head, accounts.as_tool("books")])
registry = AgentRegistry([head])
books = registry.find_sub_agent(registry.find_root_agent("head"), "books")
assert books.get_tool("pay")
assert balance("a") == 1
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_agents_are_declared_and_found_without_pydantic() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    ).stdout.split()

    assert "continuations" in loaded
    for heavy in ("pydantic", "pydantic_core", "docstring_parser", "openai", "boto3"):
        assert heavy not in loaded
