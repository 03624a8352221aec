"""Which tools a model is offered: the progress of an agent, for `is_enabled`."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    # It takes the application's object, `context=`, and perhaps an `OfferInfo`.
    EnabledCondition: TypeAlias = (
        Callable[[Any], bool | Awaitable[bool]]
        | Callable[[Any, "OfferInfo"], bool | Awaitable[bool]]
    )
    OfferCondition: TypeAlias = Callable[["OfferInfo"], Awaitable[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferInfo:
    """The progress of an agent when the tools of its next turn are chosen.

    It follows from the stored run, so every process gets the same one. A call is
    checked with the values of the turn in which the model made it.

    Attributes:
        run_id: The id of the run.
        agent: The name of the agent.
        path: Names from the root agent down to this agent.
        turns: The number of turns that the model has made before in this frame.
        make_state: Set by the engine, for `state`: read that.
        make_results: Set by the engine, for `results`: read that.
    """

    run_id: str
    agent: str
    path: tuple[str, ...]
    turns: int
    make_state: Callable[[], Any] = field(default=lambda: None, repr=False)
    make_results: Callable[[], Mapping[str, str]] = field(default=dict, repr=False)

    @property
    def state(self) -> Any:
        """The state of the agent, of the type `Agent(state=...)`; `None` without one.

        It has the changes of the turns before, as a new value.
        """
        return self.make_state()

    @property
    def results(self) -> Mapping[str, str]:
        """The newest result of each tool that returned, by name, as the model reads it.

        Only results since the last message of the user count. Calls that failed, that
        were refused, or that a person answered, do not count.
        """
        return self.make_results()
