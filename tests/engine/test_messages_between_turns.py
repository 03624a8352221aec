"""A message to a run is read before the next turn of its root agent."""

from __future__ import annotations

from continuations import Agent, Finished, Runner, ToolContext, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore


def test_a_message_of_a_tool_is_read_before_the_next_turn() -> None:
    """The second request has the message, and not only the one after the reply."""
    store = MemoryStore()

    @tool
    def work(ctx: ToolContext, number: int) -> str:
        """Do a step."""
        if number == 0:
            Runner([], store=store).send(ctx.run_id, "correction", by="jane")
        return "done"

    steps = [ToolCall("work", {"number": number}) for number in range(3)]
    model = ScriptedModel([*steps, "The end."])
    outcome = Runner(Agent("a", tools=[work], model=model), store=store).start("Go")

    assert isinstance(outcome, Finished)
    read = ["correction" in str(r.messages[-1].data) for r in model.requests]
    assert [False, True, False, False] == read
