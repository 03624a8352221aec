"""One chat on two server processes behind a round robin, one of which is killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from tests.interop.agui.clients import Client, run_clients
from tests.ports import free_port, wait_for_port
from tests.run_environment import ROOT

YES = {"approved": True}
END = "Jane has her money, and you have a receipt."


@dataclass
class Servers:
    """Server processes with one store, and a round robin of their addresses.

    Attributes:
        folder: The folder of the store.
        running: The processes by their ports.
    """

    folder: Path
    running: dict[int, subprocess.Popen[bytes]] = field(
        default_factory=dict[int, "subprocess.Popen[bytes]"]
    )

    def start(self) -> int:
        """Start a server, and return its port."""
        port = free_port()
        module = "tests.interop.agui.shop_server"
        self.running[port] = subprocess.Popen(
            [sys.executable, "-m", module, str(port), str(self.folder)], cwd=ROOT
        )
        wait_for_port(port)
        return port

    def kill(self, port: int) -> None:
        process = self.running.pop(port)
        process.kill()
        process.wait()

    def addresses(self) -> Iterator[str]:
        """Iterate over the addresses of the servers, round and round."""
        return cycle(f"http://127.0.0.1:{port}/" for port in [*self.running])

    def payments(self) -> list[str]:
        """Return what was paid."""
        path = self.folder / "payments"
        return path.read_text().splitlines() if path.exists() else []


@contextmanager
def run_servers(folder: Path) -> Generator[Servers]:
    """Yield servers, and kill them at the end."""
    servers = Servers(folder)
    try:
        yield servers
    finally:
        for port in [*servers.running]:
            servers.kill(port)


def send_to(client: Client, port: int) -> Client:
    """Send the next turn of a client to a server."""
    client.url = f"http://127.0.0.1:{port}/"
    return client


async def exists(path: Path) -> None:
    """Wait until a file exists."""
    async with asyncio.timeout(30):
        while not path.exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
            await asyncio.sleep(0.02)


async def test_server_is_killed_between_interrupt_and_resume(tmp_path: Path) -> None:
    """Each turn goes to another server; no server keeps anything of a chat."""
    with run_servers(tmp_path) as servers:
        asked, other = servers.start(), servers.start()
        async with run_clients() as clients:
            ann = clients.client("", "ann")
            seen = await send_to(ann, asked).say("Pay Jane")
            assert (seen.error, seen.outcome) == (None, "interrupt")
            servers.kill(asked)
            seen = await send_to(ann, other).answer(YES)
            assert (seen.error, seen.outcome) == (None, "success")
            assert seen.texts[-1] == END
            assert servers.payments() == ["jane 500"]

            servers.start()
            addresses = servers.addresses()
            for text in ("Thanks", "Bye", "Really", "Really!"):
                ann.url = next(addresses)
                seen = await ann.say(text)
                assert (seen.error, seen.texts[-1]) == (None, "You are welcome.")
            bob = clients.client(next(addresses), "bob")
            again = await bob.turn()
            root = [each for each in seen.texts if each != "The clerk has paid."]
            assert again.texts == root
            assert servers.payments() == ["jane 500"]


async def test_server_is_killed_while_it_writes(tmp_path: Path) -> None:
    """The stream breaks; the next turn takes the work over, and nothing runs twice."""
    with run_servers(tmp_path) as servers:
        (tmp_path / "hold").touch()
        dying, other = servers.start(), servers.start()
        async with run_clients() as clients:
            ann = clients.client("", "ann")
            seen = await send_to(ann, dying).say("Pay Jane")
            assert seen.outcome == "interrupt"
            turn = asyncio.create_task(ann.answer(YES))
            await exists(tmp_path / "writing")
            servers.kill(dying)
            seen = await turn
            assert seen.error
            (tmp_path / "hold").unlink()
            assert servers.payments() == ["jane 500"]
            seen = await send_to(ann, other).answer(...)
            assert (seen.error, seen.outcome) == (None, "success")
            assert [each for each in seen.texts if "Jane has" in each] == [END]
            assert servers.payments() == ["jane 500"]
