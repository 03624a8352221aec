"""Each door says which input or output a person is asked about, and what follows."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import pytest

from continuations import Agent, ApprovalPolicy, Runner, Wait
from continuations.cli.program import run_command
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import ReplyInfo, TurnInfo
from continuations.models.scripted import ScriptedModel
from continuations.present import wait_words
from continuations.present.json_forms import wait_json
from continuations.serve.notify.mail import body_text, subject_line
from tests.outcomes import single_wait
from tests.serve.pages.wait_html import wait_html

TEXT = "a <b>fish</b>\u202e"


def fishy(info: TurnInfo | ReplyInfo) -> Tripped | None:
    """Trip over fish."""
    return Tripped("it smells") if "fish" in info.text else None


def wait_about(stage: str, store: str = "memory:") -> Wait:
    """Return the wait about an input or an output."""
    policy = ApprovalPolicy(approvers=["kim"], within=3600)
    ask = Guardrail(check=fishy, on_trip="ask", approval=policy)
    is_input = stage == "input"
    guardrails = Guardrails(input=[ask]) if is_input else Guardrails(output=[ask])
    agent = Agent("cook", model=ScriptedModel([TEXT]), guardrails=guardrails)
    return single_wait(
        Runner(agent, store=store).start(TEXT if is_input else "go", run_id="r1")
    )


@pytest.mark.parametrize("stage", ["input", "output"])
def test_page_shows_the_text_and_the_consequences(stage: str) -> None:
    """The text is escaped, and the buttons are those of the kind."""
    wait = wait_about(stage)
    body = wait_html(wait, ["approve", "deny"])
    shown = unescape(body)

    verb = "use this input" if stage == "input" else "return this output"
    assert f"May cook {verb}?" in shown
    assert "a &lt;b&gt;fish" in body
    assert "<b>fish" not in body
    assert "\u202e" not in shown
    assert "fishy asks about" in shown
    assert "it smells" in shown
    for words in wait.rules.verdicts.values():
        assert words.label in shown
        assert words.meaning in shown
    assert f"the {stage} is " in shown


@pytest.mark.parametrize("stage", ["input", "output"])
def test_command_line_json_and_mail_show_the_text(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They show the same arguments, note and question."""
    store = f"file:{tmp_path}"
    wait = wait_about(stage, store)

    assert 0 == run_command(["show", wait.id, "--store", store])
    shown = capsys.readouterr().out
    assert "fish" in shown
    assert "\u202e" not in shown
    assert "it smells" in shown
    assert 0 == run_command(["waiting", "--store", store])
    assert wait.id in capsys.readouterr().out
    form = json.loads(json.dumps(wait_json(wait)))
    assert {stage: TEXT} == form["arguments"]
    assert stage == form["kind"]
    assert wait.rules.question.format(tool="cook") in subject_line(wait)
    text = body_text(wait, None, with_arguments=True)
    assert "fish" in text
    assert wait.rules.explanation in text


@pytest.mark.parametrize("stage", ["input", "output"])
def test_inbox_names_the_question_and_not_a_call(stage: str) -> None:
    """No call runs after this decision."""
    wait = wait_about(stage)
    assert wait.rules.question.format(tool="cook") == wait_words.title(wait)
