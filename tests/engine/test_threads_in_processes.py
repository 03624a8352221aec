"""Threads, events and streams in processes that race and are killed."""

from __future__ import annotations

import asyncio
import base64
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from continuations import Runner, open_store
from continuations.events import (
    LiveTranscript,
    MessageAdded,
    RunEnded,
    RunEvent,
    TextDelta,
)
from continuations_storage.contract import all_keys
from tests.engine import process_race
from tests.engine.test_waiting_tools_in_processes import APP as WAITING_APP
from tests.engine.test_waiting_tools_in_processes import script_of
from tests.engine.thread_agents import CLERK_ASKS
from tests.run_environment import ROOT, RunEnvironment
from tests.sampling import sample
from tests.scripts import call

APP = "tests.engine.thread_agents:agents"
KEY = "customer 42"


def send(environment: RunEnvironment, text: str, own_id: str, **more: Any) -> Any:
    return environment.run("send", KEY, text, own_id, app=APP, **more)


def said(environment: RunEnvironment) -> list[dict[str, Any]]:
    """Return the messages of users and the replies, without the calls of tools."""
    messages = Runner([], store=environment.store).look(thread_id(environment))
    chat = [m for m in messages.root.messages if m["role"] in ("user", "assistant")]
    return [each for each in chat if each["content"]]


def thread_id(environment: RunEnvironment) -> str:
    [summary] = Runner([], store=environment.store).runs()
    return summary.run_id


def test_each_racing_sender_gets_its_own_reply(environment: RunEnvironment) -> None:
    """Six processes make the thread and send to it at the same time."""
    texts = [f"message {number}" for number in range(6)]
    processes = [
        environment.spawn("send", KEY, text, text, app=APP, lease=2) for text in texts
    ]
    results = [process.wait_for_result() for process in processes]

    for text, result in zip(texts, results, strict=True):
        assert "Replied" == result["kind"]
        assert result["output"].endswith(f": {text}")
    users = [each["content"] for each in said(environment) if each["role"] == "user"]
    assert sorted(texts) == sorted(users)
    assert 2 * len(texts) == len(said(environment))


def test_a_payment_below_a_thread_survives_kills(environment: RunEnvironment) -> None:
    """Asked in one process, approved in another, paid once in a third."""
    held = send(environment, f"{CLERK_ASKS}rent", "m1")
    assert "Suspended" == held["kind"]
    [wait] = held["waits"]
    assert ["support", "clerk", "pay"] == wait["path"]
    assert "Queued" == send(environment, "And?", "m2")["kind"]
    environment.approve(wait)
    dying = environment.spawn(
        "send", KEY, f"{CLERK_ASKS}rent", "m1", app=APP, lease=1, fault="9 before"
    )
    dying.wait()
    assert [] == environment.effect_names()

    first = send(environment, f"{CLERK_ASKS}rent", "m1", lease=1)
    second = send(environment, "And?", "m2", lease=1)

    assert "done: done: paid rent" == first["output"]
    assert "2: And?" == second["output"]
    assert ["pay rent"] == environment.effect_names()


def test_a_worker_answers_while_a_sender_waits(environment: RunEnvironment) -> None:
    """The sender follows the thread of another process until its reply is there."""
    send(environment, "one", "m1")
    holder = environment.spawn(
        "send", KEY, "two", "m2", app=APP, lease=1, fault="12 after"
    )
    waiting = environment.spawn("send", KEY, "three", "m3", app=APP, lease=1)
    holder.wait()

    assert waiting.wait_for_result()["output"].endswith(": three")
    assert send(environment, "two", "m2")["output"].endswith(": two")


# Publishers -------------------------------------------------------------------


def check_no_event_is_lost(
    environment: RunEnvironment, article: str, processes: int
) -> None:
    """Race publishers against starting runs; then each run can take an event."""
    script = script_of(call("price", article=article))
    results = process_race.run_race(
        environment, f"price {article}", processes, script=script, app=WAITING_APP
    )
    assert processes // 2 == results.count("published")
    assert {"published", "Finished", "Suspended"} >= set(results)
    for number in range(0, processes, 2):
        ended = environment.resume(script, f"{article}-{number}", app=WAITING_APP)
        assert "Finished" == ended["kind"]
    keys = keys_of(environment)
    assert [] == [key for key in keys if "/w-" in key or key.startswith("waits/")]
    kept = [key for key in keys if key.startswith("markers/")]
    assert processes // 2 == len(kept)
    assert all("-o-" in key for key in kept)


def keys_of(environment: RunEnvironment) -> list[str]:
    """Return all keys of the store that the processes share."""
    url = environment.extra_variables.get("TEST_STORE", environment.store)

    async def list_keys() -> list[str]:
        return [key async for key in all_keys(open_store(url), "")]

    return asyncio.run(list_keys())


@pytest.mark.parametrize("article", sample(["tea", "milk", "salt"], 3))
def test_no_event_is_lost_between_a_listing_and_a_wait(
    environment: RunEnvironment, article: str
) -> None:
    """Six publishers and six runs of a sub-agent begin at the same moment."""
    check_no_event_is_lost(environment, article, 12)


# Streams ----------------------------------------------------------------------


# Each process writes words of its own, so a mixed text would show. It prints each event
# before its model writes the next word.
STREAMING_PROCESS = """
import asyncio, base64, os, pickle, sys
from continuations import Agent, AsyncRunner, tool
from continuations.errors import RunBusy
from continuations.models.interface import Message, ModelDelta, ModelReply

class Writer:
    name = "writer"

    async def reply(self, request):
        turn = sum(each.role == "assistant" for each in request.messages)
        words = [f"p{os.getpid()}-{turn}-{number} " for number in range(5)]
        for word in words:
            await request.on_delta(ModelDelta(kind="text", text=word))
            await asyncio.sleep(0)
        data = {"role": "assistant", "content": "".join(words)}
        if request.agent == "boss" and turn < 2:
            function = {"name": "clerk", "arguments": '{"input": "go"}'}
            data["tool_calls"] = [
                {"id": f"c{turn}", "type": "function", "function": function}
            ]
        return ModelReply(message=Message.from_mapping(data))

clerk = Agent("clerk", model=Writer())
boss = Agent("boss", tools=[clerk], model=Writer())

async def main(store, cursor):
    runner = AsyncRunner(boss, store=store, lease=0.5, max_attempts=100)
    while True:
        if cursor == "":
            stream = runner.stream("go", run_id="r1")
        else:
            stream = runner.resume_stream("r1", after=cursor)
        try:
            async for event in stream:
                cursor = getattr(event, "cursor", cursor)
                print(base64.b64encode(pickle.dumps(event)).decode(), flush=True)
            return
        except RunBusy:
            await asyncio.sleep(0.05)

asyncio.run(main(*sys.argv[1:]))
"""


def events_until_killed(store: str, cursor: str, count: int) -> list[RunEvent]:
    """Return the first events of a new process, which is killed then."""
    process = subprocess.Popen(
        [sys.executable, "-c", STREAMING_PROCESS, store, cursor],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ.copy(),
    )
    assert process.stdout is not None
    events: list[RunEvent] = []
    try:
        for line in process.stdout:
            events.append(pickle.loads(base64.b64decode(line)))  # noqa: S301 - our own
            if len(events) == count:
                break
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    return events


def test_each_text_is_shown_once_although_processes_are_killed(tmp_path: Path) -> None:
    """A client has the stored texts at the end, and no mixture before."""
    store = f"file:{tmp_path}"
    transcript, ended, kills = LiveTranscript(), False, 0
    cut_texts = 0
    while not ended:
        # Killed after its 5th, 9th, 13th … event; each process comes a little further.
        for event in events_until_killed(store, transcript.cursor, 5 + 4 * kills):
            transcript.add(event)
            ended = isinstance(event, RunEnded)
            for text in transcript.texts:
                authors = {word.split("-")[0] for word in text.text.split()}
                assert 1 == len(authors)
        kills += 1
        cut_texts += any(not each.is_complete for each in transcript.texts)

    stored = LiveTranscript()
    for event in Runner([], store=store).events("r1"):
        stored.add(event)
    assert stored.texts == transcript.texts
    assert all(each.is_complete for each in transcript.texts)
    assert 8 == len(transcript.texts)
    assert kills > 2
    assert cut_texts > 0


def test_events_of_a_killed_process_are_those_of_the_run(tmp_path: Path) -> None:
    """An event that was printed before the kill is stored, or is live."""
    store = f"file:{tmp_path}"

    seen = events_until_killed(store, "", 12)

    known = list(Runner([], store=store).events("r1"))
    written = [each for each in seen if not isinstance(each, TextDelta)]
    assert known[: len(written)] == written
    assert [each for each in seen if isinstance(each, TextDelta)]
    assert [each for each in written if isinstance(each, MessageAdded)]
