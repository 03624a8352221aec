"""Live objects and secrets are in no byte that is stored, logged or shown (R-I5)."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Agent,
    Approve,
    Deny,
    Finished,
    ModelError,
    Runner,
    Suspended,
    ToolContext,
    resume,
    run,
    tool,
)
from continuations.models.openai_chat import OpenAIChat
from tests.engine import ledgers, scripts
from tests.engine.offices import results
from tests.model_server import ModelServer

if TYPE_CHECKING:
    from tests.engine.scripts import Script
    from tests.engine.world import World

IN_CLIENT = "sk-PLANTEDINTHECLIENT"
IN_ENVIRONMENT = "sk-PLANTEDINTHEENVIRONMENT"
IN_CONTEXT = "PLANTEDINTHECONTEXT"
IN_ERROR = "PLANTEDINTHEERROR"


class Desk:
    """A live object, with a secret that its repr tells."""

    secret = IN_CONTEXT

    def __repr__(self) -> str:
        return f"<Desk {self.secret}>"


@tool(approval=True)
def pay(ctx: ToolContext) -> str:
    """Pay with the context's secret."""
    assert IN_CONTEXT == ctx.context.secret
    ledgers.add(ledgers.EFFECTS, tool="pay", what=str(len(repr(ctx))))
    assert IN_CONTEXT not in repr(ctx)
    return "paid"


@tool
def grab(ctx: ToolContext) -> Any:
    """Try to have the live object stored."""
    return {"desk": ctx.context}


SCRIPT: Script = {"go": [[["grab", {}], ["pay", {}]], "end"]}


def test_no_secret_is_in_any_byte_log_or_repr(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """R-I5: planted in client, context and environment; looked for everywhere."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", IN_ENVIRONMENT)
    notified: list[Any] = []
    with ModelServer(scripts.rule(SCRIPT), key=IN_CLIENT) as server:
        model = OpenAIChat("gpt-5-mini", base_url=server.url, api_key=IN_CLIENT)
        agent = Agent("boss", tools=[grab, pay], model=model)
        runner = Runner(agent, store=world.store, notify=notified.append)

        # Given a run over a suspension, with secrets all around it
        first = runner.start("go", run_id="r", context=Desk())
        assert isinstance(first, Suspended)
        decision = runner.decide(first.waits[0].id, Approve(by="kim"))
        ended = runner.resume("r", context=Desk())
    assert isinstance(ended, Finished)
    assert ["pay"] == [line["tool"] for line in world.effects()]
    assert "cannot be kept" in results(ended)[0]

    # When everything that was stored, logged or can be printed is searched
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
    shown += [looked.to_json(), looked.table, first.continuation.to_bytes()]
    everything = [*plain(world.objects()), repr(shown).encode(), caplog.text.encode()]

    # Then none of them is there
    for secret in (IN_CLIENT, IN_ENVIRONMENT, IN_CONTEXT):
        assert [] == [body for body in everything if secret.encode() in body]


def plain(objects: dict[str, bytes]) -> list[bytes]:
    """Return the keys and bodies of a store, also without their compression."""
    from backports import zstd  # noqa: PLC0415 - only here

    found = [key.encode() for key in objects]
    for body in objects.values():
        found.append(body)
        frame = body.find(b"\x28\xb5\x2f\xfd")
        if frame >= 0:
            found.append(zstd.ZstdDecompressor().decompress(body[frame:]))
    assert len(found) > 2 * len(objects)
    return found


def test_errors_do_not_repeat_what_a_provider_s_error_says() -> None:
    """R-I5: a model's exception may hold a key; ours names its kind only."""

    class Leaky:
        name = "leaky"

        async def reply(self, request: Any) -> Any:
            del request
            raise ConnectionError(f"Authorization: Bearer {IN_ERROR}")

    runner = Runner(Agent("boss", model=Leaky()), store="memory:")
    with pytest.raises(ModelError) as raised:
        runner.start("go")

    assert IN_ERROR not in str(raised.value)
    assert "ConnectionError" in str(raised.value)


def test_a_context_is_handed_in_anew_and_decides_nothing(world: World) -> None:
    """R-I5: other context, same decisions; without a store, too."""
    agent = Agent("boss", tools=[grab, pay], model=scripts.model(SCRIPT))

    outcome = run(agent, "go", context=Desk())
    assert isinstance(outcome, Suspended)
    assert IN_CONTEXT.encode() not in outcome.continuation.to_bytes()
    data = outcome.continuation.to_bytes()
    denied = resume(data, agent, answers={outcome.waits[0].id: Deny()}, context=Desk())
    assert isinstance(denied, Finished)
    assert [] == world.effects()
    paid = resume(data, agent, answers={outcome.waits[0].id: Approve()}, context=Desk())
    assert "paid" == results(paid)[1]


def test_the_file_store_is_for_its_owner_only(world: World) -> None:
    """R-I5: what is said in a run is nobody else's, if the umask says so too."""
    runner = Runner(
        Agent("boss", tools=[grab, pay], model=scripts.model(SCRIPT)), store=world.store
    )
    runner.start("go", run_id="r")

    path = next((world.folder / "store").rglob("runs/r/v/*"))
    assert 0 == path.stat().st_mode & 0o022
    assert os.getuid() == path.stat().st_uid
