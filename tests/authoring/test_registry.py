"""Agents and tools are found by name; an error says what is missing."""

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
REGISTRY = AgentRegistry([HR, Agent("other")])


def test_registry_finds_agents_and_tools_by_name() -> None:
    assert HR is REGISTRY.root_agent("hr")
    assert HR is REGISTRY.find_root_agent("hr")
    assert ACCOUNTS is REGISTRY.sub_agent(HR, "accounts")
    assert ACCOUNTS is REGISTRY.sub_agent(HR, "books")
    assert balance is REGISTRY.tool(ACCOUNTS, "balance")


def test_two_root_agents_of_one_name_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="two root agents are named hr"):
        AgentRegistry([HR, Agent("hr")])


def test_two_sub_agents_may_share_a_name() -> None:
    one, other = Agent("twin", tools=[balance]), Agent("twin")
    root = Agent("root", tools=[one.as_tool("left"), other.as_tool("right")])
    registry = AgentRegistry([root])

    assert one is registry.sub_agent(root, "left")
    assert other is registry.sub_agent(root, "right")


def test_missing_root_agent_error_names_the_known_ones() -> None:
    assert REGISTRY.find_root_agent("gone") is None
    expected = r"no root agent gone \(root agents: hr, other\)"
    with pytest.raises(AgentChanged, match=expected):
        REGISTRY.root_agent("gone")
    with pytest.raises(AgentChanged, match="root agents: none"):
        AgentRegistry([]).root_agent("gone")


def test_missing_tool_error_names_the_agent_and_its_tools() -> None:
    expected = r"agent accounts has no tool gone \(its tools: balance\)\. Restore"
    with pytest.raises(AgentChanged, match=expected):
        REGISTRY.tool(ACCOUNTS, "gone")


def test_function_where_an_agent_is_expected_is_an_error() -> None:
    with pytest.raises(AgentChanged, match="the tool balance of agent hr was an agent"):
        REGISTRY.sub_agent(HR, "balance")
