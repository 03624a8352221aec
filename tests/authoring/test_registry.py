"""Agents and tools are found by name; an error says what is missing."""

from __future__ import annotations

import pytest

from continuations.authoring.agent.agent import Agent
from continuations.authoring.registry import AgentRegistry, missing_tool_text
from continuations.authoring.tool.tool import tool
from continuations.errors import InvalidInput


@tool
def balance(account: str) -> int:
    """Balance in cents."""
    return len(account)


ACCOUNTS = Agent("accounts", tools=[balance])
HR = Agent("hr", tools=[ACCOUNTS, ACCOUNTS.as_tool("books"), balance])
REGISTRY = AgentRegistry([HR, Agent("other")])


def test_registry_finds_agents_and_tools_by_name() -> None:
    assert HR is REGISTRY.find_root_agent("hr")
    assert ACCOUNTS is REGISTRY.find_sub_agent(HR, "accounts")
    assert ACCOUNTS is REGISTRY.find_sub_agent(HR, "books")
    assert REGISTRY.find_sub_agent(HR, "gone") is None


def test_two_root_agents_of_one_name_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="two root agents are named hr"):
        AgentRegistry([HR, Agent("hr")])


def test_two_sub_agents_may_share_a_name() -> None:
    one, other = Agent("twin", tools=[balance]), Agent("twin")
    root = Agent("root", tools=[one.as_tool("left"), other.as_tool("right")])
    registry = AgentRegistry([root])

    assert one is registry.find_sub_agent(root, "left")
    assert other is registry.find_sub_agent(root, "right")


def test_missing_root_agent_text_names_the_known_ones() -> None:
    assert REGISTRY.find_root_agent("gone") is None
    expected = "no root agent gone (root agents: hr, other)"
    assert expected in REGISTRY.missing_root_text("gone")
    assert "root agents: none" in AgentRegistry([]).missing_root_text("gone")


def test_missing_tool_text_names_the_agent_and_its_tools() -> None:
    expected = "agent accounts has no tool gone (its tools: balance)"
    assert expected == missing_tool_text(ACCOUNTS, "gone")


def test_function_where_an_agent_is_expected_is_no_sub_agent() -> None:
    assert REGISTRY.find_sub_agent(HR, "balance") is None
    expected = "the tool balance of agent hr was an agent and is now a function"
    assert expected == missing_tool_text(HR, "balance")
