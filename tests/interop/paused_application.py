"""An application that uses agents of other kits, and one process for each step.

    python paused_application.py open openai STORE FOLDER

`open` runs the agent until it waits, `back` hands the decisions back and finishes.
"""

# ruff: noqa: PLC0415 - a process imports one kit only
from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from continuations import AsyncRunner
from continuations.interop.paused_calls import paused_calls

RUN_ID = "a-17"
ARGUMENTS = {"order": "A-17", "cents": 900}


def runner_of(store: str) -> AsyncRunner:
    """Return a runner with the workflow alone."""
    return AsyncRunner([paused_calls], store=store)


def openai_agent(effects: list[Any]) -> Any:
    """Return an agent of the OpenAI Agents SDK with a scripted model."""
    import agents
    from agents.items import ModelResponse
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    @agents.function_tool(needs_approval=True)
    def refund(order: str, cents: int) -> str:
        """Refund an order."""
        effects.append((order, cents))
        return f"refunded {cents}"

    def message(text: str) -> ResponseOutputMessage:
        part = ResponseOutputText(type="output_text", text=text, annotations=[])
        return ResponseOutputMessage(
            id="m1",
            type="message",
            role="assistant",
            status="completed",
            content=[part],
        )

    class Script(agents.Model):
        async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
            items: list[Any] = args[1] if len(args) > 1 else kwargs["input"]
            outputs: list[Any] = [
                each["output"]
                for each in items
                if dict(each).get("type") == "function_call_output"
            ]
            output: Any = message(f"Told: {outputs}")
            if not outputs:
                output = ResponseFunctionToolCall(
                    type="function_call",
                    name="refund",
                    call_id="call_1",
                    arguments='{"order": "A-17", "cents": 900}',
                )
            return ModelResponse(
                output=[output], usage=agents.Usage(), response_id=None
            )

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    return agents.Agent(name="support", tools=[refund], model=Script())


async def openai(step: str, store: str, folder: Path) -> Any:
    """Open or continue a run of the OpenAI Agents SDK."""
    import agents

    from continuations.interop.openai_agents import decided_state, open_state

    effects: list[Any] = []
    agents.set_tracing_disabled(disabled=True)
    agent, runner = openai_agent(effects), runner_of(store)
    file = folder / "state.json"
    if step == "open":
        result = await agents.Runner.run(agent, "Refund A-17")
        file.write_text(result.to_state().to_string())
        await open_state(runner, agent, file.read_text(), run_id=RUN_ID)
        return effects
    state = await decided_state(runner, agent, file.read_text(), run_id=RUN_ID)
    result = await agents.Runner.run(agent, state)
    return [effects, result.final_output]


def graph_of(effects: list[Any]) -> tuple[Any, Any]:
    """Return a graph whose node asks before its effect, with its checkpoints."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, StateGraph
    from langgraph.types import interrupt
    from typing_extensions import TypedDict

    class State(TypedDict):
        order: str

    def refund(state: State) -> Any:
        request = {
            "action_requests": [{"name": "refund", "args": ARGUMENTS}],
            "review_configs": [
                {"action_name": "refund", "allowed_decisions": ["approve", "reject"]}
            ],
        }
        decided = interrupt(request)["decisions"][0]
        if decided["type"] == "approve":
            effects.append(list(ARGUMENTS.values()))
        return {"order": f"{state['order']} {decided['type']}"}

    saver = InMemorySaver()
    builder: Any = StateGraph(State)
    builder.add_node("refund", refund)
    builder.add_edge(START, "refund")
    return builder.compile(checkpointer=saver), saver


async def langgraph(step: str, store: str, folder: Path) -> Any:
    """Open or continue a graph, whose checkpoints are in a file."""
    import pickle

    from continuations.interop.langgraph import open_interrupts, resume_command

    effects: list[Any] = []
    graph, saver = graph_of(effects)
    runner, file = runner_of(store), folder / "checkpoints"
    config = {"configurable": {"thread_id": "order-17"}}
    if step == "open":
        graph.invoke({"order": "A-17"}, config)
        kept = [{k: dict(v) for k, v in saver.storage.items()}]
        kept += [dict(saver.writes), dict(saver.blobs)]
        file.write_bytes(pickle.dumps(kept))
        await open_interrupts(runner, graph.get_state(config), run_id=RUN_ID)
        return effects
    storage, writes, blobs = pickle.loads(file.read_bytes())  # noqa: S301 - own file
    for thread, namespaces in storage.items():
        saver.storage[thread].update(namespaces)
    saver.writes.update(writes)
    saver.blobs.update(blobs)
    command = await resume_command(runner, graph.get_state(config), run_id=RUN_ID)
    result = graph.invoke(command, config)
    return [effects, result["order"]]


def pydantic_agent(effects: list[Any], **options: Any) -> Any:
    """Return an agent of Pydantic AI with a scripted model."""
    from pydantic_ai import (
        Agent,
        DeferredToolRequests,
        ModelResponse,
        TextPart,
        Tool,
        ToolCallPart,
    )
    from pydantic_ai.models.function import FunctionModel

    def refund(order: str, cents: int) -> str:
        """Refund an order."""
        effects.append([order, cents])
        return f"refunded {cents}"

    def look(order: str) -> str:
        """Look up an order; a call of the same turn that needs no approval."""
        effects.append([order])
        return "found"

    def script(messages: list[Any], _info: Any) -> ModelResponse:
        returned = [
            part.content
            for each in messages
            for part in each.parts
            if part.part_kind == "tool-return"
        ]
        if returned:
            return ModelResponse([TextPart(f"Told: {returned}")])
        return ModelResponse(
            [
                ToolCallPart("look", {"order": "A-17"}, "call_0"),
                ToolCallPart("refund", ARGUMENTS, "call_1"),
            ]
        )

    return Agent(
        FunctionModel(script),
        name="support",
        tools=[look, Tool(refund, requires_approval=True)],
        output_type=[str, DeferredToolRequests],
        **options,
    )


async def pydantic(step: str, store: str, _folder: Path) -> Any:
    """Open or continue a run of Pydantic AI; the store alone keeps it."""
    from continuations.interop.pydantic_ai import decided_requests, open_requests

    effects: list[Any] = []
    agent, runner = pydantic_agent(effects), runner_of(store)
    if step == "open":
        result = await agent.run("Refund A-17")
        await open_requests(runner, result, run_id=RUN_ID)
        return effects
    paused = await decided_requests(runner, run_id=RUN_ID)
    result = await agent.run(**paused)
    return [effects, result.output]


KITS: dict[str, Any] = {
    "openai": openai,
    "langgraph": langgraph,
    "pydantic": pydantic,
}


if __name__ == "__main__":
    import json

    step, kit, store, folder = sys.argv[1:]
    sys.stdout.write(json.dumps(asyncio.run(KITS[kit](step, store, Path(folder)))))
