"""An error of a model that stays: what a person can read about the stopped run."""

from __future__ import annotations

import json

import pytest

from continuations import Agent, Finished, Runner, resume, run
from continuations.errors import ModelError
from continuations_storage import MemoryStore
from tests import scripts
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call

NESTED: Script = {
    "go": [[call("left", input="A")], "end"],
    "A": [[call("clerk", input="C")], "A done"],
    "C": [[call("act", what="c")], "C done"],
}
# The model of the deepest agent replies with a message of a user, which is refused.
REFUSED: Script = {**NESTED, "C": [{"role": "user", "content": "x"}]}


def test_error_of_a_nested_model_is_stored_until_its_next_reply(
    environment: RunEnvironment,
) -> None:
    """Three agents deep: every process sees why the run has stopped."""
    raised = environment.start(REFUSED)
    assert "ModelError" == raised["raised"]

    look = Runner([], store=environment.store).look("r1")

    assert ("suspended", ()) == (look.status, tuple(look.waits))
    errors = [row.model_error for row in look.run_state.frames.values()]
    assert [None, None, raised["message"]] == errors
    frames = json.loads(look.to_json())["frames"]
    assert [raised["message"]] == [
        frame["model_error"] for frame in frames if "model_error" in frame
    ]

    # The same error again replaces the text, and a reply removes it.
    assert "ModelError" == environment.resume(REFUSED)["raised"]
    assert "end" == environment.resume(NESTED)["output"]
    versions = Runner([], store=environment.store)
    newest = versions.look("r1").version
    told = [
        any(row.model_error for row in state.frames.values())
        for state in (
            versions.look("r1", version=number).run_state
            for number in range(look.version, newest + 1)
        )
    ]
    assert told == sorted(told, reverse=True)
    assert (True, False) == (told[0], told[-1])
    assert ["act c"] == environment.effect_names()


def test_error_is_in_the_continuation_of_a_run_without_a_store() -> None:
    model = scripts.scripted_model({"go": [ModelError("no such model", status=404)]})

    with pytest.raises(ModelError) as caught:
        run(Agent("boss", model=model), "go")

    continuation = caught.value.continuation
    assert "no such model." == continuation.root.model_error
    works = Agent("boss", model=scripts.scripted_model({"go": ["end"]}))
    ended = expect(resume(continuation.to_bytes(), works), Finished)
    assert ended.continuation.root.model_error is None


def test_error_that_costs_nothing_adds_no_version(store: MemoryStore) -> None:
    """It is part of the version that releases the claim."""
    model = scripts.scripted_model({"go": [ModelError("unauthorized", status=401)]})

    with pytest.raises(ModelError):
        Runner(Agent("boss", model=model), store=store).start("go", run_id="r1")

    look = Runner([], store=store).look("r1")
    assert (2, "unauthorized.") == (look.version, look.root.model_error)
