"""The types of the pytest fixtures, for the annotations of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from continuations import Agent
    from continuations.models.interface import Model
    from continuations.testing.harness import AgentHarness
    from continuations.testing.recorded_model import RecordedModel

Output = TypeVar("Output")


class MakeHarness(Protocol):
    """The type of the fixture `make_harness`."""

    def __call__(
        self, agent: Agent[Output] | Callable[[], Agent[Output]], **options: Any
    ) -> AgentHarness[Output]:
        """Return a harness with the clock of the fixture `agent_clock`.

        Args:
            agent: The agent, or a function that returns it.
            options: Options of `AgentHarness`.

        Returns:
            The harness.
        """
        ...


class RecordModel(Protocol):
    """The type of the fixture `recorded_model`."""

    def __call__(
        self,
        model: Model | Callable[[], Model],
        *,
        name: str | None = None,
        secrets: Iterable[str] = (),
    ) -> RecordedModel:
        """Return a recorded model of this test.

        The file is `recordings/<file>/<test>.json` in the folder of the test's file.

        Args:
            model: The model to record with `--record-models`, or a function that makes
                it.
            name: Name of the file without `.json`. Default: the name of the test.
            secrets: Further texts that must not be written.

        Returns:
            The model.
        """
        ...
