"""What a runner works with: its agents, their models, the store, the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from continuations.authoring.agent import Agent
from continuations.authoring.binding import Binding
from continuations.engine import opening
from continuations.engine.drive import never
from continuations.engine.perform import ModelShelf
from continuations.engine.worker import Worker, manifest
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.run import Budget
    from continuations.core.table import Table
    from continuations.engine.opening import Input
    from continuations.engine.ports import Pause, Ports
    from continuations.engine.settings import Settings
    from continuations.ledger.objects import Objects


class Workshop:
    """Makes a worker for a run; raises `InvalidInput` for agents that share a name."""

    def __init__(
        self,
        agents: Agent | Sequence[Agent],
        objects: Objects,
        ports: Ports,
        settings: Settings,
    ) -> None:
        self._roots = _agents_of(agents)
        self._binding = Binding(self._roots)
        self._models = ModelShelf()
        self._objects = objects
        self._ports = ports
        self._settings = settings

    def opened(
        self,
        given: Input,
        *,
        run_id: str | None,
        agent: str | None,
        budget: Budget | None,
    ) -> Table:
        """Return the first state of a new run; raises `InvalidInput`."""
        root = self._root(agent)
        now = self._ports.clock.now()
        birth = self._ports.ids.ulid(now)
        return opening.opened(
            root,
            opening.first_messages(root, given),
            run_id=run_id or birth,
            birth=birth,
            manifest=manifest(root),
            now=now,
            budget=budget,
        )

    def worker(
        self, run_id: str, context: Any = None, pause: Pause | None = None
    ) -> Worker:
        """Return a worker for one run."""
        return Worker(
            objects=self._objects,
            binding=self._binding,
            models=self._models,
            ports=self._ports,
            settings=self._settings,
            run_id=run_id,
            context=context,
            pause=pause or never,
        )

    def _root(self, name: str | None) -> Agent:
        if name is not None:
            found = self._binding.find(name)
            if found is None:
                names = ", ".join(agent.name for agent in self._roots) or "none"
                msg = f"There is no root agent {name!r}. There are: {names}."
                raise InvalidInput(msg)
            return found
        if not self._roots:
            msg = "This runner has no agents: it looks and decides. Give it some."
            raise InvalidInput(msg)
        if len(self._roots) != 1:
            msg = (
                f"This runner has {len(self._roots)} root agents: say which one with "
                "start(..., agent=name)."
            )
            raise InvalidInput(msg)
        return self._roots[0]


def _agents_of(given: Any) -> list[Agent]:
    if isinstance(given, Agent):
        return [given]
    listed = isinstance(given, list | tuple)
    found: list[Any] = [*cast("Sequence[Any]", given)] if listed else [given]
    for agent in found:
        if not isinstance(agent, Agent):
            msg = f"A runner is given agents; {str(agent)[:60]!r} is none."
            raise InvalidInput(msg)
    return found
