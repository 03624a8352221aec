"""The manifest describes the code of a run and reports its changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from continuations.authoring.agent.agent import Agent
from continuations.authoring.approval import ApprovalPolicy
from continuations.authoring.manifest import (
    ManifestChange,
    compare_manifests,
    make_manifest,
)
from continuations.authoring.tool.tool import tool
from continuations.core import jsontext
from continuations.errors import Corrupt, FormatError


@tool
def pay(cents: int) -> None:
    """Pay."""


def pay_more() -> Any:
    def pay(cents: int, currency: str = "EUR") -> None:
        """Pay."""

    return tool(pay)


def pay_described() -> Any:
    def pay(cents: int) -> None:
        """Pay at once."""

    return tool(pay)


def manifest_of_tree(*tools: Any, root: str = "hr", **options: Any) -> str:
    """Return the manifest of a root agent with a sub-agent `accounts`."""
    accounts = Agent("accounts", tools=[*tools], **options)
    return make_manifest(Agent(root, tools=[accounts]), sdk_version="1.0")


def test_manifest_is_canonical_and_deterministic() -> None:
    manifest = manifest_of_tree(pay)

    assert manifest == manifest_of_tree(pay)
    assert manifest == jsontext.canonical(jsontext.parse(manifest))
    assert () == compare_manifests(manifest, manifest_of_tree(pay))


POLICY = ApprovalPolicy(name="always")


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        (
            lambda: manifest_of_tree(pay, instructions="new"),
            ("compatible", "hr/accounts", "the instructions changed"),
        ),
        (
            lambda: manifest_of_tree(pay, model="m"),
            ("compatible", "hr/accounts", "the model was None and is m"),
        ),
        (
            lambda: manifest_of_tree(pay_described()),
            ("compatible", "hr/accounts/pay", "the description changed"),
        ),
        (
            lambda: manifest_of_tree(pay, Agent("new")),
            ("compatible", "hr/accounts/new", "the tool was added"),
        ),
        (
            lambda: manifest_of_tree(tool(pay.function, approval=POLICY)),
            ("compatible", "hr/accounts/pay", "the approval policy changed"),
        ),
        (
            lambda: manifest_of_tree(pay_more()),
            ("incompatible", "hr/accounts/pay", "the parameters changed"),
        ),
        (
            lambda: manifest_of_tree(tool(pay.function, version="2")),
            (
                "incompatible",
                "hr/accounts/pay",
                "the declared version was None and is 2",
            ),
        ),
        (
            lambda: manifest_of_tree(Agent("pay")),
            ("incompatible", "hr/accounts/pay", "the tool is now an agent"),
        ),
        (manifest_of_tree, ("missing", "hr/accounts/pay", "the tool is gone")),
        (
            lambda: make_manifest(Agent("hr"), sdk_version="1.0"),
            ("missing", "hr/accounts", "the agent is gone"),
        ),
        (
            lambda: manifest_of_tree(pay, root="people"),
            ("missing", "hr", "the agent hr is now people"),
        ),
        (
            lambda: make_manifest(
                Agent("hr", tools=[Agent("books", tools=[pay]).as_tool("accounts")]),
                sdk_version="1.0",
            ),
            None,
        ),
        (
            lambda: manifest_of_tree(pay).replace('"sdk":"1.0"', '"sdk":"1.1"'),
            ("compatible", "", "sdk 1.0 -> 1.1"),
        ),
    ],
)
def test_each_change_has_a_kind(
    current: Callable[[], str], expected: tuple[Any, str, str] | None
) -> None:
    changes = compare_manifests(manifest_of_tree(pay), current())

    if expected is None:  # another agent under the same tool name
        assert ["compatible", "compatible"] == [change.kind for change in changes]
        return
    kind, where, what = expected
    assert (ManifestChange(kind=kind, where=where, what=what),) == changes


def test_recursive_agents_give_a_finite_manifest() -> None:
    def tools() -> list[Any]:
        return [second, first, pay]

    first = Agent("first", tools=tools)
    second = Agent("second", tools=[first])
    manifest = make_manifest(first, sdk_version="1")

    agents = jsontext.parse(manifest)["agents"]

    assert ["first", "second"] == [agent["name"] for agent in agents]
    changed = manifest.replace('"prompt":"', '"prompt":"x')
    assert ["first", "first/second"] == [
        change.where for change in compare_manifests(manifest, changed)
    ]


def agent_chain(levels: int, leaf: Any) -> Agent:
    agent = Agent("leaf", tools=[leaf])
    for level in range(levels):
        agent = Agent(f"level-{level}", tools=[agent.as_tool("down")])
    return agent


def test_manifest_grows_linearly_with_depth() -> None:
    manifest = make_manifest(agent_chain(1_000, pay), sdk_version="1")
    ten = make_manifest(agent_chain(10, pay), sdk_version="1")
    changed = make_manifest(agent_chain(1_000, pay_more()), sdk_version="1")

    (change,) = compare_manifests(manifest, changed)

    assert len(manifest) < 110 * len(ten)
    assert "level-999" + "/down" * 1_000 + "/pay" == change.where


def test_unknown_keys_are_ignored() -> None:
    data = jsontext.parse(manifest_of_tree(pay))
    data["later"] = {"x": 1}
    data["agents"][0]["later"] = 1
    data["agents"][0]["tools"]["accounts"]["later"] = None

    assert () == compare_manifests(jsontext.canonical(data), manifest_of_tree(pay))


def damaged_manifest(change: Callable[[Any], object]) -> str:
    data = jsontext.parse(manifest_of_tree(pay))
    change(data)
    return jsontext.dump(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        "[" * 100_000,
        damaged_manifest(lambda data: data.pop("sdk")),
        damaged_manifest(lambda data: data.update(format=0)),
        damaged_manifest(lambda data: data.update(format=True)),
        damaged_manifest(lambda data: data.update(format="1")),
        damaged_manifest(lambda data: data.update(agents=[])),
        damaged_manifest(lambda data: data.update(agents={})),
        damaged_manifest(lambda data: data.update(agents=[3])),
        damaged_manifest(lambda data: data["agents"][0].pop("name")),
        damaged_manifest(lambda data: data["agents"][0].update(model=3)),
        damaged_manifest(lambda data: data["agents"][0].update(tools=[])),
        damaged_manifest(lambda data: data["agents"][1]["tools"]["pay"].pop("meaning")),
        damaged_manifest(
            lambda data: data["agents"][1]["tools"]["pay"].update(version=1)
        ),
        damaged_manifest(
            lambda data: data["agents"][0]["tools"]["accounts"].update(agent=2)
        ),
        damaged_manifest(
            lambda data: data["agents"][0]["tools"]["accounts"].update(agent=-1)
        ),
        damaged_manifest(
            lambda data: data["agents"][0]["tools"]["accounts"].update(agent=True)
        ),
    ],
)
def test_damaged_manifest_is_refused(text: str) -> None:
    with pytest.raises(Corrupt):
        compare_manifests(text, manifest_of_tree(pay))


def test_newer_manifest_format_is_rejected_by_number() -> None:
    text = damaged_manifest(lambda data: data.update(format=2))

    with pytest.raises(
        FormatError, match="has format 2, and this release reads format 1"
    ):
        compare_manifests(text, manifest_of_tree(pay))
