"""Stop the jobs of other systems whose results are not used any more (`on_cancel`).

The function is called before the version that ends the wait is committed. So a crash at
any point repeats the call, and after that version it is never repeated. A function that
fails does not keep its run: after some tries, the run goes on without it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import field
from typing import TYPE_CHECKING, Any

from continuations.authoring import callables
from continuations.core.rows.waits import Wait
from continuations.engine import call_failures
from continuations.engine.deadlines import is_past_deadline
from continuations.engine.tool_contexts import make_tool_context
from continuations.errors import AgentChanged, FormatError
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.state import RunState
    from continuations.engine.ports import Journal, Ports
    from continuations.engine.stack.stack_binding import StackBinding
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
        objects: The store, `None` without one. Then only expired jobs are cancelled.
        gives_up: Whether too many workers died here already. Then nothing is called.
    """

    stack_binding: StackBinding
    ports: Ports
    journal: Journal
    context: Any = None
    objects: Objects | None = None
    gives_up: bool = False
    _renewing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def prepare(self, state: RunState, jobs: Iterable[Wait]) -> None:
        """Claim the run, with the calls of the jobs in its version.

        Raises `AgentChanged` before that if this process has no function for a job,
        and its tool is missing or a person can still end its wait.
        """
        jobs = tuple(jobs)
        for wait in jobs:
            await self._check_tool(state, wait)
        await self._claim(state, jobs)

    async def _claim(self, state: RunState, jobs: Sequence[Wait]) -> None:
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
        for wait in jobs:
            await self._check_tool(state, wait, is_expired=True)
        await self._claim(state, jobs)
        await self.cancel(state, jobs)

    async def cancel(self, state: RunState, jobs: Iterable[Wait]) -> None:
        """Call the function of each job; errors are logged."""
        await asyncio.gather(*(self._cancel_job(state, wait) for wait in jobs))

    async def _check_tool(
        self, state: RunState, wait: Wait, *, is_expired: bool = False
    ) -> None:
        """Raise `AgentChanged` if the job must wait for other code.

        A wait that cannot be ended by hand any more does not need its function.
        """
        tool = self.stack_binding.tool(state, state.calls[wait.call_id])
        if tool is not None and (
            tool.cancels or is_expired or not await self._may_be_ended(wait)
        ):
            return
        msg = (
            f"run {state.run.id}: call {wait.call_id} must be cancelled, and tool "
            f"{wait.tool!r} has no on_cancel function here. Nothing was done. "
            "Resume with the code that the call was made for, or end wait "
            f"{wait.id} with Fail(...)."
        )
        raise AgentChanged(msg, run_id=state.run.id, wait_id=wait.id)

    async def _may_be_ended(self, wait: Wait) -> bool:
        """Return whether a person can still end a wait with `Fail`."""
        if self.objects is None:
            return False
        try:
            decision = await read_decision(self.objects, wait.id)
        except FormatError:
            return True
        if decision is not None:
            return False
        from continuations.ledger.arrivals import wait_slots  # noqa: PLC0415 - rarely needed

        after = await wait_slots.follow(self.objects, wait) if wait.has_slots else wait
        return isinstance(after, Wait) and not is_past_deadline(
            after, self.ports.clock.now()
        )

    async def _cancel_job(self, state: RunState, wait: Wait) -> None:
        call = state.calls[wait.call_id]
        tool = self.stack_binding.tool(state, call)
        for number in range(0 if self.gives_up else MAX_TRIES):
            if tool is None or not tool.cancels:
                break
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
