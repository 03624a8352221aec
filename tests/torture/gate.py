"""Processes that all do their thing at one moment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from continuations import AlreadyDecided, ContinuationsError
from tests.torture import forks
from tests.torture.people import People

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.torture.places import Place
    from tests.torture.stories import Story

    Act = Callable[[People], Any]


def told_of(act: Act, people: People) -> str:
    """Do something and say in short what one was told."""
    try:
        return str(act(people))
    except AlreadyDecided as error:
        stands: Any = error.decision
        return f"AlreadyDecided {stands.kind} {stands.by}"
    except ContinuationsError as error:
        return type(error).__name__


def race(
    story: Story, place: Place, acts: Sequence[Act], opens: Callable[[], None]
) -> list[str]:
    """Fork a process for each act, let them go at once, and return what they say."""
    gate, ready = os.pipe(), os.pipe()

    def runs(number: int, act: Act) -> Callable[[], None]:
        def live() -> None:
            people = People(story, place, place.entered())
            os.write(ready[1], b".")
            os.read(gate[0], 1)
            place.keep(f"told-{number}", told_of(act, people))

        return live

    children = [forks.fork(runs(number, act)) for number, act in enumerate(acts)]
    arrived = 0
    while arrived < len(acts):
        arrived += len(os.read(ready[0], len(acts)))
    opens()
    os.write(gate[1], b"." * len(acts))
    codes = [forks.came_to(child) for child in children]
    for end in (*gate, *ready):
        os.close(end)
    assert [0] * len(acts) == codes, codes
    return [place.kept(f"told-{number}") for number in range(len(acts))]
