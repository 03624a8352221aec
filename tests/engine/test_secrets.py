"""Secrets and live objects are never stored, logged or shown."""

from __future__ import annotations

import logging
import os
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    Deny,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    resume,
    run,
    tool,
)
from continuations.errors import ModelError
from continuations.models.openai_chat import OpenAIChat
from tests import effect_log, scripts
from tests.engine.agent_builders import root_tool_results
from tests.model_server import ModelServer
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call
from tests.stores import keys_and_bodies

CLIENT_SECRET = "sk-PLANTEDINTHECLIENT"
ENVIRONMENT_SECRET = "sk-PLANTEDINTHEENVIRONMENT"
CONTEXT_SECRET = "PLANTEDINTHECONTEXT"
ERROR_SECRET = "PLANTEDINTHEERROR"


class SecretContext:
    """A live object, with a secret that its repr tells."""

    secret = CONTEXT_SECRET

    def __repr__(self) -> str:
        return f"<SecretContext {self.secret}>"


@tool(approval=True)
def pay(ctx: ToolContext) -> str:
    """Pay with the context's secret."""
    assert CONTEXT_SECRET == ctx.context.secret
    effect_log.append_effect("pay", str(len(repr(ctx))))
    assert CONTEXT_SECRET not in repr(ctx)
    return "paid"


@tool
def return_context(ctx: ToolContext) -> Any:
    """Try to have the live object stored."""
    return {"context": ctx.context}


SCRIPT: Script = {"go": [[call("return_context"), call("pay")], "end"]}


def test_no_secret_is_in_any_byte_log_or_repr(
    environment: RunEnvironment,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Secrets of the client, the context and the environment appear nowhere."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", ENVIRONMENT_SECRET)
    notified: list[Any] = []
    with ModelServer(scripts.server_rule(SCRIPT), key=CLIENT_SECRET) as server:
        model = OpenAIChat("gpt-5-mini", base_url=server.url, api_key=CLIENT_SECRET)
        agent = Agent("boss", tools=[return_context, pay], model=model)
        runner = Runner(agent, store=environment.store, notify=notified.append)

        # Given a run with a suspension, with secrets around it
        first = runner.start("go", run_id="r", context=SecretContext())
        assert isinstance(first, Suspended)
        decision = runner.decide(first.waits[0].id, Approve(by="kim"))
        ended = runner.resume("r", context=SecretContext())
    assert isinstance(ended, Finished)
    assert ["pay"] == [line["tool"] for line in environment.effects()]
    assert "cannot be stored" in root_tool_results(ended)[0]

    # When everything stored, logged or printable is searched
    looked = runner.look("r")
    shown = [
        first,
        ended,
        decision,
        looked,
        looked.root,
        runner,
        agent,
        model,
        notified,
    ]
    shown += [looked.to_json(), looked.run_state, first.continuation.to_bytes()]
    everything = [
        *keys_and_bodies(environment.objects()),
        repr(shown).encode(),
        caplog.text.encode(),
    ]

    # Then no secret is found
    for secret in (CLIENT_SECRET, ENVIRONMENT_SECRET, CONTEXT_SECRET):
        assert [] == [body for body in everything if secret.encode() in body]


def test_errors_do_not_repeat_what_a_provider_s_error_says() -> None:
    """A model's exception may contain a key; the error names only its type."""

    class Leaky:
        name = "leaky"

        async def reply(self, request: Any) -> Any:
            del request
            raise ConnectionError(f"Authorization: Bearer {ERROR_SECRET}")

    runner = Runner(Agent("boss", model=Leaky()), store="memory:")
    with pytest.raises(ModelError) as raised:
        runner.start("go")

    assert ERROR_SECRET not in str(raised.value)
    assert "ConnectionError" in str(raised.value)


def test_context_is_passed_to_every_resume_and_never_stored() -> None:
    """Also without a store."""
    agent = Agent(
        "boss", tools=[return_context, pay], model=scripts.scripted_model(SCRIPT)
    )

    outcome = expect(run(agent, "go", context=SecretContext()), Suspended)
    assert CONTEXT_SECRET.encode() not in outcome.continuation.to_bytes()
    data = outcome.continuation.to_bytes()
    denied = resume(
        data, agent, answers={outcome.waits[0].id: Deny()}, context=SecretContext()
    )
    assert isinstance(denied, Finished)
    assert [] == effect_log.effects()
    paid = resume(
        data, agent, answers={outcome.waits[0].id: Approve()}, context=SecretContext()
    )
    assert "paid" == root_tool_results(paid)[1]


def test_file_store_is_not_writable_by_others(environment: RunEnvironment) -> None:
    """Files belong to the user, with the permissions of the umask."""
    runner = Runner(
        Agent(
            "boss", tools=[return_context, pay], model=scripts.scripted_model(SCRIPT)
        ),
        store=environment.store,
    )
    runner.start("go", run_id="r")

    path = next((environment.folder / "store").rglob("runs/r/v/*"))
    assert 0 == path.stat().st_mode & 0o022
    assert os.getuid() == path.stat().st_uid
