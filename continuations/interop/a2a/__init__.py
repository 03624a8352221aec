"""A2A 1.0: the agents of a runner for other agents, and other agents as tools.

    from continuations.interop import a2a

    app = a2a.app(runner, card=a2a.card(runner, "https://agents.example.com"))

`app` serves each run as a task, by the routes of `a2a-sdk` (extra `a2a`). `a2a_agent`
is a tool that sends a message to an agent of another system, and waits for its task.
"""

from __future__ import annotations

from continuations.interop import missing_package

try:
    from continuations.interop.a2a.agent_app import app, card
    from continuations.interop.a2a.agent_tool import RemoteAgentError, a2a_agent
    from continuations.interop.a2a.push import Push
except ImportError as error:
    raise missing_package(
        "a2a", "'a2a-sdk>=1.3' starlette sse-starlette", error
    ) from None

__all__ = ["Push", "RemoteAgentError", "a2a_agent", "app", "card"]
