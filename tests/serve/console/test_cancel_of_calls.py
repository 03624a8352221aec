"""An open call of a nested agent is cancelled in the console, after a question."""

from __future__ import annotations

import asyncio
import re

from continuations import AsyncRunner
from tests.serve.console.console_client import ConsoleClient
from tests.serve.console.test_rewind_page import form_of, get, post, text_of
from tests.serve.pages.invoice_run import RUN, InvoiceRun
from tests.serve.rights import only


def scene() -> tuple[InvoiceRun, ConsoleClient, str]:
    """Return a run three levels deep, a console, and the page of its open transfer."""
    run = InvoiceRun.suspended()
    runner = AsyncRunner([], store=run.store, clock=run.clock)
    client = ConsoleClient(runner, {"clock": run.clock})
    page = get(client, f"/runs/{RUN}").text
    [path] = set(re.findall(r'(/runs/[^"]+)#call"[^>]*>transfer</a>.*?Meridian', page))
    return run, client, path


def open_titles(run: InvoiceRun) -> set[str]:
    """Return the titles of the open waits."""
    return {wait.title or wait.question or "" for wait in run.runner.look(RUN).waits}


def test_open_call_is_cancelled_and_the_run_goes_on() -> None:
    run, client, path = scene()
    before = open_titles(run)
    [transfer] = [title for title in before if "Meridian" in title]
    page = get(client, path).text
    [address] = re.findall(r'href="([^"]+)">Cancel this call', page)

    question = get(client, address)

    assert "Cancel the call of transfer?" in text_of(question)
    assert transfer in text_of(question)
    assert "The run goes on" in text_of(question)
    assert before == open_titles(run)
    form = {**form_of(question), "reason": "Meridian was paid by hand"}
    assert 303 == post(client, f"/runs/{RUN}/cancel", form).status_code
    run.new_runner().resume(RUN)
    assert before - {transfer} == open_titles(run)
    [line] = [each for each in run.runner.audit(RUN) if each.kind == "call"]
    assert ("kim", "Meridian was paid by hand") == (line.by, line.reason)
    assert "Cancel this call" not in get(client, path).text


def test_call_that_ended_or_is_shown_to_others_has_no_link() -> None:
    run, client, path = scene()

    limited = ConsoleClient(client.runner, {"can": only("view")})
    assert "Cancel this call" not in get(limited, path).text
    old = f"{path}&version={run.runner.look(RUN).version}"
    assert "Cancel this call" not in get(client, old).text
    [address] = re.findall(r'href="([^"]+)">Cancel this call', get(client, path).text)
    assert 403 == get(limited, address).status_code
    run.runner.cancel(RUN, by="lee")
    assert "Cancel this call" not in get(client, path).text
    unknown = get(client, f"/runs/{RUN}/cancel?call=c99")
    assert 400 == unknown.status_code
    assert asyncio.run(client.get(path)).status_code == 200
