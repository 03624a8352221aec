"""Draw the life of a call from the table that decides it: `python docs/lifecycle.py`.

The picture in docs/how-it-works.md is this script's output; a test compares them.
"""

from __future__ import annotations

from continuations.core.calls import CLOSED_STATES, STATE_NAMES, STATE_TYPES
from continuations.core.transitions import TRANSITIONS


def mermaid() -> str:
    """Return the table of transitions as a mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> proposed: the model asks"]
    for (state, event), after in TRANSITIONS.items():
        if event.__name__ != "CallCancelled":
            before = STATE_NAMES[state]
            lines.append(f"    {before} --> {STATE_NAMES[after]}: {event.__name__}")
    closed = [name for name, state in STATE_TYPES.items() if state in CLOSED_STATES]
    lines += [f"    {name} --> [*]" for name in closed]
    return "\n".join(lines)


if __name__ == "__main__":
    print(mermaid())  # noqa: T201 - a script's output
