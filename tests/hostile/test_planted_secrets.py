"""Keys in clients, headers, environment and context: in nothing that is kept or told.

`tests/engine/test_secrets.py` follows a run that goes well; here everything fails.
"""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI

import continuations
from continuations import (
    Agent,
    AgentChanged,
    Approve,
    ContinuationsError,
    Corrupt,
    Deny,
    Failed,
    ModelError,
    Runner,
    Suspended,
    ToolContext,
    tool,
)
from continuations.models.openai_chat import OpenAIChat
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import FileStore
from tests.engine.test_secrets import plain
from tests.hostile import shop
from tests.hostile.shelf import Shelf
from tests.model_server import ModelServer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KEY = "sk-proj-PLANTEDINTHECLIENT0123456789"
HEADER = "PLANTEDINAHEADEROFTHECLIENT"
SPOKEN = "PLANTEDINTHEENVIRONMENT"
CONTEXT = "PLANTEDINTHECONTEXT"
SECRETS = (KEY, KEY[-12:], HEADER, SPOKEN, CONTEXT)


class Desk:
    """A live object, with a secret that its repr tells."""

    def __repr__(self) -> str:
        return f"<Desk {CONTEXT}>"

    __str__ = __repr__


def told(error: BaseException) -> str:
    """Return all that an error says to whoever prints or logs it."""
    return "".join(
        [str(error), repr(error), repr(error.args), *traceback.format_exception(error)]
    )


def check(*said: str | bytes) -> None:
    """No secret is in any of it."""
    for text in said:
        data = text if isinstance(text, bytes) else text.encode(errors="replace")
        assert [] == [secret for secret in SECRETS if secret.encode() in data]


def test_a_secret_that_was_kept_or_told_would_be_found() -> None:
    """The tests below would hold as well if nothing were looked at."""
    store = Shelf()
    agent = Agent("boss", model=ScriptedModel(["end"]))
    ended = Runner(agent, store=store).start(f"My key is {KEY}. " * 20, run_id="r")

    for said in (plain(store.bodies)[-1], told(KeyError(Desk())).encode()):
        with pytest.raises(AssertionError):
            check(said)
    assert KEY in ended.continuation.to_json()


ANSWERS: dict[str, Mapping[str, Any]] = {
    "401 that echoes the key": {
        "status": 401,
        "body": {"error": {"message": f"Incorrect API key provided: {KEY}."}},
    },
    "401 that echoes half of it": {
        "status": 401,
        "body": {"error": {"message": f"Bad key {KEY[:8]}****{KEY[-4:]}, {KEY[-12:]}"}},
    },
    "403 with the headers": {
        "status": 403,
        "body": {"detail": [{"input": {"authorization": f"Bearer {KEY}"}}]},
    },
    "400 with a header of the client's own": {
        "status": 400,
        "body": {"error": {"message": f"bad x-gateway: {HEADER}"}},
    },
    "500 in plain text": {"status": 500, "body": f"key={KEY} gateway={HEADER}"},
    "429": {"status": 429, "body": {"message": f"Authorization: Bearer {KEY}"}},
    "200 that is no answer": {"raw": f'{{"key": "{KEY}", "gateway": "{HEADER}"}}'},
    "200 that is no JSON": {"raw": f"<html>{KEY} {HEADER}</html>"},
    "no answer": {"hang_up": True},
}


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("own", [False, True], ids=["by key", "by client"])
def test_what_a_provider_echoes_is_not_repeated(
    name: str,
    *,
    own: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R-I5: not in errors, tracebacks, our log or the store; the run is kept."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("GATEWAY", SPOKEN)
    caplog.set_level(logging.DEBUG)
    store = Shelf()
    answer = json.loads(json.dumps(ANSWERS[name]))
    if not own:  # then nobody sent it
        answer = json.loads(json.dumps(answer).replace(HEADER, "a header"))
    with ModelServer(lambda _, __: answer, key=KEY) as server:
        client = None
        if own:
            client = AsyncOpenAI(
                api_key=KEY,
                base_url=server.url,
                default_headers={"x-gateway": HEADER},
                max_retries=0,
            )
        model = OpenAIChat(
            "gpt-5-mini", client=client, base_url=server.url, api_key=KEY, max_retries=0
        )
        runner = Runner(Agent("boss", model=model), store=store)
        with pytest.raises(ModelError) as raised:
            runner.start("go", run_id="r", context=Desk())
        if client is not None:
            asyncio.run(client.close())

    ours = [
        r.getMessage() for r in caplog.records if r.name.startswith("continuations")
    ]
    check(told(raised.value), *ours, repr(model), repr(runner))
    check(*plain(store.bodies), runner.look("r").to_json())
    assert "suspended" == runner.look("r").status


def test_errors_of_every_kind_tell_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """R-I5: Corrupt, AgentChanged, refused decisions, a failed run; with a context."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("GATEWAY", SPOKEN)
    caplog.set_level(logging.DEBUG)

    @tool(approval=True)
    def pay(ctx: ToolContext) -> str:
        """Look at the context, and fail for another reason."""
        assert CONTEXT in repr(ctx.context)
        raise ConnectionError("no route to the bank")

    @tool
    def keep(ctx: ToolContext) -> Any:
        """Try to have live objects stored: as a value, a key, an error."""
        return {"desk": ctx.context, "all": [ctx]}

    @tool
    def fail(ctx: ToolContext) -> Any:
        """Raise what holds the live object."""
        raise LookupError(ctx)

    calls = [ToolCall(name, {}) for name in ("keep", "fail", "pay")]
    model = OpenAIChat("gpt-5-mini", api_key=KEY)
    scripted = ScriptedModel([calls, "end"])
    agent = Agent("boss", tools=[pay, keep, fail], model=scripted)
    runner = Runner(agent, store=FileStore(tmp_path / "store"))
    said: list[object] = [model, runner, agent, pay, runner.store]

    outcome = runner.start("go", run_id="r", context=Desk())
    assert isinstance(outcome, Suspended)
    said += [outcome, outcome.waits, outcome.continuation.root]
    (wait,) = outcome.waits
    errors: list[ContinuationsError] = []

    def refused(kind: type[ContinuationsError], work: Any) -> None:
        with pytest.raises(kind) as raised:
            work()
        errors.append(raised.value)

    # The tool is gone
    runner.decide(wait.id, Approve(by="kim"))
    changed = Runner(Agent("boss", model=scripted), store=runner.store)
    refused(AgentChanged, lambda: changed.resume("r", context=Desk()))
    refused(ContinuationsError, lambda: runner.decide(wait.id, Deny()))
    # The newest version is damaged
    newest = min((tmp_path / "store/runs/r/v").iterdir())
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-1])
    refused(Corrupt, lambda: runner.resume("r", context=Desk()))
    newest.write_bytes(whole)
    # And it goes on to its end, its tools having failed
    ended = runner.resume("r", context=Desk())
    looked = runner.look("r")
    said += [ended, looked, looked.table, looked.root.messages, looked.to_json()]
    cancelled = runner.start("go", run_id="s", context=Desk())
    said += [cancelled, runner.cancel("s"), runner.resume("s", context=Desk())]
    assert isinstance(said[-1], Failed)

    check(*map(repr, said), *map(told, errors), caplog.text)
    bodies = {
        k: (tmp_path / "store" / k).read_bytes() for k in shop.keys(tmp_path / "store")
    }
    check(*plain(bodies))


def test_every_public_value_has_a_repr_that_tells_no_live_object() -> None:
    """R-I5: whoever adds a public class that can hold one comes by here."""
    holding = {"Runner", "AsyncRunner", "ToolContext", "Agent", "Model"}
    assert holding <= set(continuations.__all__)
    context = ToolContext(
        run_id="r",
        call_id="c1",
        idempotency_key="b-c1",
        fence=1,
        attempt=1,
        deadline=None,
        context=Desk(),
    )
    client = AsyncOpenAI(api_key=KEY, default_headers={"x-gateway": HEADER})
    model = OpenAIChat("gpt-5-mini", client=client)
    agent = Agent("boss", model=model)
    check(repr(context), str(context), repr(model), repr(agent))
    check(repr(Runner(agent, store="memory:")), repr(model.__dict__))
    asyncio.run(client.close())
