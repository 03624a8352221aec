"""The method of Runner that returns conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from continuations.engine.sync_waker import Waker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.run import Budget
    from continuations.engine.sync_thread import Thread


class Threads(Waker):
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
    ) -> Thread[Any]:
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
        from continuations.engine.sync_thread import Thread  # noqa: PLC0415 - for threads

        return Thread(
            self.async_runner.thread(
                agent,
                key=key,
                labels=labels,
                title=title,
                budget=budget,
                settings=settings,
                instructions=instructions,
            )
        )
