"""The cycle of start, approval and resume with other libraries, on their own stores.

Each does the same work: a model's call of a tool, which waits for an approval, the
approval, the tool, and the model's last text. The models answer at once.
"""

# LangGraph leaves types of its builder open.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypedDict

from dbos import DBOS, DBOSConfig
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

LANGGRAPH_ON_SQLITE = f"{__name__}:langgraph_on_sqlite"
LANGGRAPH_ON_POSTGRES = f"{__name__}:langgraph_on_postgres"
DBOS_ON_POSTGRES = f"{__name__}:dbos_on_postgres"


class Messages(TypedDict):
    """The state of the graph."""

    messages: list[dict[str, Any]]


def _ask_model(state: Messages) -> Messages:
    function = {"name": "pay", "arguments": '{"cents": 500}'}
    call = {"id": "call_1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    if state["messages"][-1]["role"] == "tool":
        message = {"role": "assistant", "content": "It is paid."}
    return {"messages": [*state["messages"], message]}


def _pay(state: Messages) -> Messages:
    assert interrupt("Pay 500?") == "yes"  # noqa: S101 - the script ends here
    result = {"role": "tool", "tool_call_id": "call_1", "content": "Paid 500."}
    return {"messages": [*state["messages"], result]}


def _next_step(state: Messages) -> str:
    return "pay" if state["messages"][-1].get("tool_calls") else END


async def _langgraph_cycles(
    saver: BaseCheckpointSaver[Any], name: str, count: int
) -> None:
    graph = StateGraph(Messages)
    graph.add_node("model", _ask_model)
    graph.add_node("pay", _pay)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", _next_step, ["pay", END])
    graph.add_edge("pay", "model")
    # "sync": a step is stored before the next one begins.
    app = graph.compile(checkpointer=saver)
    begin: Any = {"messages": [{"role": "user", "content": "Pay 500."}]}
    for number in range(count):
        config: Any = {"configurable": {"thread_id": f"{name}-{number}"}}
        paused = await app.ainvoke(begin, config, durability="sync")
        assert "__interrupt__" in paused  # noqa: S101 - as above
        ended = await app.ainvoke(Command(resume="yes"), config, durability="sync")
        assert ended["messages"][-1]["content"] == "It is paid."  # noqa: S101 - as above


async def langgraph_on_sqlite(path: str, name: str, count: int) -> None:
    """Run cycles of LangGraph with its SQLite checkpointer."""
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        await saver.setup()
        # As ours: each commit is on the disk when it returns.
        await saver.conn.execute("PRAGMA synchronous=FULL")
        await saver.conn.execute("PRAGMA busy_timeout=10000")
        await _langgraph_cycles(saver, name, count)


async def langgraph_on_postgres(url: str, name: str, count: int) -> None:
    """Run cycles of LangGraph with its Postgres checkpointer."""
    async with AsyncPostgresSaver.from_conn_string(url) as saver:
        if name.startswith("first"):
            await saver.setup()
        await _langgraph_cycles(saver, name, count)


@DBOS.step()
def _model_step(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return _ask_model({"messages": messages})["messages"]


@DBOS.step()
def _pay_step(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    result = {"role": "tool", "tool_call_id": "call_1", "content": "Paid 500."}
    return [*messages, result]


@DBOS.workflow()
def _pay_workflow(text: str) -> str:
    messages = _model_step([{"role": "user", "content": text}])
    assert DBOS.recv("approval", timeout_seconds=60) == "yes"  # noqa: S101 - as above
    messages = _model_step(_pay_step(messages))
    return str(messages[-1]["content"])


async def dbos_on_postgres(url: str, name: str, count: int) -> None:
    """Run cycles of DBOS on Postgres."""
    if name.startswith("first"):
        logging.disable()
        config: DBOSConfig = {
            "name": "bench",
            "system_database_url": url,
            "log_level": "CRITICAL",
        }
        DBOS(config=config)
        DBOS.launch()
    await asyncio.to_thread(_dbos_cycles, count)


def _dbos_cycles(count: int) -> None:
    for _ in range(count):
        handle = DBOS.start_workflow(_pay_workflow, "Pay 500.")
        DBOS.send(handle.workflow_id, "yes", "approval")
        assert handle.get_result() == "It is paid."  # noqa: S101 - as above
