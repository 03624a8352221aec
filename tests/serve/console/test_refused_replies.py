"""A refused reply and its reason are on the page of the run and in `show`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from continuations import Agent, AsyncRunner, Failed, Runner
from continuations.cli.stack_tree import header_lines
from continuations.core.reading.views import refused_replies
from continuations.core.reading.withheld_texts import shown_state
from continuations.hooks import Hooks, RefuseReply
from continuations.models.scripted import ScriptedModel
from continuations.wire.stack_json import stack_json
from tests.serve.console.console_client import ConsoleClient
from tests.serve.pages.html_forms import main_of

RUDE = "You are a fool. <b>"


def rude(reply: Any) -> RefuseReply | None:
    return RefuseReply("too rude") if "fool" in reply.text else None


def start(store: str, replies: list[str], **options: Any) -> Any:
    """Run an agent to its end, and return the outcome."""
    agent = Agent("host", model=ScriptedModel(replies), **options)
    return Runner(agent, store=store).start("Hello", run_id="r")


def texts(store: str) -> tuple[str, str]:
    """Return the page of the run and the lines of `show`."""
    client = ConsoleClient(AsyncRunner([], store=store))
    page = main_of(asyncio.run(client.get("/runs/r")).text)
    continuation = Runner([], store=store).look("r")
    return page, "\n".join(line.text for line in header_lines(continuation))


@pytest.mark.parametrize("replies", [[RUDE, "Welcome."], [RUDE, RUDE]])
def test_a_reply_that_a_hook_refused_is_shown_with_its_reason(
    tmp_path: Path, replies: list[str]
) -> None:
    """Also if the next reply was used, and if the run failed with `refused`."""
    store = f"file:{tmp_path}"
    outcome = start(store, replies, hooks=Hooks(after_model=rude))
    assert isinstance(outcome, Failed) is (replies[1] == RUDE)

    page, shown = texts(store)
    assert "You are a fool. &lt;b&gt;" in page
    assert "too rude" in page
    assert RUDE in shown
    assert "agent host gave a reply that was refused: too rude" in shown


@pytest.mark.parametrize("replies", [["maybe", "7"], ["seven", "maybe"]])
def test_a_reply_that_is_no_output_is_shown_with_its_reason(
    tmp_path: Path, replies: list[str]
) -> None:
    """The last one too, which ends the run."""
    store = f"file:{tmp_path}"
    start(store, replies, output_type=int)

    for text in texts(store):
        assert "gave a reply that was refused" in text
        assert "must match output_type" in text
        assert "maybe" in text


def test_a_long_reply_is_cut_and_withheld_without_the_right_to_read(
    tmp_path: Path,
) -> None:
    """1,000 characters are kept; a state without messages has none of them."""
    store = f"file:{tmp_path}"
    start(store, ["fool" + "x" * 5000, "Welcome."], hooks=Hooks(after_model=rude))
    state = Runner([], store=store).look("r").run_state

    (refused,) = refused_replies(state)
    assert refused.text.startswith("fool" + "x" * 996 + "…")
    assert len(refused.text) < 1100
    assert not refused_replies(shown_state(state, "states"))
    assert "foolx" in str(stack_json(state, "transcript"))
    for detail in ("texts", "states"):
        assert "foolx" not in str(stack_json(state, detail))
