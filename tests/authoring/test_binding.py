"""From names to code; what is missing is said with what to do next."""

from __future__ import annotations

import pytest

from continuations.authoring.agent import Agent
from continuations.authoring.binding import Binding
from continuations.authoring.tool import tool
from continuations.errors import AgentChanged, InvalidInput


@tool
def balance(account: str) -> int:
    """Balance in cents."""
    return len(account)


ACCOUNTS = Agent("accounts", tools=[balance])
HR = Agent("hr", tools=[ACCOUNTS, ACCOUNTS.as_tool("books"), balance])
BINDING = Binding([HR, Agent("other")])


def test_names_lead_to_agents_and_tools() -> None:
    assert HR is BINDING.root("hr")
    assert HR is BINDING.agent_at(["hr"])
    assert ACCOUNTS is BINDING.agent_at(["hr", "books"])
    assert ACCOUNTS is BINDING.child(HR, "accounts")
    assert balance is BINDING.tool_at(("hr", "accounts", "balance"))
    assert balance is BINDING.tool(HR, "balance")


def test_two_roots_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="two root agents are named hr"):
        Binding([HR, Agent("hr")])


def test_two_agents_of_one_name_below_are_fine() -> None:
    one, other = Agent("twin", tools=[balance]), Agent("twin")
    root = Agent("root", tools=[one.as_tool("left"), other.as_tool("right")])
    binding = Binding([root])

    assert one is binding.agent_at(["root", "left"])
    assert other is binding.agent_at(["root", "right"])


def test_a_missing_root_is_named() -> None:
    with pytest.raises(AgentChanged, match=r"no root agent gone here .*hr, other"):
        BINDING.root("gone")
    with pytest.raises(AgentChanged, match="there is: none"):
        Binding([]).root("gone")


def test_a_missing_tool_is_named_with_its_agent() -> None:
    expected = r"agent accounts has no tool gone \(it has: balance\)\. Bring the tool"
    with pytest.raises(AgentChanged, match=expected):
        BINDING.tool_at(["hr", "accounts", "gone"])


def test_a_function_in_an_agents_place_is_named() -> None:
    with pytest.raises(AgentChanged, match="the tool balance of the agent hr was an"):
        BINDING.agent_at(["hr", "balance"])


def test_a_thousand_levels_are_walked() -> None:
    agent = Agent("leaf", tools=[balance])
    for _ in range(1_000):
        agent = Agent("level", tools=[agent.as_tool("down")])
    binding = Binding([agent])

    found = binding.tool_at(["level", *["down"] * 1_000, "balance"])

    assert balance is found
