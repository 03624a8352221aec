"""Both adapters against aimock, a server that no one here wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from continuations import Agent, Approve, Finished, Runner, Suspended, run, tool
from continuations.core.messages import user_message
from continuations.errors import ModelError
from continuations.models.interface import ModelDelta, ModelReply, ModelRequest
from continuations.models.openai_chat import OpenAIChat
from continuations.models.openai_responses import OpenAIResponses
from continuations.models.responses_items import ITEMS_FIELD
from tests import aimock
from tests.outcomes import single_wait

Adapter: TypeAlias = type[OpenAIResponses] | type[OpenAIChat]

_PAY = {"name": "pay", "arguments": {"cents": 5}}
_FIXTURES: list[dict[str, Any]] = [
    {
        "match": {"userMessage": "Pay 5 cents", "hasToolResult": False},
        "response": {"reasoning": "I must pay.", "toolCalls": [_PAY]},
    },
    {"match": {"userMessage": "Pay 5 cents"}, "response": {"content": "Paid."}},
    {"match": {"userMessage": "Where"}, "response": {"content": '{"city":"Oslo"}'}},
    {
        "match": {"userMessage": "Search"},
        "response": {
            "reasoning": "The user wants news, so I search.",
            "webSearches": ["news of today"],
            "content": "Nothing of note happened anywhere today.",
        },
    },
    {
        "match": {"userMessage": "Overload"},
        "response": {"error": {"message": "Slow down."}, "status": 429},
    },
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aimock.Aimock]:
    with aimock.run_aimock(tmp_path_factory.mktemp("aimock"), _FIXTURES) as running:
        yield running


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay an amount."""
    return f"paid {cents}"


@dataclass
class Trip:
    city: str


if aimock.is_installed():

    @pytest.mark.parametrize("adapter", [OpenAIResponses, OpenAIChat])
    def test_run_with_an_approval_ends(server: aimock.Aimock, adapter: Adapter) -> None:
        def runner(store: object) -> Runner:
            model = adapter("gpt-5-mini", base_url=server.url, api_key=aimock.KEY)
            return Runner(Agent("clerk", tools=[pay], model=model), store=store)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]

        first = runner("memory:")
        wait = single_wait(first.start("Pay 5 cents", run_id="r1"))
        first.decide(wait.id, Approve(by="jane"))
        ended = runner(first.store).resume("r1")

        assert isinstance(ended, Finished)
        assert "Paid." == ended.output
        sent = server.journal()[-1]["body"]["messages"]
        assert ["user", "assistant", "tool"] == [message["role"] for message in sent]
        assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]

    @pytest.mark.parametrize("adapter", [OpenAIResponses, OpenAIChat])
    def test_output_type_is_read(server: aimock.Aimock, adapter: Adapter) -> None:
        model = adapter("gpt-5-mini", base_url=server.url, api_key=aimock.KEY)
        ended = run(Agent("guide", model=model, output_type=Trip), "Where to?")

        assert isinstance(ended, Finished)
        assert Trip("Oslo") == ended.output

    @pytest.mark.parametrize("adapter", [OpenAIResponses, OpenAIChat])
    def test_error_is_retryable(server: aimock.Aimock, adapter: Adapter) -> None:
        model = adapter("gpt-5-mini", base_url=server.url, api_key=aimock.KEY)
        request = ModelRequest(messages=[user_message("Overload")])

        with pytest.raises(ModelError, match="Slow down") as caught:
            asyncio.run(model.reply(request))

        assert (429, True) == (caught.value.status, caught.value.retryable)

    def test_stream_of_responses_is_the_reply_in_parts(server: aimock.Aimock) -> None:
        model = OpenAIResponses(
            "gpt-5-mini",
            base_url=server.url,
            api_key=aimock.KEY,
            hosted_tools=[{"type": "web_search"}],
        )
        deltas: list[ModelDelta] = []

        async def keep(delta: ModelDelta) -> None:
            deltas.append(delta)

        request = ModelRequest(messages=[user_message("Search")], on_delta=keep)
        reply = asyncio.run(model.reply(request))

        assert isinstance(reply, ModelReply)
        texts = [delta.text for delta in deltas if delta.kind == "text"]
        assert 1 < len(texts)
        assert "Nothing of note happened anywhere today." == "".join(texts)
        assert "".join(texts) == reply.message.content
        thoughts = [delta.text for delta in deltas if delta.kind == "reasoning"]
        assert "The user wants news, so I search." == "".join(thoughts)
        items = reply.message.data[ITEMS_FIELD]
        assert ["reasoning", "web_search_call", "message"] == [i["type"] for i in items]
        assert items[0]["encrypted_content"]

    def test_batch_ends(server: aimock.Aimock) -> None:
        def model() -> OpenAIResponses:
            return OpenAIResponses(
                "gpt-5-mini", base_url=server.url, api_key=aimock.KEY, batch=True
            )

        runner = Runner(Agent("analyst", model=model()), store="memory:")
        outcome = runner.start("Think.", run_id="r1")
        while isinstance(outcome, Suspended):
            assert ["model"] == [wait.kind for wait in outcome.waits]
            runner.wake("r1")
            runner = Runner(Agent("analyst", model=model()), store=runner.store)
            outcome = runner.resume("r1")

        assert isinstance(outcome, Finished)
        assert "Mock batch completion" == outcome.output
