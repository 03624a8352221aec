"""An application of SnapLogic's prototype, as text: three agents deep.

It is written for the prototype's names. A test changes its import lines, as a user
does, and nothing else.
"""

from __future__ import annotations

SOURCE = '''
from core.continuation_agent import ContinuationAgent
from core.agent import Agent
from core.tool import tool
from core.suspend_function import suspend_function
import argparse
import json
import os


def log(text):
    with open(os.environ["TRAVEL_LOG"], "a") as file:
        file.write(text + "\\n")


@tool()
def search(flight: str):
    """Search a flight."""
    log("search " + flight)
    return {"seats": 3}


@tool(need_approval=True)
def book(flight: str):
    """Book a flight."""
    log("book " + flight)
    return "booked " + flight


@suspend_function(n=2)
def every_second_turn() -> bool:
    """Suspend the desk after two turns."""
    goes_on = every_second_turn.n > 0
    if goes_on:
        every_second_turn.n -= 1
    return not goes_on


booker = ContinuationAgent(instruction="You book.", tools=[book])
clerk = ContinuationAgent(
    instruction="You are a clerk.",
    tools=[booker.as_tool(name="booker", description="Books flights.")],
)


@tool(is_agent=True)
def clerk_tool(*args, **kwargs):
    """Arranges travel."""
    return clerk.request(*args, **kwargs)


desk = ContinuationAgent(
    instruction="You are the desk.",
    tools=[search, clerk_tool],
    suspension_list=[every_second_turn],
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--json")
    group.add_argument("--prompt")
    args = parser.parse_args()
    if args.json:
        with open(args.json) as file:
            given = json.load(file)
    else:
        given = {"prompt": args.prompt}
    print(json.dumps(desk.request(given), indent=4))
'''

_IMPORTS = (
    ("core.continuation_agent", "ContinuationAgent"),
    ("core.agent", "Agent"),
    ("core.tool", "tool"),
    ("core.suspend_function", "suspend_function"),
)


def with_other_imports() -> str:
    """Return the application with its import lines changed."""
    text = SOURCE
    for module, name in _IMPORTS:
        old = f"from {module} import {name}"
        assert old in text
        new = f"from continuations.interop.agent_continuations import {name}"
        text = text.replace(old, new)
    return text
