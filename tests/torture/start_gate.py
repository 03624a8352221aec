"""Processes that all begin their operation at the same time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from continuations import ContinuationsError
from continuations.errors import AlreadyDecided
from tests.torture import child_processes
from tests.torture.process_actor import ProcessActor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.torture.scenarios import Scenario
    from tests.torture.workspace import Workspace

    RacerAction = Callable[[ProcessActor], Any]


def reply_name(action: RacerAction, actor: ProcessActor) -> str:
    """Run an action and return its result, or the name of its error, as text."""
    try:
        return str(action(actor))
    except AlreadyDecided as error:
        recorded: Any = error.decision
        return f"AlreadyDecided {recorded.kind} {recorded.by}"
    except ContinuationsError as error:
        return type(error).__name__


def race_processes(
    scenario: Scenario,
    workspace: Workspace,
    actions: Sequence[RacerAction],
    on_start: Callable[[], None],
) -> list[str]:
    """Fork a process for each action, start them together, and return their replies."""
    gate, ready = os.pipe(), os.pipe()

    def racer(number: int, action: RacerAction) -> Callable[[], None]:
        def race() -> None:
            actor = ProcessActor(scenario, workspace, workspace.enter())
            os.write(ready[1], b".")
            os.read(gate[0], 1)
            workspace.write_value(f"reply-{number}", reply_name(action, actor))

        return race

    children = [
        child_processes.fork(racer(number, action))
        for number, action in enumerate(actions)
    ]
    ready_count = 0
    while ready_count < len(actions):
        ready_count += len(os.read(ready[0], len(actions)))
    on_start()
    os.write(gate[1], b"." * len(actions))
    codes = [child_processes.wait_for_exit(child) for child in children]
    for end in (*gate, *ready):
        os.close(end)
    assert [0] * len(actions) == codes, codes
    return [workspace.read_value(f"reply-{number}") for number in range(len(actions))]
