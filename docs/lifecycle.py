"""Print the life cycle of a call as a mermaid diagram: `python docs/lifecycle.py`.

The diagram is drawn from the table of transitions. The block in docs/how-it-works.md
is the output of this script, and a test compares the two.
"""

from __future__ import annotations

from continuations.core.calls import CLOSED_STATES, STATE_NAMES, STATE_TYPES
from continuations.core.transitions import TRANSITIONS


def mermaid() -> str:
    """Return the table of transitions as a mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> proposed: model asks for the call"]
    for (state, event), after in TRANSITIONS.items():
        if event.__name__ != "CallCancelled":
            before = STATE_NAMES[state]
            lines.append(f"    {before} --> {STATE_NAMES[after]}: {event.__name__}")
    closed = [name for name, state in STATE_TYPES.items() if state in CLOSED_STATES]
    lines += [f"    {name} --> [*]" for name in closed]
    return "\n".join(lines)


if __name__ == "__main__":
    print(mermaid())  # noqa: T201 - a script's output
