"""Plan, perform, advance, commit, until nothing moves without a decision.

An action on the world (asking a model, running a tool) begins only when everything
that must not be forgotten before it is committed: the model's replies, the intent to
run, and the results of calls that may not be repeated. Frames that run in parallel
share one commit in flight; whatever is ready by then joins the next.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from continuations.core.actions import Ask, Begin, Examine, Run
from continuations.core.events import (
    Admitted,
    CallRaised,
    CallReturned,
    Entered,
    Gated,
    Rejected,
    UserSaid,
)
from continuations.core.plan import plan
from continuations.core.reducer import advance
from continuations.core.run import ENDED, Failure
from continuations.core.table import ROOT
from continuations.errors import ModelError

if TYPE_CHECKING:
    from continuations.core.actions import Action, Verify
    from continuations.core.events import Event
    from continuations.core.table import Table
    from continuations.engine.journal import Journal
    from continuations.engine.perform import Performer
    from continuations.engine.ports import Pause
    from continuations.wire.records import Cancellation, Letter

# What follows from the rows before it, and would come out the same again.
_DERIVED = (Admitted, Gated, Rejected, Entered)


def heard(table: Table, letters: tuple[Letter, ...]) -> Table:
    """Take in the messages that may be read now: the root frame has no open call."""
    for letter in letters:
        ended = table.run.status in ENDED
        if ended or table.frames[ROOT].open or letter.number != table.run.inbox + 1:
            break
        table = advance(table, UserSaid(number=letter.number, message=letter.message))
    return table


def never() -> bool:
    """Never pause."""
    return False


class Drive:
    """Moves one run on in this process; use once.

    `pause` is asked before anything is begun; once it said yes, what was begun is
    brought to its end, and nothing else begins.

    After `drive` returned, `table` is the state to be kept, `cancellation` the wish to
    end the run if one was seen, `model_error` what kept a model from answering,
    `failure` why the run must end as it is. After it raised, `cut_off` tells that a
    call had begun and had not come to its end.
    """

    def __init__(
        self,
        table: Table,
        performer: Performer,
        journal: Journal,
        letters: tuple[Letter, ...] = (),
        pause: Pause = never,
    ) -> None:
        self.table = table
        self.cancellation: Cancellation | None = None
        self.model_error: ModelError | None = None
        self.failure: Failure | None = None
        self.cut_off = False
        self._performer = performer
        self._journal = journal
        self._letters = letters
        self._pause = pause
        self._paused = False
        # Events that must be durable are counted; so is how many of them are.
        self._told = 1
        self._durable = 0
        # What would not be done again if this worker died, needed or not.
        self._gained = self._kept = 0
        self._since: dict[Action, int] = {}
        self._flying: dict[Action, asyncio.Task[Event]] = {}
        self._commit: asyncio.Task[Cancellation | None] | None = None
        self._commits = 0

    async def drive(self) -> None:
        """Go on until only a decision can move the run, or it ended.

        Raises `AgentChanged`, `StaleRun`, `ClockOff` or a `StoreError`; then nothing
        after the last commit is kept, and no action is left running.
        """
        try:
            while await self._step():
                pass
        finally:
            await self._land()

    async def _step(self) -> bool:
        # Asked once for both: a call that is begun here must be launched below.
        self._paused = self._paused or self._pause()
        await self._settle()
        blocked = self._launch()
        if not blocked and not self._flying and self._commit is None:
            return False
        dirty = self._told > self._durable
        if self._commit is None and (blocked or dirty):
            self._commit = asyncio.create_task(self._save())
        await self._wait()
        self._harvest()
        return self.cancellation is None

    async def _settle(self) -> None:
        """Do what needs nobody outside: examine new calls, begin ready ones."""
        while True:
            moved = False
            for action in plan(self.table):
                if isinstance(action, Examine):
                    event = await self._performer.examine(self.table, action.call)
                elif isinstance(action, Begin) and self._begins_calls:
                    event = self._performer.begin(self.table, action.call)
                else:
                    continue
                self._apply(event)
                moved = True
            if not moved:
                break
        before, self.table = self.table, heard(self.table, self._letters)
        self._told += self.table is not before
        self._gained += self.table is not before

    def _is_spent(self) -> bool:
        budget, usage = self.table.run.budget, self.table.run.usage
        limit = budget and budget.spent_by(usage)
        if limit:
            reason = f"its budget of {limit} is used up"
            self.failure = Failure(code="budget", message=reason)
        return self.failure is not None

    @property
    def _begins_calls(self) -> bool:
        return self.model_error is None and not self._paused

    def _launch(self) -> bool:
        """Begin every action that may begin; tell whether one waits for a commit."""
        blocked = False
        for action in plan(self.table):
            if action in self._flying or isinstance(action, Examine | Begin):
                continue
            if isinstance(action, Ask) and self.model_error is not None:
                continue
            if isinstance(action, Ask) and self._is_spent():
                continue
            # A call that was begun must run, or nobody could tell whether it did.
            if self._paused and not isinstance(action, Run):
                continue
            since = self._since.setdefault(action, self._told)
            if since > self._durable or not self._journal.allows_a_call:
                blocked = True
                continue
            del self._since[action]
            self._flying[action] = asyncio.create_task(self._perform(action))
        return blocked

    async def _perform(self, action: Ask | Run | Verify) -> Event:
        return await self._performer.perform(
            action, self.table, fence=self._journal.number
        )

    async def _save(self) -> Cancellation | None:
        told, gained = self._told, self._gained
        progressed = self._commits > 0 and gained > self._kept
        self._commits += 1
        cancellation = await self._journal.commit(self.table, progressed=progressed)
        self._durable, self._kept = told, gained
        return cancellation

    async def _wait(self) -> None:
        waiting: set[asyncio.Task[object]] = {*self._flying.values()}
        timeout = None
        if self._commit is not None:
            waiting.add(self._commit)
        else:
            timeout = self._journal.seconds_to_renewal
        done, _ = await asyncio.wait(
            waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
        )
        if not done:
            # The claim wants to be renewed; a commit without news does that.
            self._commit = asyncio.create_task(self._save())

    def _harvest(self) -> None:
        if self._commit is not None and self._commit.done():
            commit, self._commit = self._commit, None
            self.cancellation = commit.result()
        for action, task in list(self._flying.items()):
            if not task.done():
                continue
            del self._flying[action]
            try:
                event = task.result()
            except ModelError as error:
                self.model_error = self.model_error or error
            else:
                self._apply(event)

    def _apply(self, event: Event) -> None:
        forgettable = isinstance(event, _DERIVED) or (
            isinstance(event, CallReturned | CallRaised)
            and self.table.calls[event.call].repeatable
        )
        self.table = advance(self.table, event)
        self._told += not forgettable
        self._gained += not isinstance(event, _DERIVED)

    async def _land(self) -> None:
        """Leave nothing running; what was in flight is settled by who comes next."""
        self.cut_off = any(isinstance(action, Run) for action in self._flying)
        tasks: list[asyncio.Task[object]] = [*self._flying.values()]
        if self._commit is not None:
            tasks.append(self._commit)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
