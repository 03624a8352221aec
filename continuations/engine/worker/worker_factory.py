"""Make workers and first states from a runner's agents, models, store and clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from continuations.authoring.agent.agent import Agent, check_made, got_no_agent
from continuations.authoring.registry import AgentRegistry
from continuations.engine.model_registry import ModelRegistry
from continuations.engine.stack.stack_binding import StackBinding
from continuations.engine.start import new_run
from continuations.engine.worker.worker import Worker
from continuations.engine.worker_options import (
    DEFAULT_RUN_OPTIONS,
    RunOptions,
    WorkerOptions,
    check_context,
)
from continuations.errors import InvalidInput
from continuations.ledger import layout
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from continuations.authoring.tool.tool_protocol import AgentProtocol
    from continuations.core.rows.run import Budget
    from continuations.core.rows.state import RunState
    from continuations.engine.events.word_carrier import WordCarrier
    from continuations.engine.past.adoption import Adopter
    from continuations.engine.past.drift import DriftCheck
    from continuations.engine.past.forking import Forker
    from continuations.engine.past.rewinding import Rewinder
    from continuations.engine.ports import Ports
    from continuations.engine.start.run_description import RunDescription
    from continuations.ledger.arrivals.wait_slots import GroupsOf
    from continuations.ledger.objects import Objects


class WorkerFactory:
    """Makes a worker for a run; raises `InvalidInput` for agents that share a name."""

    def __init__(
        self,
        agents: Agent | Sequence[Agent],
        objects: Objects,
        ports: Ports,
        options: WorkerOptions,
        word_carrier: Callable[[], WordCarrier | None] = lambda: None,
    ) -> None:
        self._root_agents = _agent_list(agents)
        self._agent_registry = AgentRegistry(self._root_agents, options.renamed)
        self._model_registry = ModelRegistry(
            options.model_retry_time,
            ports.clock,
            options.max_model_failures,
            options.prices,
        )
        self._objects = objects
        self._ports = ports
        self._options = options
        self._word_carrier = word_carrier

    async def initial_state(
        self,
        agent_input: new_run.Input,
        *,
        run_id: str | None,
        agent: str | None,
        budget: Budget | None,
        context: Any,
        description: RunDescription,
    ) -> RunState:
        """Return the first state of a new run; raises `InvalidInput`, `InvalidId`."""
        if run_id is not None:
            new_run.check_new_run_id(run_id)
        bound = getattr(agent_input, "workflow", None)
        root = self.root_agent(agent or (None if bound is None else bound.name))
        check_context(context, root, self._options.context_type)
        messages = new_run.first_messages(root, agent_input, self._ports)
        state = await new_run.first_state(
            root,
            messages,
            agent_input,
            ports=self._ports,
            context=context,
            limits=self._limits(budget),
            run_id=run_id,
        )
        return description.describe(state)

    async def thread_state(
        self,
        root: Agent,
        key: str,
        *,
        run_id: str,
        text: new_run.UserText,
        budget: Budget | None,
        context: Any,
        description: RunDescription,
    ) -> RunState:
        """Return the first state of a thread; raises `InvalidInput`.

        An instructions function gets the text of the first message.
        """
        check_context(context, root, self._options.context_type)
        state = await new_run.first_state(
            root,
            (),
            text,
            ports=self._ports,
            context=context,
            limits=self._limits(budget),
            run_id=run_id,
            thread_key=key,
        )
        return description.describe(state)

    def find_holder(self, agent: AgentProtocol, name: str) -> AgentProtocol | None:
        """Return the agent that the conversation of an agent was handed to."""
        return self._agent_registry.find_holder(agent, name)

    def _limits(self, budget: Budget | None) -> new_run.RunLimits:
        return new_run.RunLimits(budget, self._options.max_depth, self._options.prices)

    def check_context(self, context: object) -> None:
        """Raise `InvalidInput` if no root agent takes the object.

        Before a run goes on, its own root agent is asked again.
        """
        errors: list[InvalidInput] = []
        for root in self._root_agents:
            try:
                check_context(context, root, self._options.context_type)
            except InvalidInput as error:
                errors.append(error)
        if errors and len(errors) == len(self._root_agents):
            raise errors[0]

    def make_worker(
        self, run_id: str, run_options: RunOptions = DEFAULT_RUN_OPTIONS
    ) -> Worker:
        """Return a worker for one run."""
        feed, words, events = None, None, run_options.events
        if events is not None and not events.listens(run_id):
            events = None
        if layout.is_thread_id(run_id):
            carrier = self._word_carrier()
            words = None if carrier is None else carrier.words_of(run_id)
        if events is not None or words is not None:
            from continuations.engine.events.event_feeds import RunFeed  # noqa: PLC0415 - for listeners

            feed = RunFeed(
                *(self._objects, self._ports, run_id),
                events,
                run_options.events_after,
                words,
            )
        if run_options.observer is not None:
            from continuations.engine.work_observers import WatchedSession  # noqa: PLC0415 - for observers

            session = WatchedSession(
                run_options.observer, run_id, StackBinding(self._agent_registry)
            )
            run_options = replace(run_options, session=session)
        return Worker(
            objects=self._objects,
            agent_registry=self._agent_registry,
            model_registry=self._model_registry,
            ports=self._ports,
            options=self._options,
            run_id=run_id,
            run_options=run_options,
            feed=feed,
        )

    def make_adopter(self) -> Adopter:
        """Return the part that stores adopted runs."""
        from continuations.engine.past.adoption import Adopter  # noqa: PLC0415 - rarely needed

        return Adopter(
            objects=self._objects,
            agent_registry=self._agent_registry,
            ports=self._ports,
            lease=self._options.lease,
        )

    def make_forker(self, groups_of: GroupsOf | None, requester: str | None) -> Forker:
        """Return the part that stores forks of runs."""
        from continuations.engine.past.forking import Forker  # noqa: PLC0415 - rarely needed

        return Forker(
            objects=self._objects,
            agent_registry=self._agent_registry,
            ports=self._ports,
            lease=self._options.lease,
            groups_of=groups_of,
            requester=requester,
        )

    def make_rewinder(self) -> Rewinder:
        """Return the part that rewinds runs."""
        from continuations.engine.past.rewinding import Rewinder  # noqa: PLC0415 - rarely needed

        parts = self._objects, self._agent_registry, self._ports, self._options.lease
        return Rewinder(*parts)

    def make_drift_check(
        self, run_options: RunOptions, *, checks_context: bool
    ) -> DriftCheck:
        """Return the part that predicts what `resume` would do; raises `InvalidInput`.

        A runner without agents predicts nothing.
        """
        from continuations.engine.past.drift import DriftCheck  # noqa: PLC0415 - rarely needed

        if not self._root_agents:
            raise InvalidInput(
                "drift compares stored runs with agents, and this runner has none. "
                "Pass Runner([agent], ...) with the new code."
            )
        return DriftCheck(
            objects=self._objects,
            agent_registry=self._agent_registry,
            model_registry=self._model_registry,
            ports=self._ports,
            run_options=run_options,
            options=self._options,
            checks_context=checks_context,
        )

    def old_names(self, name: str) -> Iterable[str]:
        """Return the old names of an agent or tool, as `renamed=` has them."""
        renames = self._agent_registry.renames
        return () if renames is None else renames.old_names(name)

    def agent_of_thread(self, name: str | None) -> Agent:
        """Return the root agent of a thread; raises `InvalidInput` for a workflow."""
        root = self.root_agent(name)
        if root.is_workflow:
            raise InvalidInput(
                f"{root.name} is a workflow, and its code reads no messages. Start it "
                f"with start({root.name}.bind(...)), and send it a signal."
            )
        return root

    @property
    def root_agents(self) -> tuple[Agent, ...]:
        """The root agents, in their order."""
        return tuple(self._root_agents)

    def root_agent(self, name: str | None) -> Agent:
        """Return a root agent by name, or the only one; raises `InvalidInput`."""
        names = ", ".join(repr(agent.name) for agent in self._root_agents)
        if not self._root_agents:
            msg = "This runner has no agents. Pass Runner([agent], ...) to start runs."
            raise InvalidInput(msg)
        if name is not None:
            for agent in self._root_agents:
                if agent.name == name:
                    return agent
            found = self._agent_registry.find_root_agent(name)
            for agent in self._root_agents:
                if agent is found:
                    from continuations.authoring.registry import with_old_name  # noqa: PLC0415 - rarely needed

                    return with_old_name(agent, name)
            msg = f"agent={name!r} is not a root agent. The root agents are: {names}."
            raise InvalidInput(msg)
        if len(self._root_agents) != 1:
            msg = f"This runner has several root agents. Pass agent=, one of: {names}."
            raise InvalidInput(msg)
        return self._root_agents[0]


def _agent_list(agents: Any) -> list[Agent]:
    listed = isinstance(agents, list | tuple)
    items: list[Any] = [*cast("Sequence[Any]", agents)] if listed else [agents]
    for item in items:
        if not isinstance(item, Agent):
            got = got_no_agent(item)
            raise InvalidInput(f"agents must be an Agent or a list of Agents, {got}")
    for item in items:
        check_made(item)
    return items
