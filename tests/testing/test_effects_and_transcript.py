"""Checks of effects and transcripts: they pass, or say what is the case instead."""

from __future__ import annotations

import pytest

from continuations import Agent
from continuations.models.scripted import Script, ScriptedModel, ToolCall
from continuations.testing import AgentHarness, Effects, Transcript
from tests.testing.sample_agents import make_boss


def test_effects_are_counted_by_name_and_details() -> None:
    effects = Effects()
    effects.record("pay", person="Jane", cents=5)
    pay = effects.function("pay", result="receipt 1")

    assert "receipt 1" == pay(person="Kim", cents=5)
    effects.assert_times(2, "pay", cents=5)
    effects.assert_once("pay", person="Kim")
    effects.assert_none("pay", person=None)
    effects.assert_none("pay", iban=None)
    effects.assert_none("refund")


def test_wrong_count_lists_all_effects() -> None:
    effects = Effects()
    effects.record("pay", person="Jane")
    effects.record("mail", to="kim")

    with pytest.raises(AssertionError) as raised:
        effects.assert_once("pay", person="Kim")
    assert (
        "pay(person='Kim') happened 0 times, expected 1. Effects:\n"
        "  pay(person='Jane')\n  mail(to='kim')"
    ) == str(raised.value)
    with pytest.raises(AssertionError, match="no effects"):
        Effects().assert_once("pay")


@pytest.fixture
def transcript() -> Transcript:
    """Return the transcript of a run with a sub-agent that has ended."""
    harness = AgentHarness(make_boss(Effects()))
    harness.run_to_pause("Pay Jane")
    harness.approve()
    harness.run_to_end()
    return harness.transcript()


def test_transcript_has_the_messages_of_an_ended_sub_agent(
    transcript: Transcript,
) -> None:
    transcript.assert_called("clerk", input="Pay Jane")
    transcript.assert_called("pay", cents=500)
    transcript.assert_result("pay", "paid 500")
    transcript.assert_result("clerk", "Paid.")
    transcript.assert_said("Done.")
    transcript.assert_said("Pay Jane", role="user")
    transcript.assert_not_called("pay", cents=501)
    transcript.assert_not_called("pay", iban=None)


def test_failures_show_calls_results_and_messages(transcript: Transcript) -> None:
    calls = (
        "Calls:\n  boss: clerk(input='Pay Jane')\n"
        "  clerk: pay(person='Jane', cents=500)"
    )
    with pytest.raises(AssertionError) as raised:
        transcript.assert_called("pay", cents=501)
    assert f"No model called pay(cents=501). {calls}" == str(raised.value)
    with pytest.raises(AssertionError) as raised:
        transcript.assert_not_called("pay")
    assert f"clerk called pay(person='Jane', cents=500). {calls}" == str(raised.value)
    with pytest.raises(AssertionError, match="Results:\n  'paid 500 cents'"):
        transcript.assert_result("pay", "501")
    with pytest.raises(AssertionError, match="no call"):
        transcript.assert_result("refund", "501")
    with pytest.raises(AssertionError) as raised:
        transcript.assert_said("Bye")
    assert "  clerk tool: paid 500 cents" in str(raised.value)
    assert "  boss assistant: Done." in str(raised.value)


def test_ids_that_a_provider_repeats_do_not_mix_results() -> None:
    def echo(n: int) -> str:
        """Echo."""
        return f"echo {n}"

    script: Script = [
        ToolCall("echo", {"n": 1}, id="c"),
        ToolCall("echo", {"n": 2}, id="c"),
        "Ok.",
    ]
    harness = AgentHarness(Agent("a", tools=[echo], model=ScriptedModel(script)))
    harness.run_to_end("Go")

    calls = harness.transcript().calls("echo")
    assert ["echo 1", "echo 2"] == [call.result for call in calls]


def test_arguments_that_are_no_json_object_are_shown_as_text() -> None:
    def echo(n: int) -> str:
        """Echo."""
        return f"echo {n}"

    script: Script = [[ToolCall("echo", "{"), ToolCall("echo", "[1]")], "Ok."]
    harness = AgentHarness(Agent("a", tools=[echo], model=ScriptedModel(script)))
    harness.run_to_end("Go")

    calls = harness.transcript().calls()
    assert [{"": "{"}, {"": "[1]"}] == [call.arguments for call in calls]


def test_parts_of_a_message_are_joined() -> None:
    parts = [{"type": "text", "text": "Hello "}, {"type": "text", "text": "Jane"}]
    harness = AgentHarness(Agent("a", model=ScriptedModel(["Ok."])))
    harness.run_to_end([{"role": "user", "content": parts}])

    harness.transcript().assert_said("Hello Jane", role="user")
    assert ["Hello Jane", "Ok."] == harness.transcript().texts()
