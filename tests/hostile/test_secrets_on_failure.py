"""Secrets of clients, headers, environment and context are not stored or printed.

`tests/engine/test_secrets.py` tests runs without errors; here everything fails.
"""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from continuations import (
    Agent,
    Approve,
    ContinuationsError,
    Deny,
    Failed,
    Runner,
    Suspended,
    ToolContext,
    tool,
)
from continuations.errors import AgentChanged, Corrupt, ModelError
from continuations.models.openai_chat import OpenAIChat
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import FileStore
from tests.hostile import sample_store
from tests.hostile.editable_store import EditableStore
from tests.model_server import ModelServer
from tests.public_names import public_values
from tests.stores import keys_and_bodies

API_KEY = "sk-proj-SECRETOFTHECLIENT0123456789"
HEADER_SECRET = "SECRETINAHEADEROFTHECLIENT"
ENVIRONMENT_SECRET = "SECRETINTHEENVIRONMENT"
CONTEXT_SECRET = "SECRETINTHECONTEXT"
SECRETS = (API_KEY, API_KEY[-12:], HEADER_SECRET, ENVIRONMENT_SECRET, CONTEXT_SECRET)


class LiveObject:
    """An object of the application whose repr shows a secret."""

    def __repr__(self) -> str:
        return f"<LiveObject {CONTEXT_SECRET}>"

    __str__ = __repr__


def error_text(error: BaseException) -> str:
    """Return all texts of an error that a program may print or log."""
    return "".join(
        [str(error), repr(error), repr(error.args), *traceback.format_exception(error)]
    )


def check_no_secret(*texts: str | bytes) -> None:
    """Assert that no text contains a secret."""
    for text in texts:
        data = text if isinstance(text, bytes) else text.encode(errors="replace")
        assert [] == [secret for secret in SECRETS if secret.encode() in data]


def test_secret_check_finds_a_stored_or_printed_secret() -> None:
    """A check that finds nothing would pass all other tests."""
    store = EditableStore()
    agent = Agent("boss", model=ScriptedModel(["end"]))
    outcome = Runner(agent, store=store).start(
        f"My key is {API_KEY}. " * 20, run_id="r"
    )

    for text in (
        b"".join(keys_and_bodies(store.bodies)),
        error_text(KeyError(LiveObject())).encode(),
    ):
        with pytest.raises(AssertionError):
            check_no_secret(text)
    assert API_KEY in outcome.continuation.to_json()


PROVIDER_RESPONSES: dict[str, Mapping[str, Any]] = {
    "401 that echoes the key": {
        "status": 401,
        "body": {"error": {"message": f"Incorrect API key provided: {API_KEY}."}},
    },
    "401 that echoes half of it": {
        "status": 401,
        "body": {
            "error": {
                "message": f"Bad key {API_KEY[:8]}****{API_KEY[-4:]}, {API_KEY[-12:]}"
            }
        },
    },
    "403 with the headers": {
        "status": 403,
        "body": {"detail": [{"input": {"authorization": f"Bearer {API_KEY}"}}]},
    },
    "400 with a header of the client's own": {
        "status": 400,
        "body": {"error": {"message": f"bad x-gateway: {HEADER_SECRET}"}},
    },
    "500 in plain text": {
        "status": 500,
        "body": f"key={API_KEY} gateway={HEADER_SECRET}",
    },
    "429": {"status": 429, "body": {"message": f"Authorization: Bearer {API_KEY}"}},
    "200 that is no reply": {
        "raw": f'{{"key": "{API_KEY}", "gateway": "{HEADER_SECRET}"}}'
    },
    "200 that is no JSON": {"raw": f"<html>{API_KEY} {HEADER_SECRET}</html>"},
    "no reply": {"hang_up": True},
}


@pytest.mark.parametrize("name", PROVIDER_RESPONSES)
@pytest.mark.parametrize("own_client", [False, True], ids=["by key", "by client"])
def test_secret_echoed_by_a_provider_is_not_repeated(
    name: str,
    *,
    own_client: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A provider's error may echo a secret; errors, logs and store do not have it."""
    monkeypatch.setenv("OPENAI_API_KEY", API_KEY)
    monkeypatch.setenv("GATEWAY", ENVIRONMENT_SECRET)
    caplog.set_level(logging.DEBUG)
    store = EditableStore()
    response = json.loads(json.dumps(PROVIDER_RESPONSES[name]))
    if not own_client:  # then no request has that header
        response = json.loads(json.dumps(response).replace(HEADER_SECRET, "a header"))
    with ModelServer(lambda _, __: response, key=API_KEY) as server:
        client = None
        if own_client:
            client = AsyncOpenAI(
                api_key=API_KEY,
                base_url=server.url,
                default_headers={"x-gateway": HEADER_SECRET},
                max_retries=0,
            )
        model = OpenAIChat(
            "gpt-5-mini",
            client=client,
            base_url=server.url,
            api_key=API_KEY,
            max_retries=0,
        )
        runner = Runner(Agent("boss", model=model), store=store, model_retry_time=0)
        try:
            # The text of a failure that may pass is the note of the wait.
            text = repr(runner.start("go", run_id="r", context=LiveObject()))
            assert 1 == len(runner.look("r").waits)
        except ModelError as raised:
            text = error_text(raised)
        if client is not None:
            asyncio.run(client.close())

    log_messages = [
        r.getMessage() for r in caplog.records if r.name.startswith("continuations")
    ]
    check_no_secret(text, *log_messages, repr(model), repr(runner))
    check_no_secret(*keys_and_bodies(store.bodies), runner.look("r").to_json())
    assert "suspended" == runner.look("r").status


def test_errors_contain_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Corrupt, AgentChanged, refused decisions and a failed run show no secret."""
    monkeypatch.setenv("OPENAI_API_KEY", API_KEY)
    monkeypatch.setenv("GATEWAY", ENVIRONMENT_SECRET)
    caplog.set_level(logging.DEBUG)

    @tool(approval=True)
    def pay(ctx: ToolContext) -> str:
        """Use the context, and fail for another reason."""
        assert CONTEXT_SECRET in repr(ctx.context)
        raise ConnectionError("no route to the bank")

    @tool
    def keep(ctx: ToolContext) -> Any:
        """Return live objects, which cannot be stored."""
        return {"context": ctx.context, "all": [ctx]}

    @tool
    def fail(ctx: ToolContext) -> Any:
        """Raise an error that holds the live object."""
        raise LookupError(ctx)

    calls = [ToolCall(name, {}) for name in ("keep", "fail", "pay")]
    model = OpenAIChat("gpt-5-mini", api_key=API_KEY)
    scripted = ScriptedModel([calls, "end"])
    agent = Agent("boss", tools=[pay, keep, fail], model=scripted)
    runner = Runner(agent, store=FileStore(tmp_path / "store"))
    values: list[object] = [model, runner, agent, pay, runner.store]

    outcome = runner.start("go", run_id="r", context=LiveObject())
    assert isinstance(outcome, Suspended)
    values += [outcome, outcome.waits, outcome.continuation.root]
    (wait,) = outcome.waits
    errors: list[ContinuationsError] = []

    def expect_error(kind: type[ContinuationsError], operation: Any) -> None:
        with pytest.raises(kind) as raised:
            operation()
        errors.append(raised.value)

    # The agent was renamed
    runner.decide(wait.id, Approve(by="kim"))
    changed = Runner(Agent("chief", model=scripted), store=runner.store)
    expect_error(AgentChanged, lambda: changed.resume("r", context=LiveObject()))
    expect_error(ContinuationsError, lambda: runner.decide(wait.id, Deny()))
    # The newest version is damaged
    newest = min((tmp_path / "store/runs/r/v").iterdir())
    body = newest.read_bytes()
    newest.write_bytes(body[:-1])
    expect_error(Corrupt, lambda: runner.resume("r", context=LiveObject()))
    newest.write_bytes(body)
    # The run finishes, although its tools failed
    finished = runner.resume("r", context=LiveObject())
    looked = runner.look("r")
    values += [
        finished,
        looked,
        looked.run_state,
        looked.root.messages,
        looked.to_json(),
    ]
    cancelled = runner.start("go", run_id="s", context=LiveObject())
    values += [cancelled, runner.cancel("s"), runner.resume("s", context=LiveObject())]
    assert isinstance(values[-1], Failed)

    check_no_secret(*map(repr, values), *map(error_text, errors), caplog.text)
    bodies = {
        k: (tmp_path / "store" / k).read_bytes()
        for k in sample_store.store_keys(tmp_path / "store")
    }
    check_no_secret(*keys_and_bodies(bodies))


def test_repr_of_public_values_shows_no_secret() -> None:
    """No public class that can hold a secret shows it in its repr."""
    classes_with_secrets = {"Runner", "AsyncRunner", "ToolContext", "Agent", "Model"}
    assert classes_with_secrets <= public_values().keys()
    context = ToolContext(
        run_id="r",
        call_id="c1",
        idempotency_key="b-c1",
        fence=1,
        attempt=1,
        deadline=None,
        context=LiveObject(),
    )
    client = AsyncOpenAI(api_key=API_KEY, default_headers={"x-gateway": HEADER_SECRET})
    model = OpenAIChat("gpt-5-mini", client=client)
    agent = Agent("boss", model=model)
    check_no_secret(repr(context), str(context), repr(model), repr(agent))
    check_no_secret(repr(Runner(agent, store="memory:")), repr(model.__dict__))
    asyncio.run(client.close())
