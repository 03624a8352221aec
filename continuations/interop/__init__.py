"""Paused agents and applications of other programs.

- `snaplogic` reads the paused agents of the prototype `agent-continuations`.
- `agent_continuations` has the names of that prototype, so that its applications run.
"""
