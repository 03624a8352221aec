"""A fork or a rewind asks again about inputs and outputs that a person accepted."""

from __future__ import annotations

import pytest

from continuations import Agent, Approve, Runner, Suspended, Wait, ask, tool
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import ReplyInfo, TurnInfo
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import ToolWait
from tests.outcomes import expect


def asks(info: TurnInfo | ReplyInfo) -> Tripped | None:
    """Ask about each input of the clerk, and about its output."""
    return Tripped("a person decides") if info.text in ("do", "secret") else None


@tool
def ask_name() -> ToolWait[str]:
    """Ask for a name."""
    return ask("Which name?")


def accepted_run(stage: str) -> tuple[Runner, ScriptedModel, Wait, int]:
    """Return a run that waits after a person accepted a text of its sub-agent."""
    guardrail = Guardrail(check=asks, on_trip="ask")
    is_input = stage == "input"
    reply = [ToolCall("ask_name", {})] if is_input else "secret"
    model = ScriptedModel([reply, "end"])
    clerk = Agent(
        "clerk",
        tools=[ask_name],
        model=model,
        guardrails=Guardrails(
            input=[guardrail] if is_input else [],
            output=[] if is_input else [guardrail],
        ),
    )
    calls = [ToolCall("clerk", {"input": "do"}), ToolCall("ask_name", {})]
    boss = Agent("boss", model=ScriptedModel([calls, "all"]), tools=[clerk, ask_name])
    runner = Runner(boss, store="memory:")
    outcome = expect(runner.start("go", run_id="r"), Suspended)
    [wait] = [each for each in outcome.waits if each.kind == stage]
    runner.decide(wait.id, Approve(by="kim"))
    version = runner.resume("r").continuation.version
    return runner, model, wait, version


@pytest.mark.parametrize("stage", ["input", "output"])
@pytest.mark.parametrize("way", ["fork", "rewind"])
def test_accepted_text_is_asked_about_again(stage: str, way: str) -> None:
    """At each version in which the text was not used yet, under another wait."""
    newest = accepted_run(stage)[3]
    counted = 0
    for version in range(1, newest):
        runner, model, wait, own_newest = accepted_run(stage)
        if version >= own_newest:
            break  # parallel calls may share a version
        row = runner.look("r", version=version)
        if way == "fork":
            run_id = runner.fork("r", version)
        else:
            run_id = runner.rewind("r", version).run_id
        asked = len(model.requests)
        outcome = expect(runner.resume(run_id), Suspended)

        waits = {each.kind: each for each in outcome.waits}
        uses = [c for c in row.root.calls if c.tool == "clerk" and c.frame is not None]
        has_begun = any(call.frame.turns for call in uses if call.frame is not None)
        if not uses or (has_begun and stage == "input"):
            continue  # its call has not begun, or the input is read
        counted += 1
        if stage == "input":
            assert asked == len(model.requests), version
        assert stage in waits, version
        assert wait.id != waits[stage].id
    assert counted > 1
