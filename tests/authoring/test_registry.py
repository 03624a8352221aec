"""From names to code; what is missing is said with what to do next."""

from __future__ import annotations

import pytest

from continuations.authoring.agent import Agent
from continuations.authoring.registry import AgentRegistry
from continuations.authoring.tool import tool
from continuations.errors import AgentChanged, InvalidInput


@tool
def balance(account: str) -> int:
    """Balance in cents."""
    return len(account)


ACCOUNTS = Agent("accounts", tools=[balance])
HR = Agent("hr", tools=[ACCOUNTS, ACCOUNTS.as_tool("books"), balance])
BINDING = AgentRegistry([HR, Agent("other")])


def test_registry_finds_agents_and_tools_by_path() -> None:
    assert HR is BINDING.root_agent("hr")
    assert HR is BINDING.agent_at_path(["hr"])
    assert ACCOUNTS is BINDING.agent_at_path(["hr", "books"])
    assert ACCOUNTS is BINDING.sub_agent(HR, "accounts")
    assert balance is BINDING.tool_at_path(("hr", "accounts", "balance"))
    assert balance is BINDING.tool(HR, "balance")


def test_two_roots_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="two root agents are named hr"):
        AgentRegistry([HR, Agent("hr")])


def test_two_sub_agents_may_share_a_name() -> None:
    one, other = Agent("twin", tools=[balance]), Agent("twin")
    root = Agent("root", tools=[one.as_tool("left"), other.as_tool("right")])
    binding = AgentRegistry([root])

    assert one is binding.agent_at_path(["root", "left"])
    assert other is binding.agent_at_path(["root", "right"])


def test_a_missing_root_is_named() -> None:
    with pytest.raises(AgentChanged, match=r"no root agent gone here .*hr, other"):
        BINDING.root_agent("gone")
    with pytest.raises(AgentChanged, match="there is: none"):
        AgentRegistry([]).root_agent("gone")


def test_a_missing_tool_is_named_with_its_agent() -> None:
    expected = r"agent accounts has no tool gone \(it has: balance\)\. Bring the tool"
    with pytest.raises(AgentChanged, match=expected):
        BINDING.tool_at_path(["hr", "accounts", "gone"])


def test_function_where_an_agent_is_expected_is_an_error() -> None:
    with pytest.raises(AgentChanged, match="the tool balance of the agent hr was an"):
        BINDING.agent_at_path(["hr", "balance"])


def test_path_of_a_thousand_levels_is_resolved() -> None:
    agent = Agent("leaf", tools=[balance])
    for _ in range(1_000):
        agent = Agent("level", tools=[agent.as_tool("down")])
    binding = AgentRegistry([agent])

    found = binding.tool_at_path(["level", *["down"] * 1_000, "balance"])

    assert balance is found
