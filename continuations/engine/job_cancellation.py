"""Stop the jobs of other systems whose results are not used any more (`on_cancel`).

The function is called before the version that ends the wait is committed. So a crash at
any point repeats the call, and after that version it is never repeated. A function that
fails does not keep its run: after some tries, the run goes on without it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from continuations.authoring import callables
from continuations.engine import call_failures
from continuations.engine.tool_contexts import make_tool_context
from continuations.errors import AgentChanged, FormatError
from continuations.ledger.arrivals import read_decision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from continuations.authoring.tool_protocol import ToolProtocol
    from continuations.core.decisions import Decision
    from continuations.core.state import RunState
    from continuations.core.waits import Wait
    from continuations.engine.journal_protocol import Journal
    from continuations.engine.ports import Ports
    from continuations.engine.stack_binding import StackBinding
    from continuations.ledger.objects import Objects

_log = logging.getLogger("continuations")

MAX_TRIES = 3
# Seconds: the limit of one try, and the pause before the second one.
TRY_SECONDS, _PAUSE = 10.0, 0.5
# The ends of a wait that are no result of its job.
NO_RESULT = frozenset({"cancel", "expire"})


async def jobs_to_cancel(objects: Objects, waits: Iterable[Wait]) -> list[Wait]:
    """Return the waits with an `on_cancel` function that have no other end.

    A decision that cannot be read does not count: it must not keep the run alive.
    """

    async def is_open(wait: Wait) -> bool:
        try:
            decision = await read_decision(objects, wait.id)
        except FormatError:
            return True
        return decision is None or decision.kind in NO_RESULT

    jobs = [wait for wait in waits if wait.cancels]
    are_open = await asyncio.gather(*map(is_open, jobs))
    return [job for job, is_open_ in zip(jobs, are_open, strict=True) if is_open_]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCanceller:
    """Calls the `on_cancel` functions of a run's tools, under the run's claim.

    Attributes:
        stack_binding: The tools of this process.
        ports: Clock, sleep and callback URLs.
        journal: Keeps the claim.
        context: The object of the application.
        gives_up: Whether too many workers died here already. Then nothing is called.
    """

    stack_binding: StackBinding
    ports: Ports
    journal: Journal
    context: Any = None
    gives_up: bool = False
    _renewing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def prepare(self, state: RunState, jobs: Iterable[Wait]) -> None:
        """Claim the run, with the calls of the jobs in its version.

        Raises `AgentChanged` before that if this process has no function for a job.
        """
        jobs = tuple(jobs)
        for wait in jobs:
            self._tool(state, wait)
        if jobs:
            await self.journal.commit(state, progressed=False)

    async def cancel_expired(
        self, state: RunState, decisions: Mapping[str, Decision]
    ) -> None:
        """Call the functions of the jobs whose deadline has ended them."""
        jobs = [
            wait
            for wait in state.waits.values()
            if wait.cancels
            and wait.rules.has_known_id
            and wait.id in decisions
            and decisions[wait.id].kind == "expire"
        ]
        await self.prepare(state, jobs)
        await self.cancel(state, jobs)

    async def cancel(self, state: RunState, jobs: Iterable[Wait]) -> None:
        """Call the function of each job; errors are logged."""
        await asyncio.gather(*(self._cancel_job(state, wait) for wait in jobs))

    def _tool(self, state: RunState, wait: Wait) -> ToolProtocol:
        tool = self.stack_binding.tool(state, state.calls[wait.call_id])
        if tool is not None and tool.cancels:
            return tool
        msg = (
            f"run {state.run.id}: call {wait.call_id} must be cancelled, and tool "
            f"{wait.tool!r} has no on_cancel function here. Nothing was done. "
            "Resume with the code that the call was made for, or end wait "
            f"{wait.id} with Fail(...)."
        )
        raise AgentChanged(msg, run_id=state.run.id, wait_id=wait.id)

    async def _cancel_job(self, state: RunState, wait: Wait) -> None:
        call, tool = state.calls[wait.call_id], self._tool(state, wait)
        for number in range(0 if self.gives_up else MAX_TRIES):
            if number:
                await self.ports.sleep(_PAUSE * number)
            await self._renew(state)
            context = make_tool_context(
                state.run,
                call,
                tool,
                self.ports,
                fence=self.journal.version_number,
                context=self.context,
            )
            context = replace(
                context, idempotency_key=wait.id, attempt=number + 1, deadline=None
            )
            try:
                async with asyncio.timeout(TRY_SECONDS):
                    await tool.cancel_call(call.arguments or "{}", context)
            except BaseException as error:
                if callables.is_task_cancellation(error):
                    raise
                call_failures.log_error(state, call, "failed in on_cancel", error)
            else:
                return
        text = "run %s: on_cancel of call %s is given up; its job may still run"
        _log.error(text, state.run.id, call.id)

    async def _renew(self, state: RunState) -> None:
        async with self._renewing:
            if not self.journal.can_start_action:
                await self.journal.commit(state, progressed=False)
