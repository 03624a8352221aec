"""Processes that all do their thing at one moment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from continuations import AlreadyDecided, ContinuationsError
from tests.torture import child_processes
from tests.torture.process_actor import ProcessActor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.torture.scenarios import Scenario
    from tests.torture.workspace import Workspace

    RacerAction = Callable[[ProcessActor], Any]


def reply_name(action: RacerAction, actor: ProcessActor) -> str:
    """Do something and say in short what one was told."""
    try:
        return str(action(actor))
    except AlreadyDecided as error:
        stands: Any = error.decision
        return f"AlreadyDecided {stands.kind} {stands.by}"
    except ContinuationsError as error:
        return type(error).__name__


def race_processes(
    scenario: Scenario,
    workspace: Workspace,
    actions: Sequence[RacerAction],
    on_start: Callable[[], None],
) -> list[str]:
    """Fork a process for each act, let them go at once, and return what they say."""
    gate, ready = os.pipe(), os.pipe()

    def runs(number: int, act: RacerAction) -> Callable[[], None]:
        def live() -> None:
            people = ProcessActor(scenario, workspace, workspace.enter())
            os.write(ready[1], b".")
            os.read(gate[0], 1)
            workspace.write_value(f"told-{number}", reply_name(act, people))

        return live

    children = [
        child_processes.fork(runs(number, act)) for number, act in enumerate(actions)
    ]
    arrived = 0
    while arrived < len(actions):
        arrived += len(os.read(ready[0], len(actions)))
    on_start()
    os.write(gate[1], b"." * len(actions))
    codes = [child_processes.wait_for_exit(child) for child in children]
    for end in (*gate, *ready):
        os.close(end)
    assert [0] * len(actions) == codes, codes
    return [workspace.read_value(f"told-{number}") for number in range(len(actions))]
