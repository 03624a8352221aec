"""A stream whose process is killed anywhere is continued by another process."""

from __future__ import annotations

import base64
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

from continuations import Runner
from continuations.events import (
    LiveTranscript,
    MessageAdded,
    RunEnded,
    RunEvent,
    TextDelta,
)
from tests.run_environment import ROOT

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
