"""`Runner(renamed=...)`: waiting runs go on after agents and tools got other names."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest

from continuations import (
    Agent,
    Approve,
    Finished,
    Grant,
    Replied,
    Runner,
    Suspended,
    tool,
)
from continuations.errors import InvalidInput
from continuations.guardrails import Guardrails
from continuations.tools import Secret
from continuations_storage import MemoryStore
from tests import scripts
from tests.engine.renamed_agents import RENAMED
from tests.engine.test_judged_texts import Judge, checker
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.scripts import call

APP = "tests.engine.renamed_agents:agents"


def start(environment: RunEnvironment) -> dict[str, dict[str, Any]]:
    """Start the run with the old code; return its waits by tool."""
    waits = environment.run("start", "r1", "go", app=APP)["waits"]
    return {wait["tool"]: wait for wait in waits}


def resume(environment: RunEnvironment, code: str = "new") -> dict[str, Any]:
    return environment.run("resume", "r1", app=APP, code=code, renamed=RENAMED)


@pytest.mark.parametrize("decides_first", [True, False])
def test_run_goes_on_after_every_agent_and_tool_was_renamed(
    environment: RunEnvironment, decides_first: bool
) -> None:
    """Three levels deep, in another process: approvals stay valid, each call runs once.

    A strict approval and an answer for `on_answer` count as well.
    """
    # Given a run whose waits are decided, before or after the deployment
    waits = start(environment)
    if not decides_first:
        again = resume(environment)
        assert {wait["id"] for wait in waits.values()} == {
            wait["id"] for wait in again["waits"]
        }
    environment.approve(waits["pay"])
    environment.approve(waits["wire"])
    environment.decide(waits["pick"], {"answer": {"value": "b", "by": "kim"}})

    # When the new code resumes it
    result = resume(environment)

    # Then the old calls ran under the new names, and the next call waits
    [wait] = result["waits"]
    assert ("transfer", None) == (wait["tool"], wait["note"])
    assert ["choose 7 b", "send 6", "transfer 5"] == sorted(environment.effect_names())
    assert all("missing" not in each for each in result["changes"])

    # And the run ends, also in a process that has both old and new frames
    environment.approve(wait)
    ended = resume(environment)
    assert ("Finished", []) == (ended["kind"], ended["changes"])
    assert "transfer 8" == environment.effect_names()[-1]
    assert len(set(environment.turns())) == len(environment.turns())


def test_without_the_mapping_the_run_is_refused_and_unchanged(
    environment: RunEnvironment,
) -> None:
    environment.approve(start(environment)["pay"])
    before = environment.objects_of_runs()

    refused = environment.run("resume", "r1", app=APP, code="new")

    assert "AgentChanged" == refused["raised"]
    assert before == environment.objects_of_runs()


@pytest.mark.parametrize(
    ("change", "tool_name", "note"),
    [
        ("schema", "pay", "parameter currency was added"),
        ("description", "wire", "description changed after the approval"),
    ],
)
def test_renamed_tool_with_another_contract_waits_again(
    environment: RunEnvironment, change: str, tool_name: str, note: str
) -> None:
    """An approval stays valid only if the rest of the contract is the same."""
    environment.approve(start(environment)[tool_name])

    result = resume(environment, f"new,{change}")

    [again] = [wait for wait in result["waits"] if wait["tool"] == tool_name]
    assert note in again["note"]
    assert [] == environment.effects()


# One process ------------------------------------------------------------------------


@tool(approval=True)
def pay(cents: int) -> int:
    """Pay."""
    return cents


@tool(approval=True, name="transfer")
def transfer(cents: int) -> int:
    """Pay."""
    return cents


@tool(approval=True, name="transfer")
def transfer_in(cents: int, currency: str = "EUR") -> str:
    """Pay."""
    return f"{cents} {currency}"


def model(*lines: Any, task: str = "go") -> Any:
    return scripts.scripted_model({task: [*lines]}, lambda _task, _turn: None)


def test_grant_counts_for_the_renamed_tool_if_its_contract_is_the_same() -> None:
    """The model calls the tool by its new name, and no person is asked again."""
    store = MemoryStore()
    turns = [[call("pay", cents=1)], [call("transfer", cents=2)], "end"]
    old = Runner(Agent("boss", tools=[pay], model=model(*turns)), store=store)
    for run_id in ("same", "other"):
        outcome = expect(old.start("go", run_id=run_id), Suspended)
        old.decide(outcome.waits[0].id, Approve(by="kim", remember=Grant("pay")))

    def resumed(run_id: str, tool_: Any) -> Any:
        agent = Agent("chief", tools=[tool_], model=model(*turns))
        renamed = {"boss": "chief", "pay": "transfer"}
        return Runner(agent, store=store, renamed=renamed).resume(run_id)

    same = resumed("same", transfer)
    other = resumed("other", transfer_in)

    assert isinstance(same, Finished)
    assert isinstance(other, Suspended)
    assert "The tool changed after the approval" in str(other.waits[0].note)
    audit = Runner([], store=store).audit("same")
    assert [("approve", "kim"), ("approve", None)] == [
        (line.verdict, line.by) for line in audit
    ]


def test_thread_of_a_renamed_agent_goes_on_under_the_old_name() -> None:
    """The id of a thread follows from the name, so the old name keeps working."""
    store = MemoryStore()
    replies = model("one", "two", task="hello")
    Runner(Agent("boss", model=replies), store=store).thread("boss", key="k").send(
        "hello"
    )

    new = Runner(Agent("chief", model=replies), store=store, renamed={"boss": "chief"})
    thread = new.thread("boss", key="k")
    reply = expect(thread.send("again"), Replied)

    assert ("two", 4) == (reply.output, len(thread.messages()))


def test_drift_and_resume_agree_about_renames(store: MemoryStore) -> None:
    """The manifest reports the new names as changes that stop nothing."""
    lines = ([call("pay", cents=1)], "end")
    old = Agent("boss", tools=[pay], model=model(*lines))
    Runner(old, store=store).start("go", run_id="r1")
    new = Agent("chief", tools=[transfer], model=model(*lines))
    changed = Agent("chief", tools=[transfer_in], model=model(*lines))
    names = {"boss": "director", "director": "chief", "pay": "transfer"}

    [without] = Runner(new, store=store).drift()
    [renamed] = Runner(new, store=store, renamed=names).drift()
    [other] = Runner(changed, store=store, renamed=names).drift()

    assert ["refuse", "accept", "reopen"] == [
        row.verdict for row in (without, renamed, other)
    ]
    assert [
        ("compatible", "the agent boss is now chief"),
        ("compatible", "it is now named transfer"),
    ] == [(change.kind, change.what) for change in renamed.code_changes]


def test_name_of_a_tool_that_still_exists_means_that_tool(store: MemoryStore) -> None:
    """One of two agents renamed its tool: each stored call finds its own."""
    script = {
        "go": [[call("left", input="l"), call("right", input="r")], "end"],
        "l": [[call("pay", cents=1)], "l done"],
        "r": [[call("pay", cents=2)], "r done"],
    }
    replies = scripts.scripted_model(script, lambda _task, _turn: None)

    def boss(right: Any) -> Agent:
        sub_agents = [
            Agent("left", tools=[pay], model=replies),
            Agent("right", tools=[right], model=replies),
        ]
        return Agent("boss", tools=sub_agents, model=replies)

    outcome = expect(Runner(boss(pay), store=store).start("go", run_id="r1"), Suspended)
    new = Runner(boss(transfer), store=store, renamed={"pay": "transfer"})
    for wait in outcome.waits:
        new.decide(wait.id, Approve(by="kim"))

    assert isinstance(new.resume("r1"), Finished)


@pytest.mark.parametrize(
    ("renamed", "text"),
    [
        ({"a": "b", "b": "a"}, "renamed has a circle: b -> a -> b."),
        ({"a": "a"}, "renamed has a circle: a."),
        ({"a": "gone"}, "leads to no agent and no tool of this runner"),
        ({"pay": "transfer"}, "the tools of agent boss have both names"),
        ({"chief": "boss"}, "the root agents have both names"),
        ({"a": 1}, "renamed must be a mapping of old names to new names"),
        (["a"], "renamed must be a mapping of old names to new names"),
        ({"": "pay"}, "renamed must be a mapping of old names to new names"),
    ],
)
def test_wrong_mapping_is_refused_when_the_runner_is_made(
    renamed: Any, text: str
) -> None:
    agents = [Agent("boss", tools=[pay, transfer]), Agent("chief", tools=[pay])]

    with pytest.raises(InvalidInput) as raised:
        Runner(agents, store="memory:", renamed=renamed)

    assert text in str(raised.value)
    assert Runner([], store="memory:", renamed={"a": "b"}).store


def test_stored_manifest_has_the_old_names_for_frames_that_have_them() -> None:
    """The words of a sub-agent never count as a fact that a tool found."""
    store = MemoryStore()
    script: scripts.Script = {
        "go": [[call("clerk", input="x")], [call("pay", cents=1)], "end"],
        "x": ["I checked it."],
    }
    replies = scripts.scripted_model(script, lambda _task, _turn: None)

    def boss(root: str, clerk: str, pays: Any) -> Agent:
        tools = [Agent(clerk, model=replies), pays]
        return Agent(root, tools=tools, model=replies)

    shown = tool(approval=True, summary="Pay {cents}", name="pay")(pay.function)
    Runner(boss("boss", "clerk", shown), store=store).start(
        "go", run_id="r1", should_pause=pauses_after(4)
    )
    names = {"boss": "chief", "clerk": "bookkeeper"}
    new = Runner(boss("chief", "bookkeeper", shown), store=store, renamed=names)
    outcome = expect(new.resume("r1"), Suspended)

    assert [("clerk", True)] == [
        (each.source, each.by_agent) for each in outcome.waits[0].evidence
    ]
    manifest = json.loads(outcome.continuation.run_state.manifest)
    assert ["chief", "bookkeeper", "boss", "clerk"] == [
        row["name"] for row in manifest["agents"]
    ]


def pauses_after(calls: int) -> Any:
    """Return a `should_pause` that returns True after so many questions."""
    left = iter([False] * calls)
    return lambda: next(left, True)


def test_secret_of_a_renamed_tool_stays_masked_for_a_guardrail_that_is_an_agent() -> (
    None
):
    """The model still uses the old name, and another model must not read the secret."""
    judge, arguments = Judge(), {"password": "hunter2"}

    @tool(name="sign_in")
    def sign_in(password: Annotated[str, Secret()]) -> str:
        """Log in."""
        return f"in with {len(password)} characters"

    agent = Agent(
        "boss",
        tools=[sign_in],
        model=model([call("log_in", **arguments)], "done"),
        guardrails=Guardrails(tools=[checker(judge)]),
    )
    runner = Runner(agent, store="memory:", renamed={"log_in": "sign_in"})

    assert isinstance(runner.start("go", run_id="r1"), Finished)
    assert [{"tool": "log_in", "arguments": {"password": "[secret]"}}] == judge.read
