"""Doors to other protocols, and paused agents of other programs.

- `a2a` serves agents by A2A, and makes tools of agents that others serve.
- `snaplogic` reads the paused agents of the prototype `agent-continuations`.
- `paused_calls` holds the paused calls of agents of other kits, whose doors are
  `langgraph`, `openai_agents` and `pydantic_ai`.
- `langchain`, `openai_agents` and `pydantic_ai` make tools from the tools of other
  kits.
- `agui` serves the conversations of a runner to chat front ends.
- `cloudevents` sends notices as CloudEvents, and receives CloudEvents.
- `agent_continuations` has the names of that prototype, so that its applications run.
- `slack` posts open waits to Slack and lets people decide them there.
"""

from __future__ import annotations


def missing_package(door: str, requirements: str, error: ImportError) -> ImportError:
    """Return the error of a door whose package is not installed.

    Args:
        door: Name of the module of the door.
        requirements: The packages that it needs, as `pip install` takes them.
        error: The error of the import. One of this project is raised as it is.

    Returns:
        The error, which says what to install.
    """
    if (error.name or "").partition(".")[0] == "continuations":
        raise error
    msg = (
        f"continuations.interop.{door} cannot be imported: {error}. "
        f"Run: pip install {requirements}"
    )
    return ImportError(msg, name=error.name)
