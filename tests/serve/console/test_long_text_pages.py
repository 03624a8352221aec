"""A part of a long text is a part of its page: the same rights, masks and addresses."""

from __future__ import annotations

import asyncio
import json
import re
from html import unescape
from typing import Annotated, Any

import pytest

from continuations import Agent, Approve, AsyncRunner, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http import asgi
from continuations.serve.http.api import HttpApi
from continuations.serve.http.links import Links
from continuations.tools import Secret
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.serve.console.console_client import ConsoleClient
from tests.serve.rights import all_but, only

END = "<i>the end"
BODY, KEY, INPUT = "body " * 2000 + END, "k" * 9000, "input " * 2000 + END
WAIT = "/waits/{wait}"


@tool(approval=True)
def send(body: str, key: Annotated[str, Secret()]) -> str:
    """Send a text."""
    return f"{body}{key}"


sees_no_texts = all_but("read")


sees_nothing = only()


class Sent:
    """A run that waits to send a long text, and a console."""

    def __init__(self, **options: Any) -> None:
        self.store = MemoryStore()
        model = ScriptedModel([ToolCall("send", {"body": BODY, "key": KEY}), "done"])
        self.runner = Runner(Agent("a", tools=[send], model=model), store=self.store)
        self.runner.start(INPUT, run_id="r1")
        [self.wait] = self.runner.look("r1").waits
        self.client = ConsoleClient(AsyncRunner([], store=self.store), options)

    def get(self, path: str) -> Any:
        """Return the response to a browser."""
        return asyncio.run(self.client.get(path.format(wait=self.wait.id)))

    def links(self, path: str) -> list[str]:
        """Return the addresses of the long texts of a page."""
        page = self.get(path).text
        found = re.findall(r'<a href="(\?[^"]*)">Read all</a>', page)
        base = path.partition("?")[0]
        return [base + unescape(each) for each in found]


@pytest.mark.parametrize(
    "path",
    [
        WAIT,
        f"{WAIT}/edit?for=all",
        f"{WAIT}/answer",
        f"{WAIT}/remember",
        "/runs/r1/fork",
    ],
)
def test_argument_is_read_in_parts_and_downloaded(path: str) -> None:
    sent = Sent()
    first = sent.links(path)[0]

    part = sent.get(first)
    whole = sent.get(first.replace("part=1", "part=whole"))

    assert (200, True) == (part.status_code, "&lt;i&gt;the end" in part.text)
    assert END not in part.text
    assert "body body" in part.text
    assert BODY.encode() == whole.content
    assert "attachment" in whole.headers["content-disposition"]
    assert "default-src 'none'; sandbox" == whole.headers["content-security-policy"]
    assert "nosniff" == whole.headers["x-content-type-options"]
    assert "no-store" == whole.headers["cache-control"]


def test_secret_is_in_no_part() -> None:
    sent = Sent()
    for path in (WAIT, "/runs/r1/messages", f"/runs/r1?call={sent.wait.call_id}"):
        for link in sent.links(path):
            whole = link.replace("part=1", "part=whole")
            assert "kkkk" not in sent.get(whole).text


def test_reader_without_the_right_to_read_opens_no_text() -> None:
    """The address of a text opens it only for those whose page has it."""
    sent = Sent()
    [link] = sent.links("/runs/r1/messages")[:1]
    assert "input input" in sent.get(link).text

    sent.client = ConsoleClient(sent.client.runner, {"can": sees_no_texts})

    for each in (link, link.replace("part=1", "part=whole")):
        refused = sent.get(each)
        assert (404, False) == (refused.status_code, "input input" in refused.text)
        assert "The page has no such text any more" in refused.text


def test_reader_without_the_right_to_view_gets_no_part() -> None:
    sent = Sent()
    [link, *_] = sent.links(WAIT)
    sent.client = ConsoleClient(sent.client.runner, {"can": sees_nothing})
    assert 403 == sent.get(link).status_code


def test_text_of_an_open_page_stays_readable_after_the_decision() -> None:
    """The page of a decided wait has other texts, and says so."""
    sent = Sent()
    [link, *_] = sent.links(WAIT)
    edited = {"body": BODY + "!", "key": "[secret]"}
    sent.runner.decide(sent.wait.id, Approve(by="kim", arguments=edited))

    assert 404 == sent.get(link).status_code
    [decided, *_] = sent.links(WAIT)
    whole = sent.get(decided.replace("part=1", "part=whole"))
    assert "body body" in whole.text


@pytest.mark.parametrize("path", [WAIT, f"{WAIT}/remember"])
def test_form_of_an_approval_names_the_arguments_of_which_a_part_is_shown(
    path: str,
) -> None:
    warning = "Not shown in full: body. Read all of it before you approve."
    sent = Sent()
    form = sent.get(path).text.partition('id="approve"')[2].partition("</form>")[0]
    assert warning in " ".join(re.sub(r"<[^>]+>", "", form).split())
    # Nothing is said at the button of a denial.
    assert 1 == sent.get(path).text.count("Not shown in full")


def test_changed_call_is_shown_whole_before_its_approval() -> None:
    """The page after a form has no address, so it has the text whole."""
    sent = Sent()
    changed = "<a>" * 4001 + "the end"
    path = f"/waits/{sent.wait.id}/edit"
    shown = sent.get(path).text
    [digest] = re.findall(r'name="shown" value="([^"]*)"', shown)
    names = re.findall(r'name="(value:[^"]*)"', shown)
    values = {"body": changed, "key": "[secret]"}
    fields = {name: values.get(name.rpartition("/")[2], "") for name in names}

    page = asyncio.run(sent.client.post(path, {"shown": digest, **fields})).text
    assert 200 == asyncio.run(sent.client.get(path)).status_code
    assert "Not shown in full" not in page
    [cell] = re.findall("<td>(.*?)</td>", page, re.DOTALL)[:1]
    assert changed in unescape(re.sub("<[^>]*>", "", cell))
    [kept] = re.findall(r'name="arguments" value="([^"]*)"', page)
    assert changed == json.loads(unescape(kept))["body"]


def test_decision_is_recorded_whatever_text_its_address_names() -> None:
    """A form posts to the address of its page, and only a GET opens a text."""
    sent = Sent()
    form = {"decision": "approve", "shown": sent.wait.digest}
    path = f"/waits/{sent.wait.id}?text=abc&part=whole"
    page = asyncio.run(sent.client.post(path, form))
    assert (200, True) == (page.status_code, "Recorded: Approved" in page.text)


def test_part_costs_what_its_page_costs() -> None:
    sent = Sent()
    store = FaultyStore(sent.store)
    sent.client = ConsoleClient(AsyncRunner([], store=store))
    [link, *_] = sent.links(WAIT)
    before = len(store.operations)
    sent.get(WAIT)
    of_page = len(store.operations) - before
    sent.get(link)
    assert before + 2 * of_page == len(store.operations)


def test_signed_link_has_the_parts_of_its_page() -> None:
    sent = Sent()
    links = Links("0123456789abcdef" * 2, base_url="http://agents.example")
    api = HttpApi(AsyncRunner([], store=sent.store), links=links)
    client = ConsoleClient(app=asgi.app(api), person=None)
    path = links.link(sent.wait, actor="kim").removeprefix("http://agents.example")

    async def get(query: str = "") -> Any:
        return await client.get(path + query)

    page = asyncio.run(get()).text
    [link, *_] = re.findall(r'<a href="(\?[^"]*)">Read all</a>', page)
    query = unescape(link)
    part = asyncio.run(get(query))
    assert "body body" in part.text
    assert "<script" not in part.text
    whole = asyncio.run(get(query.replace("part=1", "part=whole")))
    assert BODY.encode() == whole.content
    assert 404 == asyncio.run(get("?text=abc")).status_code
    sent.runner.decide(sent.wait.id, Approve(by="kim", reason="r" * 5000))
    decided = asyncio.run(get()).text
    [link] = re.findall(r'<a href="(\?[^"]*)">Read all</a>', decided)
    assert "r" * 5000 in asyncio.run(get(unescape(link))).text
