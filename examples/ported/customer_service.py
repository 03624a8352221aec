"""The customer service of the OpenAI Agents SDK: triage hands over to two agents.

    python examples/ported/customer_service.py              # all steps, in memory

    python examples/ported/customer_service.py FOLDER ada "Is there wifi?"
    python examples/ported/customer_service.py FOLDER ada "Seat 12A, please. I am X1."

With a folder, each message is a process.
"""

import sys
from typing import Any

from pydantic import BaseModel

from continuations import Agent, Runner, ToolContext, tool
from continuations.events import CallEnded, Handoff, MessageAdded
from continuations.models.scripted import ScriptedModel, ToolCall

# The scripted model -------------------------------------------------------------------


def model(agent: str) -> ScriptedModel:
    """Return a model that follows the routine of an agent without a provider."""

    def reply(request: Any) -> Any:
        last = request.messages[-1]
        asked = [m.content for m in request.messages if m.role == "user"][-1]
        wanted = "seats" if "Seat" in asked else "faq" if "?" in asked else "triage"
        if last.role == "tool" and not last.content.startswith("The agent"):
            return last.content
        if wanted != agent:
            # The other two agents know only the way back.
            target = wanted if agent == "triage" else "triage"
            return ToolCall(f"transfer_to_{target}", {})
        if agent == "faq":
            return ToolCall("look_up", {"question": asked})
        if agent == "seats":
            number, seat = asked.rstrip(".").split()[-1], asked.split()[1].strip(",")
            values = {"confirmation_number": number, "new_seat": seat}
            return ToolCall("update_seat", values)
        return "How can I help you?"

    return ScriptedModel(reply)


# The ported program -------------------------------------------------------------------


class Passenger(BaseModel):
    """A passenger, as all agents know it."""

    confirmation_number: str | None = None
    seat_number: str | None = None


@tool
def look_up(question: str) -> str:
    """Look up an answer to a frequent question."""
    if "bag" in question:
        return "One bag, at most 20 kg."
    if "seats" in question or "plane" in question:
        return "The plane has 120 seats; rows 4 and 16 are exit rows."
    if "wifi" in question:
        return "The wifi is free. Its name is Airline-Wifi."
    return "I do not know the answer."


@tool(writes_state=True)
def update_seat(ctx: ToolContext, confirmation_number: str, new_seat: str) -> str:
    """Update the seat of a booking."""
    ctx.update(confirmation_number=confirmation_number, seat_number=new_seat)
    return f"The seat of {confirmation_number} is {new_seat} now."


faq: Agent = Agent(
    "faq",
    description="Answers questions about the airline.",
    instructions="Answer the last question with the tool look_up, never from your own "
    "knowledge. Hand everything else back to triage.",
    model=model("faq"),
    tools=[look_up],
    handoffs=lambda: [triage],
    state=Passenger,
)
seats: Agent = Agent(
    "seats",
    description="Changes the seat of a booking.",
    instructions="Ask for the confirmation number and the wanted seat, then update the "
    "seat. Hand everything else back to triage.",
    model=model("seats"),
    tools=[update_seat],
    handoffs=lambda: [triage],
    state=Passenger,
)
triage: Agent = Agent(
    "triage",
    instructions="Hand each request to the agent that can answer it.",
    model=model("triage"),
    handoffs=[faq, seats],
    state=Passenger,
)


def answer(runner: Runner, passenger: str, text: str) -> None:
    """Answer a message, and print what the agents did."""
    reply = runner.thread("triage", key=passenger).send(text)
    events = [*runner.events(reply.run_id)]
    messages = [e for e in events if isinstance(e, MessageAdded)]
    [*_, asked] = [e for e in messages if e.message["role"] == "user"]
    for event in events[events.index(asked) :]:
        if isinstance(event, Handoff):
            print(f"{event.previous} hands over to {event.agent}")
        elif isinstance(event, CallEnded) and event.tool in ("look_up", "update_seat"):
            print(f"{event.path[0]} called {event.tool}")
    print(f"{runner.look(reply.run_id).root.agent}: {reply.output}")


# The steps ----------------------------------------------------------------------------


def main() -> None:
    """Answer one message in a folder, or several in memory."""
    match sys.argv[1:]:
        case []:
            runner = Runner(triage, store="memory:")
            answer(runner, "ada", "Is there wifi?")
            answer(runner, "ada", "Seat 12A, please. I am X1.")
            answer(runner, "ada", "Thank you")
        case [folder, passenger, text]:
            answer(Runner(triage, store=f"sqlite:{folder}/runs.db"), passenger, text)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
