"""The method of AsyncRunner that returns conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from continuations.engine.async_waker import AsyncWaker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.run import Budget
    from continuations.engine.async_thread import AsyncThread

# A process that only decides should start fast: it imports neither the engine nor the
# agents.
# ruff: noqa: PLC0415


class AsyncThreads(AsyncWaker):
    """Makes the threads of a store."""

    def thread(
        self,
        agent: str | None = None,
        *,
        key: str,
        labels: Mapping[str, str] | None = None,
        title: str | None = None,
        budget: Budget | None = None,
        settings: Mapping[str, Any] | None = None,
        instructions: Literal["present", "frozen"] = "present",
    ) -> AsyncThread[Any]:
        """Return a conversation with an agent; nothing is stored before `send`.

        Args:
            agent: Name of the root agent; required if the runner has several. A runner
                without agents takes any name: its threads post and read messages.
            key: Names the conversation, for example the id of a customer. The same
                agent and key are the same thread, in every process.
            labels: As for `start`, for a thread that does not exist yet.
            title: As for `labels`.
            budget: Limits of the model usage of each reply, as for `labels`.
            settings: Model settings of every turn, as for `start` and for `labels`.
            instructions: `present`: each message is answered with the instructions that
                the agent has then. `frozen`: with those of the first message, as for
                `labels`.

        Returns:
            The thread.

        Raises:
            InvalidInput: An argument is invalid, or there is no such agent.
        """
        from continuations.engine.async_thread import AsyncThread
        from continuations.engine.async_ticket import ThreadParts
        from continuations.engine.new_run import check_budget

        factory = self._worker_factory if self._has_agents else None
        parts = ThreadParts(
            objects=self._objects,
            ports=self._ports,
            options=self._options,
            factory=factory,
            probe=self._probe_once,
            run_options=self._run_options,
            listening=self._listening,
            word_hub=lambda: self._word_hub,
        )
        description = self._run_description(
            labels=labels, title=title, settings=settings, instructions=instructions
        )
        if factory is None:
            from continuations.engine import agentless_threads

            name = agentless_threads.check_agent_name(agent)
            agentless_threads.check_not_frozen(description)
            limit = agentless_threads.check_budget_of(name, budget, self._options)
            return AsyncThread(parts, name, None, key, description, limit)
        root = factory.root_agent(agent)
        limit = check_budget(budget, self._options.prices, root)
        return AsyncThread(parts, root.name, root, key, description, limit)
