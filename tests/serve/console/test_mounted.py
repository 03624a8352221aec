"""The console inside another application, under a prefix."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette

from continuations import Agent, AsyncRunner
from continuations.models.scripted import ScriptedModel
from continuations.serve import console
from tests.serve.console.console_client import ConsoleClient, verify_header
from tests.serve.http.api_fixture import waiting_api


@pytest.mark.parametrize("make_site", [FastAPI, Starlette])
async def test_mounted_console_keeps_to_its_prefix(make_site: Any) -> None:
    """Pages, assets, redirects, posts and JSON work below the mount point."""
    fixture, wait = await waiting_api()
    site = make_site()
    site.mount("/agents", console.app(fixture.runner, verify=verify_header))
    client = ConsoleClient(app=site)

    home = await client.get("/agents/")
    assert (303, "/agents/inbox") == (home.status_code, home.headers["location"])
    inbox = await client.get("/agents/inbox")
    assert f'href="/agents/waits/{wait.id}"' in inbox.text
    assets = re.findall(r'<link rel="\w+"[^>]* href="([^"]*)"', inbox.text)
    assert ["mark.svg", "console.css"] == [path.split("/")[-1] for path in assets]
    for path in assets:
        assert path.startswith("/agents/assets/")
        asset = await client.get(path)
        assert (200, True) == (
            asset.status_code,
            "immutable" in asset.headers["cache-control"],
        )
    answer = await client.send(
        "POST",
        f"/agents/waits/{wait.id}/decision",
        None,
        {"decision": "deny"},
        accept="application/json",
    )
    assert 200 == answer.status_code
    assert 404 == (await client.get("/inbox")).status_code


@pytest.mark.parametrize("root", ["", "/agents"])
@pytest.mark.parametrize("key", ["a/b", "x/messages/1", "100%", "%41"])
async def test_console_answers_programs_about_a_thread_of_any_key(
    key: str, root: str
) -> None:
    """A slash that belongs to the key is encoded in the path."""
    agent = Agent("chat", model=ScriptedModel(["hello"]))
    runner = AsyncRunner(agent, store="memory:")
    site = Starlette()
    site.mount(root, console.app(runner, verify=verify_header))
    client = ConsoleClient(app=site)
    place = f"{root}/threads/chat/{quote(key, safe='')}/messages"

    answer = await client.send(
        "POST", place, None, {"text": "hi"}, accept="application/json"
    )

    assert 200 == answer.status_code
    assert 2 == len(await runner.thread(key=key).messages())


async def test_cookie_of_a_mounted_local_console_stays_below_its_prefix() -> None:
    identity = console.local("kim")
    site = Starlette()
    site.mount("/agents", console.app(ConsoleClient().runner, verify=identity))
    client = ConsoleClient(app=site, person=None, base_url="http://127.0.0.1:8321")
    signed_in = await client.get(f"/agents{identity.sign_in_path}")
    assert "/agents/" == signed_in.headers["location"]
    assert "Path=/agents" in signed_in.headers["set-cookie"]
    assert 200 == (await client.get("/agents/inbox")).status_code


async def test_sign_in_of_a_mounted_console_goes_on_below_its_prefix() -> None:
    """A page of the site around it is no page of the console."""
    identity = console.local("kim")
    site = Starlette()
    site.mount("/agents", console.app(ConsoleClient().runner, verify=identity))
    client = ConsoleClient(app=site, person=None, base_url="http://127.0.0.1:8321")
    await client.get("/agents/runs/r1?version=2")
    await client.get("/agents/../private")
    await client.get("/private")

    signed_in = await client.get(f"/agents{identity.sign_in_path}")

    assert "/agents/runs/r1?version=2" == signed_in.headers["location"]
    other = ConsoleClient(app=site, person=None, base_url="http://localhost:8321")
    moved = await other.get("/agents/inbox")
    assert "http://127.0.0.1:8321/agents/inbox" == moved.headers["location"]
