"""Runner: the methods of AsyncRunner, for code without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn

from continuations.core.output_type import Output
from continuations.engine import portal
from continuations.engine.async_runner import AsyncRunner
from continuations.engine.runner_parts import missing_attribute
from continuations.engine.sync_sweeps import Sweeps
from continuations.engine.worker_options import (
    DEFAULT_MODEL_FAILURES,
    DEFAULT_MODEL_RETRY_TIME,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from os import PathLike

    from continuations.authoring.agent import Agent
    from continuations.core.identity import Identity
    from continuations.core.prices import Prices
    from continuations.core.run import Budget
    from continuations.engine.new_run import Input
    from continuations.engine.outcomes import Outcome
    from continuations.engine.ports import (
        CallbackUrl,
        Groups,
        IdGenerator,
        Notify,
        OnEvent,
    )
    from continuations.engine.run_options import ShouldPause
    from continuations.engine.run_streams import RunStream
    from continuations.ledger.claims import Clock
    from continuations.wire.continuation import Continuation
    from continuations_storage import Store


class Runner(Sweeps, Generic[Output]):
    """Runs of some agents, kept in a store.

    Its methods may be called from any thread in which no event loop is running. In an
    `async def` function or a notebook, use `AsyncRunner`, which has the same methods as
    coroutines. Any number of runners in any number of processes may share a store.

    Args:
        agents: One root agent, or a list of root agents with different names. With
            `[]`, every method works but `start`, `resume`, `sweep` and `serve_forever`.
        store: A URL (`file:path`, `s3://bucket/prefix`, `memory:`), a `Path` of a
            folder or a store object.
        lease: Length of a claim in seconds, 0.1 (on S3: 3) to 86400. After this time,
            a run whose worker died can be resumed.
        max_attempts: How many workers of a run may die in a row at one point, at least
            1. Then the run fails. A worker that saves progress starts the count again
            at 1. With 1, the run fails after the first death of a worker.
        max_depth: Maximum number of levels of agents, or `None` for no limit. It is
            stored with each run that is started. If the runner that resumes a run has
            another limit, the smaller one counts.
        model_retry_time: How long a worker repeats a model request that failed and may
            succeed later (rate limits, outages): a timedelta or seconds, at most an
            hour. After that, the frame waits for its model: a sweep asks again, after a
            minute at first. 0: no repetition. A response without a usable message costs
            the whole conversation, so after such responses the request is repeated at
            most twice.
        max_model_failures: How many requests of one turn may fail in a row, each for
            longer than `model_retry_time`. Then the run fails. `None`: no limit. The
            default is reached after about two days.
        context_type: The class that `context=` must be an instance of. A call with
            another object raises `InvalidInput` before any work. Default: any object.
        prices: The prices of models: with them, `Usage.cost` is known, and budgets in
            money are possible. Default: no prices.
        renamed: The new names of agents and tools by their old names, such as
            `{"transfer": "pay"}`, for runs that were stored with the old names.
        notify: A function or coroutine function that is called with each new `Wait`
            once it is stored. Exceptions that it raises are logged.
        callback_url: A function that returns the URL of a wait, to which another
            system sends the result of its job: `Links(...).callback_url`. Tools get
            the URL as `ctx.callback_url`.
        groups: A function or coroutine function that returns the groups of a person,
            `groups("kim")` -> `["finance"]`. It is called when a person decides a wait
            whose approvers are groups.
        on_event: A function or coroutine function that gets the events of every run
            that this runner works on, as `on_event` of `start`.
        clock: The clocks of this machine, for tests.
        ids: The source of new ids, for tests.

    Attributes:
        async_runner: The `AsyncRunner` of the same agents and store.

    Raises:
        InvalidInput: An argument is invalid.
    """

    def __init__(  # noqa: PLR0913 - what an application may choose, all by keyword
        self,
        agents: Agent[Output] | Sequence[Agent[Any]],
        *,
        store: str | PathLike[str] | Store,
        lease: float = 30.0,
        max_attempts: int = 5,
        max_depth: int | None = None,
        model_retry_time: timedelta | float = DEFAULT_MODEL_RETRY_TIME,
        max_model_failures: int | None = DEFAULT_MODEL_FAILURES,
        context_type: Any = None,
        prices: Prices | None = None,
        renamed: Mapping[str, str] | None = None,
        notify: Notify | None = None,
        callback_url: CallbackUrl | None = None,
        groups: Groups | None = None,
        on_event: OnEvent | None = None,
        clock: Clock | None = None,
        ids: IdGenerator | None = None,
    ) -> None:
        self.async_runner = AsyncRunner(
            agents,
            store=store,
            lease=lease,
            max_attempts=max_attempts,
            max_depth=max_depth,
            model_retry_time=model_retry_time,
            max_model_failures=max_model_failures,
            context_type=context_type,
            prices=prices,
            renamed=renamed,
            notify=notify,
            callback_url=callback_url,
            groups=groups,
            on_event=on_event,
            clock=clock,
            ids=ids,
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Name the method that does what another package calls differently."""
            raise missing_attribute(self, name)

    @property
    def store(self) -> Store:
        """The store of the runs."""
        return self.async_runner.store

    @property
    def groups(self) -> Groups | None:
        """The function that returns the groups of a person, if there is one."""
        return self.async_runner.groups

    def start(  # noqa: PLR0913 - what a start may say, all by keyword
        self,
        input: Input,  # noqa: A002 - the best name for the caller
        *,
        run_id: str | None = None,
        agent: str | None = None,
        context: Any = None,
        budget: Budget | None = None,
        should_pause: ShouldPause | None = None,
        work: bool = True,
        labels: Mapping[str, str] | None = None,
        title: str | None = None,
        by: str | Identity | None = None,
        settings: Mapping[str, Any] | None = None,
        on_event: OnEvent | None = None,
    ) -> Outcome[Output]:
        """Start a run and work on it until it ends or must wait.

        If `run_id` exists and began with the same input, that run is resumed. After a
        crash the run does not exist, or `resume` and `sweep` continue it.

        Args:
            input: A text, or a list: texts and attachments, or chat messages.
            run_id: Id of the run, by default a new one. With yours, repeats start one.
            agent: Name of the root agent; required if the runner has several.
            context: Your object for the tools, `ctx.context`. It is never stored.
            budget: Limits for the model usage of the whole run.
            should_pause: Called before each model call and new tool call. If it returns
                True, calls in progress are completed. Then the run is `Suspended`.
            work: With False, only store the run if it is new. It is `paused`.
            labels: At most 16 names and values by which `runs` finds the run.
            title: The subject of the run, on one line.
            by: The requester: a name or an `Identity`, whose name is stored.
            settings: Model settings of the run, JSON values. In each turn of each agent
                they win over `Agent(settings=...)`. They are stored: pass no secrets.
            on_event: A function, plain or async, that gets each event, as of `stream`.

        Returns:
            `Finished`, `Suspended` or `Failed`.

        Raises:
            InvalidInput: An argument is invalid, or the instructions function raised.
            InvalidId, RunErased, RunExists: `run_id` is not allowed, erased, or taken.
            ModelError, RunBusy, StaleRun, AgentChanged, StoreError: As for `resume`.
        """
        started = self.async_runner.start(
            input,
            run_id=run_id,
            agent=agent,
            context=context,
            budget=budget,
            should_pause=should_pause,
            work=work,
            labels=labels,
            title=title,
            by=by,
            settings=settings,
            on_event=on_event,
        )
        return portal.run_until_complete(started)

    def resume(
        self,
        run_id: str,
        *,
        context: Any = None,
        should_pause: ShouldPause | None = None,
        on_event: OnEvent | None = None,
        reopen: bool = False,
    ) -> Outcome[Output]:
        """Continue a run, in any process that has its agents.

        If nothing has been decided, nothing is written and the result is `Suspended`.
        Only what a process that died left to do is done: wait objects and `notify`.
        If the run has ended, the result is its outcome.

        Args:
            run_id: Id of the run.
            context: Your object for the tools, `ctx.context`. It is never stored.
            should_pause: As for `start`.
            on_event: As for `start`.
            reopen: With True, ask again about approved calls whose tool this code
                lacks. Default: the approval is kept for a process with the tool.

        Returns:
            `Finished`, `Suspended` or `Failed`.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: An argument is invalid. Nothing was written.
            RunBusy: Another process works on the run.
            StaleRun: Another process took the run over in the meantime.
            AgentChanged: This process lacks an agent of the run, or the tool of a
                call that may begin. Or the tool of a pending call that needed no
                approval has changed. The run is unchanged.
            ModelError: A model refused. The run can be resumed.
            ClockOff: This machine's clock is wrong. Nothing ran.
            Corrupt: A stored object is damaged.
            StoreError: The store failed. The run can be resumed.
        """
        return portal.run_until_complete(
            self.async_runner.resume(
                run_id,
                context=context,
                should_pause=should_pause,
                on_event=on_event,
                reopen=reopen,
            )
        )

    def stream(  # noqa: PLR0913 - as for `start`
        self,
        input: Input,  # noqa: A002 - the best name for the caller
        *,
        run_id: str | None = None,
        agent: str | None = None,
        context: Any = None,
        budget: Budget | None = None,
        should_pause: ShouldPause | None = None,
        labels: Mapping[str, str] | None = None,
        title: str | None = None,
        by: str | Identity | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> RunStream[Outcome[Output]]:
        """Start a run, and yield its events while this process works on it.

        Stored events come with live ones: parts of replies, and progress of tools. If
        `run_id` exists and began with the same input, its earlier events come first,
        and the run is resumed.

        Args:
            input: As for `start`, as all arguments.
            run_id: Id of the run, by default a new one.
            agent: Name of the root agent; required if the runner has several.
            context: Your object for the tools, `ctx.context`.
            budget: Limits for the model usage of the whole run.
            should_pause: Called before each model call and new tool call.
            labels: At most 16 names and values by which `runs` finds the run.
            title: The subject of the run, on one line.
            by: The requester.
            settings: Model settings of the run.

        Returns:
            The stream. Iterate over it; at the end, `stream.outcome` has the outcome.
            The iteration raises the errors of `start`.
        """
        from continuations.engine.run_streams import RunStream  # noqa: PLC0415 - rarely used

        return RunStream(
            self.async_runner.stream(
                input,
                run_id=run_id,
                agent=agent,
                context=context,
                budget=budget,
                should_pause=should_pause,
                labels=labels,
                title=title,
                by=by,
                settings=settings,
            )
        )

    def resume_stream(
        self,
        run_id: str,
        *,
        after: str | None = None,
        context: Any = None,
        should_pause: ShouldPause | None = None,
    ) -> RunStream[Outcome[Output]]:
        """Continue a run, and yield its events while this process works on it.

        Args:
            run_id: Id of the run.
            after: The `cursor` of the last event that you handled, `""` for none: later
                events of other processes come first. Default: only new events.
            context: Your object for the tools, `ctx.context`. It is never stored.
            should_pause: As for `start`.

        Returns:
            The stream, as of `stream`. The iteration raises the errors of `resume`.

        Raises:
            InvalidInput: `after` is not a cursor.
        """
        from continuations.engine.run_streams import RunStream  # noqa: PLC0415 - rarely used

        return RunStream(
            self.async_runner.resume_stream(
                run_id, after=after, context=context, should_pause=should_pause
            )
        )

    def root_agent(self, name: str | None = None) -> Agent[Any]:
        """Return a root agent of this runner.

        Args:
            name: Name of the agent. Default: the only root agent.

        Returns:
            The agent.

        Raises:
            InvalidInput: There is no such agent, or there are several and `name` is
                `None`.
        """
        return self.async_runner.root_agent(name)

    def adopt(
        self,
        continuation: Continuation | bytes,
        *,
        run_id: str | None = None,
        by: str | Identity | None = None,
    ) -> Outcome[Output]:
        """Store the state of another run as a new, suspended run.

        The continuation may come from a run without a store, from another store, or
        from a reader in `continuations.interop`. The other run is not changed: cancel
        it, or never resume it. Nothing runs here; `resume` and `sweep` continue the
        new run.

        - Open waits get new ids and digests, and keep their deadlines.
        - A call that was approved and not started waits for an approval again.
        - A call that was started waits as `unknown`, except if its tool is declared
          `read_only`.
        - Messages in the inbox of the other run are not read.

        A repeat with the same continuation and id returns the same run. After a crash
        the run does not exist, or a repeat, `resume` or `sweep` completes it.

        Args:
            continuation: A continuation that has not ended, or its bytes.
            run_id: Id of the new run. Default: the id of the continuation's run.
            by: The requester of the new run: a name or an `Identity`, whose name is
                stored. The persons who asked for the other run count as well if that
                run is in this store.

        Returns:
            `Suspended`. If the run was adopted before, its present outcome.

        Raises:
            InvalidInput: The continuation has ended, so nothing is paused in it, or it
                is not a continuation. Its run is in this store and has gone on since:
                fork it. Or `by` is not a name.
            InvalidId: `run_id` is invalid, or that of a thread: pass another one.
            RunExists: `run_id` belongs to a run with another origin.
            FormatError: The bytes are not a continuation, or have a newer format.
            Corrupt: The bytes are damaged, or a stored object is.
            ClockOff: This machine's clock is wrong. Nothing was written.
            StoreError: The store failed. Call again.
        """
        return portal.run_until_complete(
            self.async_runner.adopt(continuation, run_id=run_id, by=by)
        )
