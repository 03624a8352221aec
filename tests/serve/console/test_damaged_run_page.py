"""The page of a run with a damaged version shows what can be read, and the way on."""

from __future__ import annotations

import asyncio

from continuations import AsyncRunner, Runner
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from tests.serve.console.console_client import ConsoleClient
from tests.serve.console.test_rewind_page import RUN, get, scene, text_of


def damage(runner: Runner, number: int) -> ConsoleClient:
    """Damage one version, and return a console of another process."""
    key = layout.version_key(RUN, number)

    async def overwrite() -> None:
        body = bytearray(await Objects(runner.store).read(key))
        body[len(body) // 2] ^= 0xFF
        await runner.store.delete(key)
        await runner.store.create(key, bytes(body))

    asyncio.run(overwrite())
    return ConsoleClient(AsyncRunner([], store=runner.store))


def test_damaged_version_in_the_middle_lets_the_page_show_the_later_ones() -> None:
    # The newest version is rebuilt from the versions 1, 5 and 7.
    for number in (2, 4, 6):
        runner, _ = scene()
        newest = runner.look(RUN).version
        client = damage(runner, number)

        page = get(client, f"/runs/{RUN}")

        text = text_of(page)
        assert 200 == page.status_code, text
        assert "A version of this run is damaged." in text
        assert layout.version_key(RUN, number) in text
        assert f"continuations doctor {RUN}" in text
        assert "Which printer?" in text
        old = get(client, f"/runs/{RUN}?version={number}")
        assert 500 == old.status_code
        assert "A stored object is damaged" in text_of(old)
        assert f"continuations doctor {RUN}" in text_of(old)
        assert newest == runner.look(RUN).version


def test_damaged_newest_version_is_an_error_page_with_the_command_of_the_doctor() -> (
    None
):
    runner, _ = scene()
    newest = runner.look(RUN).version
    client = damage(runner, newest)

    page = get(client, f"/runs/{RUN}")

    assert 500 == page.status_code
    assert layout.version_key(RUN, newest) in text_of(page)
    assert f"continuations doctor {RUN}" in text_of(page)
