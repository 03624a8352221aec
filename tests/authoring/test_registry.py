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


def test_registry_finds_agents_and_tools_by_path() -> None:
    assert HR is REGISTRY.root_agent("hr")
    assert HR is REGISTRY.agent_at_path(["hr"])
    assert ACCOUNTS is REGISTRY.agent_at_path(["hr", "books"])
    assert ACCOUNTS is REGISTRY.sub_agent(HR, "accounts")
    assert balance is REGISTRY.tool_at_path(("hr", "accounts", "balance"))
    assert balance is REGISTRY.tool(HR, "balance")


def test_two_root_agents_of_one_name_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="two root agents are named hr"):
        AgentRegistry([HR, Agent("hr")])


def test_two_sub_agents_may_share_a_name() -> None:
    one, other = Agent("twin", tools=[balance]), Agent("twin")
    root = Agent("root", tools=[one.as_tool("left"), other.as_tool("right")])
    registry = AgentRegistry([root])

    assert one is registry.agent_at_path(["root", "left"])
    assert other is registry.agent_at_path(["root", "right"])


def test_missing_root_agent_error_names_the_known_ones() -> None:
    with pytest.raises(
        AgentChanged, match=r"no root agent gone \(root agents: hr, other\)"
    ):
        REGISTRY.root_agent("gone")
    with pytest.raises(AgentChanged, match="root agents: none"):
        AgentRegistry([]).root_agent("gone")


def test_missing_tool_error_names_the_agent_and_its_tools() -> None:
    expected = (
        r"agent accounts has no tool gone \(its tools: balance\)\. Restore the tool"
    )
    with pytest.raises(AgentChanged, match=expected):
        REGISTRY.tool_at_path(["hr", "accounts", "gone"])


def test_function_where_an_agent_is_expected_is_an_error() -> None:
    with pytest.raises(AgentChanged, match="the tool balance of agent hr was an"):
        REGISTRY.agent_at_path(["hr", "balance"])


def test_path_of_a_thousand_levels_is_resolved() -> None:
    agent = Agent("leaf", tools=[balance])
    for _ in range(1_000):
        agent = Agent("level", tools=[agent.as_tool("down")])
    registry = AgentRegistry([agent])

    found = registry.tool_at_path(["level", *["down"] * 1_000, "balance"])

    assert balance is found
