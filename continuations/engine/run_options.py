"""The options of one call that works on runs, passed as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

ShouldPause: TypeAlias = Callable[[], bool]


def never_pause() -> bool:
    """Return False."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of one `start`, `resume`, `sweep` or `serve_forever`.

    Attributes:
        context: The application's object for its tools, `ctx.context`. It is never
            stored.
        should_pause: Called before every model call and every new tool call. Once it
            returns True, calls in progress are completed and nothing new begins.
    """

    context: Any = None
    should_pause: ShouldPause = never_pause

    @classmethod
    def from_arguments(
        cls, *, context: Any = None, should_pause: ShouldPause | None = None
    ) -> RunOptions:
        """Return the options of a public method's keyword arguments."""
        return cls(context=context, should_pause=should_pause or never_pause)


DEFAULT_RUN_OPTIONS = RunOptions()
