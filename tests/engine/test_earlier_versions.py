"""The transcript of a sub-agent that has returned stands in earlier versions."""

from __future__ import annotations

import pytest

from continuations import Finished, Frame, Runner
from continuations.errors import RunNotFound
from tests import sample_app
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call, scripted_model

SCRIPT: Script = {
    "go": [[call("left", input="A"), call("right", input="B")], "all done"],
    "A": [[call("clerk", input="C")], "A done"],
    "B": [[call("act", what="1")], "B done"],
    "C": [[call("read", what="2")], "C done"],
}


def frames_of(runner: Runner, run_id: str, version: int) -> list[Frame]:
    """Return every frame of one version."""
    frames = [runner.look(run_id, version=version).root]
    for frame in frames:
        frames.extend(call.frame for call in frame.calls if call.frame is not None)
    return frames


def test_every_frame_stands_in_a_version_with_its_messages(
    environment: RunEnvironment,
) -> None:
    agents = sample_app.make_agents(scripted_model(SCRIPT))
    runner = Runner(agents, store=environment.store)
    assert isinstance(runner.start("go", run_id="r1"), Finished)

    # Given a reader without agents, and a newest version with the root frame only
    reader = Runner([], store=environment.store)
    newest = reader.look("r1").version
    assert 1 == len(frames_of(reader, "r1", newest))

    # When it looks at every version
    transcripts = {
        frame.messages[1]["content"]: [each.get("content") for each in frame.messages]
        for version in range(1, newest + 1)
        for frame in frames_of(reader, "r1", version)
    }

    # Then each frame is there, without its last reply, which its caller has. Results of
    # repeatable tools in the last turn are not stored on their own.
    assert {"go", "A", "B", "C"} == transcripts.keys()
    assert ["C", None] == transcripts["C"][1:]
    assert "acted 1" == transcripts["B"][-1]
    assert "C done" == transcripts["A"][-1]
    assert {"A done", "B done"} <= set(transcripts["go"])


def test_version_that_does_not_exist_is_not_found(environment: RunEnvironment) -> None:
    runner = Runner(
        sample_app.make_agents(scripted_model({"go": ["end"]})), store=environment.store
    )
    runner.start("go", run_id="r1")

    for version in (0, 99):
        with pytest.raises(RunNotFound):
            runner.look("r1", version=version)
