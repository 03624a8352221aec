"""A person who may act on a run, but not view it, reads nothing of its content."""

from __future__ import annotations

import asyncio

import pytest

from continuations import AsyncRunner, Identity
from continuations.ledger.objects import Objects
from tests.serve.console.console_client import ConsoleClient, console_of
from tests.serve.console.test_rewind_page import form_of, get, post
from tests.serve.pages.invoice_run import RUN, InvoiceRun


def posted(run: InvoiceRun) -> int:
    """Return how many messages the run has in its inbox."""

    async def count() -> int:
        keys = Objects(run.store).all_keys(f"runs/{RUN}/in/m-")
        return len([key async for key in keys])

    return asyncio.run(count())


CONTENT = ("invoices due", "Meridian", "12,400", "transfer", "payables", "Ines")


def scene(act: str) -> tuple[InvoiceRun, ConsoleClient]:
    """Return a run that waits, and the console of a person with one right."""
    run = InvoiceRun.suspended()

    def can(_person: Identity, asked: str, _run: str | None) -> bool:
        return asked == act

    runner = AsyncRunner([], store=run.store, clock=run.clock)
    return run, ConsoleClient(runner, {"clock": run.clock, "can": can})


@pytest.mark.parametrize(
    ("act", "path", "fields"),
    [
        ("cancel", f"/runs/{RUN}/cancel", {"reason": "wrong month"}),
        ("erase", f"/runs/{RUN}/erase", {"typed": RUN}),
        ("erase", f"/runs/{RUN}/erase", {"typed": "another"}),
    ],
)
def test_question_and_answer_name_the_run_only(
    act: str, path: str, fields: dict[str, str]
) -> None:
    _, client = scene(act)
    question = get(client, path)
    assert 200 == question.status_code
    answer = post(client, path, {**form_of(question), **fields})
    pages = [question, answer]
    if answer.status_code == 303:
        pages.append(get(client, answer.headers["location"]))
        assert 200 == pages[-1].status_code
    for page in pages:
        assert not [word for word in CONTENT if word in page.text]
    assert RUN in question.text


def test_call_is_cancelled_by_its_id_alone() -> None:
    run, client = scene("cancel")
    [wait] = [each for each in run.runner.look(RUN).waits if each.tool == "transfer"]
    question = get(client, f"/runs/{RUN}/cancel?call={wait.call_id}")
    assert f"Cancel the call {wait.call_id}?" in question.text
    answer = post(client, f"/runs/{RUN}/cancel", form_of(question))
    told = get(client, answer.headers["location"])
    assert "Your request is recorded" in told.text
    for page in (question, told):
        assert not [word for word in CONTENT if word in page.text]
    assert not [w for w in run.runner.look(RUN).waits if w.call_id == wait.call_id]


@pytest.mark.parametrize("act", ["pause", "unpause"])
def test_pause_tells_that_it_is_recorded(act: str) -> None:
    _, client = scene("cancel")
    post(client, f"/runs/{RUN}/pause", {})
    answer = post(client, f"/runs/{RUN}/{act}", {})
    assert (303, f"/recorded?run={RUN}") == (
        answer.status_code,
        answer.headers["location"],
    )


def test_message_is_sent_and_its_page_is_not_shown() -> None:
    run, client = scene("message")
    answer = post(client, f"/runs/{RUN}/messages", {"text": "Wait for Ines."})
    assert f"/recorded?run={RUN}" == answer.headers["location"]
    assert 1 == posted(run)


def test_form_of_a_message_that_is_sent_twice_posts_it_once() -> None:
    run = InvoiceRun.suspended()
    client = console_of(run)
    form = {**form_of(get(client, f"/runs/{RUN}/messages")), "text": "Wait for Ines."}
    for _ in range(2):
        assert 303 == post(client, f"/runs/{RUN}/messages", form).status_code
    assert 1 == posted(run)
