"""A reply is streamed over HTTP by a server that is killed; each text is shown once."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from continuations import Runner
from continuations.events import LiveTranscript, ReplyGiven, TextDelta
from tests.python_path import python_path
from tests.run_environment import ROOT
from tests.serve.http.sse_client import Reader
from tests.server_process import ServerProcess

THREAD = "/threads/writer/k"
USER = {"x-user": "ann"}


@dataclass(kw_only=True)
class Server(ServerProcess):
    """A server that a test kills and starts again."""

    @property
    def store(self) -> str:
        """The URL of the store."""
        return f"file:{self.folder / 'store'}"

    def start(self, name: str = "app") -> None:
        """Start a process, and wait until it listens."""
        self.start_uvicorn(
            f"tests.serve.streaming_application:{name}",
            cwd=self.folder,
            environment={
                **os.environ,
                "PYTHONPATH": python_path(ROOT, ROOT / "storage"),
                "TEST_STORE": self.store,
                "TEST_STEPS": str(self.folder / "steps"),
            },
        )

    def allow(self, words: int | None) -> None:
        """Let each process write so many words in all; `None`: any number."""
        steps = self.folder / "steps"
        if words is None:
            steps.unlink()
        else:
            steps.write_bytes(b"x" * words)


@pytest.fixture
def server(tmp_path: Path) -> Generator[Server]:
    """Run a server whose model waits before its first word."""
    running = Server(folder=tmp_path)
    running.allow(0)
    running.start()
    yield running
    running.kill()


def is_mixed(reader: Reader) -> bool:
    """Return whether a text has words of two processes."""
    return any(
        len({word.split("-")[0] for word in text.split()}) > 1 for text in reader.texts
    )


def post_until(server: Server, reader: Reader, message: str, words: int) -> None:
    """Post a message, and kill the server when the reader shows so many words."""
    server.allow(words)
    body = {"text": message, "id": message}
    with (
        httpx.Client(base_url=server.url, headers=USER, timeout=60) as client,
        client.stream(
            "POST", f"{THREAD}/messages", json=body, headers=reader.headers
        ) as response,
    ):
        assert 200 == response.status_code
        for _ in reader.read(response.iter_lines()):
            written = [each for each in reader.transcript.texts if not each.is_complete]
            if written and len(written[0].text.split()) == words:
                break
        server.kill()


def follow_to_reply(server: Server, reader: Reader, number: int) -> None:
    """Read the events of the thread until a message has its reply."""
    with httpx.Client(base_url=server.url, headers=USER, timeout=60) as client:
        while not any(
            isinstance(each, ReplyGiven) and each.message_number >= number
            for each in reader.events
        ):
            response = client.get(
                f"{THREAD}/events", params={"wait": 20}, headers=reader.headers
            )
            assert 200 == response.status_code
            for _ in reader.read(response.text.split("\n")):
                assert not is_mixed(reader)


def assert_each_text_once(server: Server, reader: Reader, messages: list[str]) -> None:
    """Check the texts of a reader against those of the store."""
    [reply] = {each.run_id for each in reader.events}
    stored = LiveTranscript()
    for event in Runner([], store=server.store).events(reply):
        stored.add(event)
    assert stored.texts == reader.transcript.texts
    assert messages == reader.texts[::2]
    assert all(each.is_complete for each in reader.transcript.texts)


@pytest.mark.parametrize("words", [1, 4])
def test_client_of_a_killed_server_goes_on_with_the_events(
    server: Server, words: int
) -> None:
    """`GET …/events` with the last id: the next server writes the reply anew."""
    reader = Reader()
    post_until(server, reader, "hello", words)
    first = [each.text for each in reader.events if isinstance(each, TextDelta)]
    assert words == len(first)
    server.allow(None)
    server.start("app_with_worker")

    follow_to_reply(server, reader, 1)

    assert_each_text_once(server, reader, ["hello"])
    assert f"p{server.processes[-1].pid}-0-hello" in reader.texts[1]


def test_client_of_killed_servers_repeats_its_request(server: Server) -> None:
    """`POST` with the same id and the last id: the words of the next server too."""
    reader = Reader()
    post_until(server, reader, "hello", 3)
    server.start()
    post_until(server, reader, "hello", 2)
    assert not is_mixed(reader)
    server.allow(None)
    server.start()
    with httpx.Client(base_url=server.url, headers=USER, timeout=60) as client:
        for text, number in (("hello", 1), ("again", 2)):
            response = client.post(
                f"{THREAD}/messages",
                json={"text": text, "id": text},
                headers=reader.headers,
            )
            for _ in reader.read(response.text.split("\n")):
                assert not is_mixed(reader)
            reply = reader.named[-1]
            assert ("reply", number) == (reply.name, reply.data["number"])

    assert_each_text_once(server, reader, ["hello", "again"])


def test_client_that_disconnects_does_not_lose_its_reply(server: Server) -> None:
    """The server goes on with the work, and asks the model once."""
    reader = Reader()
    server.allow(2)
    with (
        httpx.Client(base_url=server.url, headers=USER, timeout=60) as client,
        client.stream(
            "POST",
            f"{THREAD}/messages",
            json={"text": "hello", "id": "hello"},
            headers=reader.headers,
        ) as response,
    ):
        for _ in reader.read(response.iter_lines()):
            if len(reader.texts) == 2:
                break
    server.allow(5)  # no process can write the words of a second request

    follow_to_reply(server, reader, 1)

    assert_each_text_once(server, reader, ["hello"])
    assert 5 == len(reader.texts[1].split())
    with httpx.Client(base_url=server.url, headers=USER, timeout=60) as client:
        found = client.get(f"{THREAD}/messages/1")
    assert reader.texts[1] == found.json()["output"]
