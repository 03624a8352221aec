"""Sign in to the console of this machine, go on to the page, and sign out again."""

from __future__ import annotations

import re
from urllib.parse import unquote

import httpx
import pytest

from continuations.serve.console import local
from tests.serve.console.console_client import ConsoleClient
from tests.serve.console.test_rewind_page import text_of

LOCAL = "http://127.0.0.1:8321"
LOCALHOST = "http://localhost:8321"


class Scene:
    """A console of this machine, with a browser that is not signed in."""

    def __init__(self, base_url: str = LOCAL, *, tells: bool = True) -> None:
        self.told: list[str] = []
        identity = local("kim", on_sign_out=self.told.append if tells else None)
        self.identity = identity
        self.client = ConsoleClient(
            options={"verify": identity}, person=None, base_url=base_url
        )

    def at(self, base_url: str) -> ConsoleClient:
        """Return the same browser at another address of the console."""
        other = ConsoleClient(app=self.client.app, person=None, base_url=base_url)
        other.cookies = self.client.cookies
        return other

    async def sign_in(self) -> httpx.Response:
        """Open the address that the console printed."""
        return await self.client.get(self.identity.sign_in_path)

    async def sign_out(self) -> httpx.Response:
        """Press "Sign out" in the inbox."""
        inbox = await self.client.get("/inbox")
        csrf = re.search(r'action="/sign-out"><input [^>]*value="(\w+)"', inbox.text)
        assert csrf is not None
        return await self.client.post("/sign-out", {"csrf": csrf[1]})


async def test_sign_in_goes_on_to_the_page_that_was_asked_for() -> None:
    scene = Scene()
    refused = await scene.client.get("/runs/r%201?version=3&call=a%26b")
    assert 401 == refused.status_code
    await scene.client.get("/assets/0000000000000000/console.css")
    await scene.client.get("/favicon.ico", sec_fetch_dest="image")

    signed_in = await scene.sign_in()

    location = "/runs/r%201?version=3&call=a%26b"
    assert (303, location) == (signed_in.status_code, signed_in.headers["location"])
    assert "SameSite=Lax" in signed_in.headers["set-cookie"]
    # It goes on once.
    again = await scene.client.get("/?token=used")
    assert "/" == again.headers["location"]


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example/inbox",
        "/%2F/evil.example",
        "///evil.example",
        "/\\evil.example",
        "/%5Cevil.example/inbox",
        "/.//evil.example",
        "/runs/../../evil",
        "/runs/%2E%2E",
        "/runs/%2e%2e%2f%2e%2e%2fevil",
        "/runs/..",
        "/waits/.",
        "/https://evil.example",
        "/@evil.example",
        "/?next=//evil.example",
        "/sign-out",
        "/nothing",
        f"/runs/{'x' * 3000}",
    ],
)
async def test_sign_in_never_leads_away(path: str) -> None:
    """An address of another site, of another mount, or of no page is forgotten."""
    scene = Scene()
    sent: list[dict[str, object]] = []
    raw, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": unquote(raw),
        "raw_path": raw.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1:8321"), (b"accept", b"text/html")],
        "client": ("127.0.0.1", 1),
        "scheme": "http",
    }

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    await scene.client.app(scope, receive, send)
    assert 401 == sent[0]["status"]

    signed_in = await scene.sign_in()

    assert "/" == signed_in.headers["location"]


@pytest.mark.parametrize("path", ["/runs/a%5C%5Cevil", "/waits/%0d%0aSet-Cookie:%20a"])
async def test_odd_characters_stay_encoded(path: str) -> None:
    scene = Scene()
    await scene.client.get(path)

    location = (await scene.sign_in()).headers["location"]

    assert path.lower() == location.lower().replace("%3a", ":")


async def test_form_and_programs_are_no_pages_to_go_on_to() -> None:
    scene = Scene()
    await scene.client.post("/runs/r1/cancel", {})
    await scene.client.get("/runs/r1", accept="application/json")
    await scene.client.get("/runs/r1", sec_fetch_dest="iframe")
    await scene.client.send("HEAD", "/runs/r1")

    assert "/" == (await scene.sign_in()).headers["location"]


async def test_other_name_of_this_machine_leads_to_the_one_that_works() -> None:
    """A cookie belongs to one name, and the names of this machine are a fixed list."""
    scene = Scene()
    await scene.sign_in()
    other = ConsoleClient(app=scene.client.app, person=None, base_url=LOCALHOST)

    moved = await other.get("/runs/r1?version=2")

    assert 303 == moved.status_code
    assert f"{LOCAL}/runs/r1?version=2" == moved.headers["location"]
    assert 200 == (await scene.client.get("/inbox")).status_code
    program = await other.get("/runs/r1", accept="application/json")
    assert 401 == program.status_code


@pytest.mark.parametrize(
    "base_url",
    [
        "http://attacker.example:8321",
        "http://localhost.attacker.example:8321",
        "http://127.0.0.1.attacker.example:8321",
        "http://0.0.0.0:8321",
        "http://127.1:8321",
        "http://localhost:9999",
    ],
)
async def test_another_name_leads_nowhere(base_url: str) -> None:
    """Also another port of this machine: it may be forwarded to another one."""
    scene = Scene()
    await scene.sign_in()

    page = await scene.at(base_url).get("/inbox")

    assert 401 == page.status_code
    assert "location" not in page.headers


async def test_user_in_the_host_header_is_left_out() -> None:
    scene = Scene()
    await scene.client.get(scene.identity.sign_in_path, host="a@127.0.0.1:8321")
    other = ConsoleClient(app=scene.client.app, person=None, base_url=LOCALHOST)

    moved = await other.get("/inbox")

    assert f"{LOCAL}/inbox" == moved.headers["location"]


async def test_sign_out_ends_the_session_and_says_how_to_come_back() -> None:
    scene = Scene()
    await scene.sign_in()
    copy = "; ".join(f"{c.name}={c.value}" for c in scene.client.cookies.jar)

    page = await scene.sign_out()

    assert (200, "Max-Age=0" in page.headers["set-cookie"]) == (page.status_code, True)
    assert "open the new address in the terminal" in text_of(page)
    assert '<nav aria-label="Main">' not in page.text
    # A copy of the cookie is worth nothing, and the new address works.
    assert 401 == (await scene.client.get("/inbox", cookie=copy)).status_code
    [path] = scene.told
    assert path not in page.text
    assert 303 == (await scene.client.get(path)).status_code
    assert 200 == (await scene.client.get("/inbox")).status_code
    assert 401 == (await scene.at(LOCAL).get("/inbox", cookie=copy)).status_code


async def test_sign_out_without_a_terminal_asks_for_a_restart() -> None:
    scene = Scene(tells=False)
    await scene.sign_in()
    assert "start this console again" in text_of(await scene.sign_out())


async def test_foreign_page_cannot_sign_out() -> None:
    scene = Scene()
    await scene.sign_in()
    foreign = {"origin": "https://evil.example", "sec_fetch_site": "cross-site"}

    assert 403 == (await scene.client.post("/sign-out", {}, **foreign)).status_code
    assert 404 == (await scene.client.get("/sign-out")).status_code
    assert 200 == (await scene.client.get("/inbox")).status_code
    assert [] == scene.told


async def test_session_of_a_proxy_has_no_sign_out() -> None:
    client = ConsoleClient()
    assert "Sign out" not in (await client.get("/inbox")).text
    assert 404 == (await client.post("/sign-out", {})).status_code


async def test_every_response_has_the_same_referrer_policy() -> None:
    scene = Scene()
    stranger = await scene.client.get("/inbox")
    signed_in = await scene.sign_in()
    pages = [stranger, signed_in, await scene.client.get("/inbox")]
    pages.append(await scene.client.get("/runs", accept="application/json"))
    pages.append(await scene.client.get("/nothing"))
    assert {"same-origin"} == {each.headers["referrer-policy"] for each in pages}


async def test_stranger_gets_one_sentence_and_no_navigation() -> None:
    for options in ({"verify": None}, {"verify": local("kim")}, {}):
        client = ConsoleClient(options=options, person=None, base_url=LOCAL)
        page = await client.get("/inbox")
        assert 401 == page.status_code
        for gone in ("Who are you", "<nav", "`", "/inbox"):
            assert gone not in page.text
        assert "<details>" in page.text
