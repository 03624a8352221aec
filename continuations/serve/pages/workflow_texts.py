"""The texts of workflows: their arguments, and the results of their calls, are JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.reading import run_stream
from continuations.core.rows.state import ROOT_FRAME_ID

if TYPE_CHECKING:
    from continuations.core.reading.version_window import VersionWindow
    from continuations.core.rows.state import RunState


def is_workflow(state: RunState) -> bool:
    """Return whether the root of a run is a workflow, which reads no messages."""
    root = state.frames.get(ROOT_FRAME_ID)
    return root is not None and bool(root.step)


def workflow_frames(window: VersionWindow) -> frozenset[str]:
    """Return the ids of the frames of some versions that are workflows."""
    known = {
        frame.id
        for state in (window.before, window.state)
        if state is not None
        for frame in state.frames.values()
        if frame.step
    }
    # No state has a frame that began and ended in between. The calls of a workflow have
    # our ids; those of a model have the ids of the provider.
    between = {
        event.frame
        for version in window.versions
        for event in version.events
        if isinstance(event, run_stream.CallProposed)
        and event.frame is not None
        and event.call == event.tool_call_id
    }
    return frozenset(known | between)


def result_text(result_json: str) -> str:
    """Return the result of a call of a workflow: a text without its quotes.

    Args:
        result_json: The JSON of a value, or the words of an error.

    Returns:
        The text, if the value is one; otherwise `result_json`.
    """
    if not result_json.startswith('"'):
        return result_json
    try:
        value: object = jsontext.parse(result_json)
    except jsontext.NotJson:
        return result_json
    return value if isinstance(value, str) else result_json
