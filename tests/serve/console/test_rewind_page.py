"""A run is rewound in the console: its consequences are shown first."""

from __future__ import annotations

import asyncio
import re
from html import unescape

import httpx

from continuations import (
    Agent,
    Answer,
    AsyncRunner,
    Runner,
    Suspended,
    ask_person,
    tool,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.present.schema_check import assert_matches_schema
from tests.serve.console.console_client import ConsoleClient
from tests.serve.rights import only

RUN = "paper-1"


@tool
def order(what: str) -> str:
    """Order something."""
    return f"ordered {what}"


def scene() -> tuple[Runner, ConsoleClient]:
    """Return a run that ordered paper, read a message, and asks a question."""
    model = ScriptedModel(
        [
            ToolCall("ask_person", {"question": "How many boxes?"}),
            ToolCall("order", {"what": "2 boxes of paper"}),
            ToolCall("ask_person", {"question": "Which printer?"}),
            "Done.",
        ]
    )
    store = MemoryStore()
    runner = Runner(
        Agent("office", tools=[order, ask_person], model=model), store=store
    )
    runner.start("We need paper", run_id=RUN)
    runner.send(RUN, "Recycled paper, please", by="lee")
    runner.decide(runner.look(RUN).waits[0].id, Answer("two", by="kim"))
    assert isinstance(runner.resume(RUN), Suspended)
    return runner, ConsoleClient(AsyncRunner([], store=store))


def first_wait(runner: Runner) -> int:
    """Return the first version that had a wait."""
    return next(each.number for each in runner.history(RUN) if each.waits)


def get(client: ConsoleClient, path: str) -> httpx.Response:
    """Open a page."""
    return asyncio.run(client.get(path))


def post(client: ConsoleClient, path: str, form: dict[str, str]) -> httpx.Response:
    """Send a form."""
    return asyncio.run(client.post(path, form))


def text_of(page: httpx.Response) -> str:
    """Return the text of a page, with single spaces."""
    body = page.text[page.text.index("<main") :]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def form_of(page: httpx.Response) -> dict[str, str]:
    """Return the hidden fields of the form of a page, without the person's token."""
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text)
    return {name: value for name, value in found if name != "csrf"}


def test_rewind_shows_its_consequences_and_then_tells_of_them() -> None:
    runner, client = scene()
    version = first_wait(runner)
    versions = get(client, f"/runs/{RUN}/versions").text
    address = f"/runs/{RUN}/rewind?version={version}"
    assert f'href="{address}"' in versions
    assert f'href="{address}"' in get(client, f"/runs/{RUN}?version={version}").text
    newest = runner.look(RUN).version

    page = get(client, address)

    text = text_of(page)
    parts = [
        f"Go back to version {version}? We need paper",
        "Closed",
        "Which printer?",
        "What happened stays",
        "order 2 boxes of paper office > order",
        "Not read again",
        "Recycled paper, please message 1, by lee",
    ]
    places = [text.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert sorted(places) == places
    assert newest == runner.look(RUN).version

    answer = post(client, f"/runs/{RUN}/rewind", form_of(page))

    run = runner.look(RUN)
    assert 303 == answer.status_code
    assert f"/runs/{RUN}/rewound?version={run.version}" == answer.headers["location"]
    assert ["How many boxes?"] == [wait.question for wait in run.waits]
    told = text_of(get(client, answer.headers["location"]))
    assert f"Rewound to version {version}" in told
    assert f"The run continues as version {run.version}." in told
    assert "order 2 boxes of paper" in told
    assert "Recycled paper, please" in told
    assert "Which printer?" in told


def test_run_that_moved_on_or_is_not_shown_is_not_rewound() -> None:
    runner, client = scene()
    form = form_of(get(client, f"/runs/{RUN}/rewind?version={first_wait(runner)}"))
    shown = runner.look(RUN).version
    runner.pause(RUN, by="lee")
    version = runner.look(RUN).version

    stale = post(client, f"/runs/{RUN}/rewind", form)
    blind = post(client, f"/runs/{RUN}/rewind", {"version": form["version"]})

    assert 409 == stale.status_code
    moved = f"the run moved on from version {shown} to version {version}."
    assert f"Nothing was changed: {moved}" in text_of(stale)
    assert f'href="/runs/{RUN}/versions?from={shown}&amp;to={version}"' in stale.text
    assert form_of(stale)["shown"] != form["shown"]
    assert 400 == blind.status_code
    assert version == runner.look(RUN).version


def test_decision_since_the_page_shows_the_page_again_before_a_rewind() -> None:
    runner, client = scene()
    version = first_wait(runner)
    first = get(client, f"/runs/{RUN}/rewind?version={version}")
    newest = runner.look(RUN).version
    runner.decide(runner.look(RUN).waits[0].id, Answer("the red one", by="lee"))

    again = post(client, f"/runs/{RUN}/rewind", form_of(first))

    assert "Decided already" not in text_of(first)
    assert 409 == again.status_code
    assert newest == runner.look(RUN).version
    text = text_of(again)
    assert "Nothing was changed: meanwhile, this was decided: “Which printer?”." in text
    assert "Decided already: after the rewind, the decision has no effect." in text
    assert form_of(again)["shown"] != form_of(first)["shown"]

    confirmed = post(client, f"/runs/{RUN}/rewind", form_of(again))

    assert 303 == confirmed.status_code
    assert newest < runner.look(RUN).version


def test_stale_rewind_shows_nothing_without_the_right_to_view() -> None:
    runner, client = scene()
    form = form_of(get(client, f"/runs/{RUN}/rewind?version={first_wait(runner)}"))
    runner.pause(RUN, by="lee")

    blind = ConsoleClient(client.runner, {"can": only("fork")})
    refused = post(blind, f"/runs/{RUN}/rewind", form)
    assert 409 == refused.status_code
    assert "The run moved on meanwhile" in text_of(refused)
    for content in ("Which printer?", "2 boxes of paper", "Recycled"):
        assert content not in refused.text


def test_fork_without_the_version_of_its_page_is_refused() -> None:
    runner, client = scene()
    runs = len(list(runner.runs()))
    refused = post(client, f"/runs/{RUN}/fork", {"message": "go"})
    assert 400 == refused.status_code
    assert "does not name the version that it showed" in text_of(refused)
    assert runs == len(list(runner.runs()))


def test_foreign_page_rewinds_nothing() -> None:
    runner, client = scene()
    form = form_of(get(client, f"/runs/{RUN}/rewind?version={first_wait(runner)}"))
    version = runner.look(RUN).version
    path = f"/runs/{RUN}/rewind"
    foreign = client.post(path, form, sec_fetch_site="cross-site")
    assert 403 == asyncio.run(foreign).status_code
    assert version == runner.look(RUN).version


def test_ended_run_is_forked_instead() -> None:
    runner, client = scene()
    version = first_wait(runner)
    runner.cancel(RUN, by="kim")

    page = get(client, f"/runs/{RUN}/rewind?version={version}")

    assert "This run has ended, so it is not rewound" in text_of(page)
    assert f'href="/runs/{RUN}/fork?version={version}"' in page.text
    assert "<form" not in page.text
    versions = get(client, f"/runs/{RUN}/versions").text
    assert "/rewind?" not in versions
    assert f'href="/runs/{RUN}/fork?version={version}"' in versions


def test_address_cannot_claim_a_rewind() -> None:
    runner, client = scene()
    for number in (0, first_wait(runner), 99):
        page = get(client, f"/runs/{RUN}/rewound?version={number}")
        assert 400 <= page.status_code < 500
    newest = runner.look(RUN).version
    refused = get(client, f"/runs/{RUN}/rewind?version={newest}")
    assert f"The run cannot go back to version {newest}" in text_of(refused)
    assert 400 == get(client, f"/runs/{RUN}/rewind").status_code
    assert 404 == get(client, f"/runs/{RUN}/rewind?version=99").status_code


def test_person_without_the_right_to_fork_gets_no_link_and_no_page() -> None:
    runner, client = scene()

    limited = ConsoleClient(client.runner, {"can": only("view")})
    version = first_wait(runner)
    assert "/rewind?" not in get(limited, f"/runs/{RUN}/versions").text
    refused = get(limited, f"/runs/{RUN}/rewind?version={version}")
    assert 403 == refused.status_code


def test_programs_get_the_same_plan() -> None:
    runner, client = scene()
    version = first_wait(runner)
    path = f"/runs/{RUN}/rewind"

    async def scenario() -> tuple[httpx.Response, httpx.Response]:
        json = {"accept": "application/json"}
        plan = await client.get(f"{path}?version={version}", **json)
        body = {"version": version, "shown": plan.json()["digest"]}
        unknown = {**body, "shown": "0" * 64}
        refused = await client.send("POST", path, None, unknown, **json)
        assert 400 == refused.status_code
        assert "the digest of no version of this run" in refused.json()["detail"]
        other = {**body, "version": version + 1}
        stale = await client.send("POST", path, None, other, **json)
        assert (409, "stale-run") == (stale.status_code, stale.json()["type"][-9:])
        return plan, await client.send("POST", path, None, body, **json)

    plan, rewound = asyncio.run(scenario())
    form = plan.json()
    assert_matches_schema("rewind_plan", form)
    assert ["Which printer?"] == [wait["question"] for wait in form["waits"]]
    assert 200 == rewound.status_code
    assert form["calls"] == rewound.json()["calls"]
    assert form["messages"] == rewound.json()["messages"]
