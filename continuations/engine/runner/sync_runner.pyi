# Written by tools/sync_stubs.py. Do not edit it: change the async source.
from collections.abc import Collection, Iterator, Mapping, Sequence
from continuations.authoring.agent.agent import Agent
from continuations.core.declared_types import Output
from continuations.core.identity import Identity
from continuations.core.prices import Prices
from continuations.core.reading.audit import AuditLine
from continuations.core.reading.run_past import (
    RewindPlan,
    Rewound,
    RunDifference,
    RunVersion,
)
from continuations.core.reading.run_stream import StreamEvent
from continuations.core.rows.decisions import Decision, Door, PYTHON, Verdict
from continuations.core.rows.event_matching import UntakenSignal
from continuations.core.rows.grants import KeptGrant
from continuations.core.rows.quorum import Vote
from continuations.core.rows.run import Budget
from continuations.core.rows.waits import Wait, WaitSummary
from continuations.engine.outcomes import Outcome
from continuations.engine.past.drift import DriftRow
from continuations.engine.ports import CallbackUrl, Groups, IdGenerator, Notify, OnEvent
from continuations.engine.runner.async_runner import AsyncRunner, NOT_GIVEN
from continuations.engine.start.new_run import Input, UserText
from continuations.engine.sweep.sweeping import SweepResult
from continuations.engine.sync.run_streams import RunStream
from continuations.engine.threads.sync_thread import Thread
from continuations.engine.work_observers import WorkObserver
from continuations.engine.worker_options import (
    DEFAULT_MODEL_FAILURES,
    DEFAULT_MODEL_RETRY_TIME,
    ShouldPause,
)
from continuations.ledger.claims import Clock
from continuations.ledger.copying.store_copy import CopyResult
from continuations.ledger.decisions.decisions import DigestCheck
from continuations.ledger.decisions.worklist import Worklist
from continuations.ledger.index.run_listing import RunSummary
from continuations.ledger.published_events import Publication
from continuations.ledger.repair.erasing import ErasedRun
from continuations.ledger.repair.retention import PruneResult, Retention
from continuations.wire.continuation import Continuation
from continuations_storage import Store
from datetime import timedelta
from os import PathLike
from typing import Any, Generic, Literal, Never

class Runner(Generic[Output]):
    """Runs of some agents, kept in a store.

    Its methods may be called from any thread in which no event loop is running. In an
    `async def` function or a notebook, use `AsyncRunner`, which has the same methods as
    coroutines. Any number of runners in any number of processes may share a store.

    Attributes:
        async_runner: The `AsyncRunner` of the same agents and store.

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
        retention: How long ended runs are kept; sweeps of this runner erase the older
            ones. Default: forever; the sweeps make no request more.
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

    Raises:
        InvalidInput: An argument is invalid.
    """

    async_runner: AsyncRunner[Output]

    def __init__(
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
        retention: Retention | None = None,
        notify: Notify | None = None,
        callback_url: CallbackUrl | None = None,
        groups: Groups | None = None,
        on_event: OnEvent | None = None,
        clock: Clock | None = None,
        ids: IdGenerator | None = None,
    ) -> None: ...
    @property
    def store(self) -> Store:
        """The store of the runs."""

    @property
    def groups(self) -> Groups | None:
        """The function that returns the groups of a person, if there is one."""

    def start(
        self,
        input: Input,
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
        trace_context: Mapping[str, str] | str | None = None,
        on_event: OnEvent | None = None,
        connection: object = None,
    ) -> Outcome[Output]:
        """Start a run and work on it until it ends or must wait.

        If `run_id` exists and began with the same input, that run is resumed. After a
        crash the run does not exist, or `resume` and `sweep` continue it.

        Args:
            input: A text, or a list: texts and attachments, or chat messages. For a
                workflow `NAME.bind(...)`, or its arguments as a dict of JSON values.
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
            settings: Model settings that win over those of agents. They are stored.
            trace_context: The W3C headers of your caller as a dict, or `traceparent`.
            on_event: A function, plain or async, that gets each event, as of `stream`.
            connection: With `work=False`, your transaction, as for `decide`.

        Returns:
            `Finished`, `Suspended` or `Failed`.

        Raises:
            InvalidInput: An argument is invalid, or the instructions function raised.
            InvalidId, RunErased, RunExists: `run_id` is not allowed, erased, or taken.
            ModelError, RunBusy, StaleRun, AgentChanged, StoreError: As for `resume`.
        """

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

    def stream(
        self,
        input: Input,
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
        trace_context: Mapping[str, str] | str | None = None,
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
            trace_context: The W3C trace context of your caller.

        Returns:
            The stream. Iterate over it; at the end, `stream.outcome` has the outcome.
            The iteration raises the errors of `start`.
        """

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
        it, or never resume it. In another store, nothing tells what it did after this
        state: pass its newest one. Nothing runs here; `resume` and `sweep` continue the
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
                is not a continuation. Its run is in this store in another state: go on
                with that run, or fork it. Or `by` is not a name.
            InvalidId: `run_id` is invalid, or that of a thread: pass another one.
            RunErased: The run of the continuation was erased from this store.
            RunExists: `run_id` belongs to a run with another origin.
            FormatError: The bytes are not a continuation, or have a newer format.
            Corrupt: The bytes are damaged, or a stored object is.
            ClockOff: This machine's clock is wrong. Nothing was written.
            StoreError: The store failed. Call again.
        """

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

    @property
    def root_agents(self) -> tuple[Agent[Any], ...]:
        """The agents with which runs of this runner may begin, in their order."""

    def observe(self, observer: WorkObserver) -> None:
        """Let an observer see the work of this runner: sessions, requests, calls.

        It sees the runs that the runner works on from now. An exception of the observer
        is logged, and changes no run.

        Args:
            observer: A `continuations.observers.WorkObserver`.

        Raises:
            InvalidInput: The runner has an observer, or `observer` has no `session`.
        """

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

    def sweep(
        self,
        *,
        context: Any = None,
        should_pause: ShouldPause | None = None,
        max_concurrent_runs: int = 8,
    ) -> SweepResult:
        """Check every run that is due, and resume those that can make progress.

        A run is due if it has a new decision or message, if a deadline has passed, if
        it was paused, or if its worker died. A sweep also creates objects that are
        missing after a crash. Nothing that one run raises stops it. Call it regularly.

        Args:
            context: Your object for the tools, `ctx.context`. It is never stored.
                Several runs use it at the same time.
            should_pause: As for `start`. Once it returns True, no other run is checked.
            max_concurrent_runs: Maximum number of runs at the same time, at least 1.

        Returns:
            The outcomes and errors of the runs, and the runs of other processes.

        Raises:
            InvalidInput: `context`, `should_pause` or `max_concurrent_runs` is
                invalid.
            StoreError: The due runs could not be listed.
        """

    def serve_forever(
        self,
        *,
        interval: float = 10.0,
        max_concurrent_runs: int = 8,
        context: Any = None,
        handle_signals: bool = True,
    ) -> None:
        """Resume due runs until SIGTERM or SIGINT.

        After the first signal nothing new begins, calls in progress are completed,
        their runs are suspended, and the method returns. The earlier handlers are
        restored at the first signal, so a second one has its usual effect. Errors of
        the store and of runs are logged. Do not call it where an event loop is running.

        Args:
            interval: Longest time between two looks for due runs, in seconds. The loop
                also looks when the next marker is due, when this runner records a
                decision, message or signal, and when the store reports one of another
                process. After work, the first pause is one second.
            max_concurrent_runs: Maximum number of runs at the same time, at least 1.
            context: Your object for the tools, `ctx.context`. It is never stored.
            handle_signals: With False, no handlers are installed. Outside the main
                thread, Python allows none.

        Raises:
            InvalidInput: `interval`, `max_concurrent_runs` or `context` is invalid.
            ContinuationsError: An event loop is running in this thread.
        """

    def decide(
        self,
        wait_id: str,
        verdict: Verdict,
        *_unexpected: Never,
        shown: str | None = None,
        check_digest: DigestCheck | None = None,
        door: Door = PYTHON,
        connection: object = None,
        **_unknown: Never,
    ) -> Decision | Vote:
        """Record the decision of a wait; the first decision wins.

        The run does not continue before the next `resume` or `sweep`. If several
        persons must agree, each verdict is a vote, and one `Deny` ends the wait. The
        first vote of a person counts. If the tool rejected the answer of a job, the id
        that the job knows stands for the wait that was opened again.

        Args:
            wait_id: Id of the wait.
            verdict: `Approve`, `Deny`, `Answer` or `Fail`.
            shown: The digest of the wait that the person saw (`Wait.digest`). If the
                wait has another one, nothing is recorded. `None`: not compared.
            check_digest: Called with the wait's digest before anything is recorded, to
                compare it in another way. Its exceptions are raised.
            door: The way by which the decision came, for the audit.
            connection: On Postgres, your psycopg connection with an open transaction:
                the decision is recorded if you commit, with your own rows.

        Returns:
            The recorded decision, or the `Vote` if the wait is still open after it. A
            second, equal call returns the same.

        Raises:
            WaitNotFound: There is no such wait.
            DecisionRefused: The verdict is invalid for the wait, or the person saw
                another wait, may not decide, or has voted otherwise. Nothing was
                recorded. Errors of the runner's `groups` function are raised as such.
            AlreadyDecided: Another decision is recorded; the error contains it.
            WaitExpired: The deadline has passed.
            Cancelled: The run was cancelled, has failed or was repaired.
            StoreError: The store failed. Call again with the same verdict.
        """

    def decide_all(
        self,
        verdicts: Mapping[str, Verdict],
        *,
        shown: Mapping[str, str] | None = None,
        door: Door = PYTHON,
    ) -> dict[str, Decision | Vote | Exception]:
        """Record decisions for several waits, each on its own.

        One that is refused or fails does not affect the others: its error is its
        result. That may be an exception of the `groups` function of the runner. Call
        again with the same verdicts after a `StoreError`.

        Args:
            verdicts: Verdicts by wait id, at most 1,000.
            shown: Digests that the person saw, by wait id, as for `decide`.
            door: The way by which the decisions came, for the audit.

        Returns:
            For each wait id, in the order given: the recorded decision, the vote, or
            the error that `decide` raises.

        Raises:
            InvalidInput: `verdicts` is not a mapping, or has more than 1,000 waits.
                Nothing was recorded.
        """

    def wait(self, wait_id: str) -> Wait:
        """Return an open wait, with everything that a decider needs.

        A wait whose deadline has passed is returned until its expiry is recorded. If a
        wait can have votes, or a later deadline, they are read too.

        Args:
            wait_id: Id of the wait.

        Returns:
            The wait, with its arguments, schema, deadline, note and votes.

        Raises:
            WaitNotFound: There is no such wait.
            AlreadyDecided: The wait is decided; the error contains the decision.
            WaitExpired: The wait has expired.
            Cancelled: The run was cancelled, has failed or was repaired.
            StoreError: The store failed.
        """

    def waiting(
        self,
        *,
        after: str = "",
        kinds: Collection[str] | None = None,
        approver: str | Identity | None = None,
    ) -> Iterator[WaitSummary]:
        """Iterate over the open waits of all runs, sorted by id.

        Only keys are read. Waits of the kinds `timer`, `model` and `operator` have no
        object: if they are asked for, each run with a deadline is loaded, and for
        `operator` each live run. A pause is listed once a worker has read it. After a
        crash the list may be out of date until the next sweep; `decide` and `look` are
        always exact.
        A wait whose deadline has passed is listed as `expired` until a sweep records
        the expiry.

        With `approver`, the objects of the waits are read too, and the votes of waits
        that take votes. A wait is listed if the person is one of its approvers, or if
        it has none, and neither excludes the requester nor has a vote of the person.
        Waits whose deadline has passed are left out.

        Args:
            after: Return only waits after this wait id.
            kinds: Return only waits of these kinds. `None`: of the kinds that ask a
                person: `approval`, `question`, `unknown`, `input` and `output`.
            approver: Return only waits that this person may decide: a name or an
                `Identity`. The groups come from `Runner(groups=...)` and the
                `Identity`. Without both, no wait for a group is listed.

        Returns:
            An iterator over a summary of each open wait.

        Raises:
            InvalidInput: `kinds` has an unknown kind, or `approver` is no name.
                Exceptions of the runner's `groups` function are raised as they are.
            Corrupt: With `approver`: a wait or a vote is damaged.
            StoreError: The store failed; raised during the iteration.
        """

    def open_waits(
        self, *, after: str = "", kinds: Collection[str] | None = None
    ) -> Iterator[Wait]:
        """Iterate over the open waits of all runs, with arguments and all other fields.

        The objects of the waits are read in parallel: one request for each wait.
        `waiting` needs one request for a thousand waits. After a crash, a decided wait
        may be listed until the next sweep, also of a finished run. After an escalation,
        a wait has the approvers and the deadline with which it was opened. `decide`
        and `wait` are always exact.

        Args:
            after: Return only waits after this wait id.
            kinds: Return only waits of these kinds. `None`: of the kinds that ask a
                person: `approval`, `question`, `unknown`, `input` and `output`.

        Returns:
            An iterator over the waits, sorted by id.

        Raises:
            InvalidInput: `kinds` has an unknown kind.
            StoreError: The store failed; raised during the iteration.
            Corrupt: A wait is damaged; `waiting` and `wait` show the others.
        """

    def worklist(
        self,
        *,
        after: str = "",
        limit: int = 100,
        kinds: Collection[str] | None = None,
        approver: str | Identity | None = None,
    ) -> Worklist:
        """Return one page of the waits that people are asked about, with all fields.

        Waits with the next deadlines come first, then the oldest ones. A page lists
        the keys of all these waits, and one page of markers. Then it reads the waits
        of the page, at the same time. After a crash, a decided wait may be listed until
        the next sweep, also of a finished run. `decide` and `wait` are always exact.

        Args:
            after: `next` of the page before.
            limit: The largest number of waits, from 1 to 1,000.
            kinds: Return only waits of these kinds. `None`: of the kinds that ask a
                person: `approval`, `question`, `unknown`, `input` and `output`.
            approver: Leave out the waits that this person may not decide, as for
                `waiting`. A page has fewer waits then, perhaps none, and their votes.

        Returns:
            The waits, and whether their deadline has passed.

        Raises:
            InvalidInput: An argument is invalid.
            Corrupt: A wait of the page is damaged; `waiting` lists all waits.
            StoreError: The store failed.
        """

    def notify(self, wait_id: str) -> None:
        """Call `notify` once more for an open wait.

        Args:
            wait_id: Id of the wait.

        Raises:
            InvalidInput: The runner has no `notify`.
            WaitNotFound, AlreadyDecided, WaitExpired, Cancelled, StoreError: As for
                `wait`. Exceptions of the function itself are raised too.
        """

    def heartbeat(
        self, wait_id: str, *, extend: timedelta | float, by: str | None = None
    ) -> Wait:
        """Say that a job is in progress: its wait gets more time.

        The new deadline is `extend` after now. A deadline never moves to an earlier
        time. If the deadline moves by less than a tenth of `extend`, nothing is
        written. A wait without a deadline, or whose tool has not returned, is not
        changed.

        Args:
            wait_id: Id of the wait, `ctx.wait_id` of the tool.
            extend: Time from now to the new deadline, as a `timedelta` or in seconds.
            by: Name of the sender, for the record.

        Returns:
            The wait, with its newest deadline.

        Raises:
            InvalidInput: `extend` or `by` is invalid.
            WaitNotFound: There is no such wait.
            DecisionRefused: The wait is not one of a job. Nothing was changed.
            AlreadyDecided: The job has a result.
            WaitExpired: The deadline has passed.
            Cancelled: The run was cancelled, has failed or was repaired.
            StoreError: The store failed. Call again.
        """

    def wake(self, run_id: str, *, by: str | None = None, door: Door = PYTHON) -> int:
        """End the waits of a run for its models before their time.

        Call it when a provider reports that a background reply is ready, or that a
        limit is over. The next `resume` or sweep polls or asks. A call before such a
        wait is stored has no effect, and the next attempt comes at its time.

        A limited model is asked early once before that time, and such an attempt counts
        no failure. A reply that the provider computes is polled after each call.

        Args:
            run_id: Id of the run.
            by: Name of the person or program, for the record.
            door: The way by which the call came, for the audit.

        Returns:
            The number of waits that ended, now or by an earlier call.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: `by` is not a text.
            StoreError: The store failed. Call again.
        """

    def look(self, run_id: str, *, version: int | None = None) -> Continuation:
        """Return the state of a run; writes nothing.

        The frame of a sub-agent that has returned is in earlier versions only. Without
        `version`, the waits have their newest deadlines, approvers and votes.

        Args:
            run_id: Id of the run.
            version: Number of a version, by default the newest.

        Returns:
            The state, with messages, calls and waits.

        Raises:
            RunNotFound: The store has no such run or version.
            RunErased: The run was erased.
            InvalidInput: `version` is not an integer.
            Corrupt: A stored object is damaged.
            FormatError: A stored object has a newer format.
        """

    def runs(
        self,
        *,
        agent: str | None = None,
        status: str | None = None,
        label: str | None = None,
        after: str = "",
    ) -> Iterator[RunSummary]:
        """Iterate over the runs of the store: live ones by id, then ended ones by day.

        The index has the keys of the runs. Each run that is listed costs a listing and
        one or two reads more, in parallel.

        Args:
            agent: Return only runs of this root agent, also those that were stored
                under an old name of `renamed=`. The others are read too.
            status: `live` or `ended`, or one status: `running`, `suspended`,
                `finished`, `failed` or `cancelled`. A run whose worker died at its end
                is listed under `ended` after the next sweep.
            label: Return only runs with this label, as `team=finance`, sorted by id.
                Only their keys are listed.
            after: Return only runs after this cursor of the same listing.

        Returns:
            An asynchronous iterator over a summary of each run.

        Raises:
            InvalidInput: An argument is invalid.
            StoreError: The store failed; raised during the iteration.
        """

    def history(self, run_id: str, *, after: int = 0) -> Iterator[RunVersion]:
        """Iterate over the versions of a run, the oldest first.

        Each version has its number, time, worker and waits, and what changed since the
        version before. They are read one after another, as the iteration needs them:
        one read for each version and one for each decision. The first one costs a
        listing, and at most log2(versions) + 1 reads more if `after` is given.

        Versions of a live run are never deleted. Versions that a repair gave up are
        left out.

        Args:
            run_id: Id of the run.
            after: Number of a version: return only later ones. Default: all.

        Returns:
            An iterator over the versions.

        Raises:
            InvalidId: `run_id` is invalid.
            InvalidInput: `after` is not an integer, or the run has fewer versions.
            RunNotFound: The store has no such run; raised during the iteration, as the
                errors below.
            RunErased: The run was erased.
            Corrupt: A version or decision is damaged, and the run was not repaired.
            NewerFormat: A newer release wrote the run.
            StoreError: The store failed. Continue after the last version.
        """

    def diff(self, run_id: str, before: int, after: int) -> RunDifference:
        """Compare two versions of a run.

        The result has the messages, agents, open calls, waits and states of agents that
        differ, and the decisions of the waits that only the first version has. A wait
        that was opened and decided in between is in neither version; `history` has it.

        Args:
            run_id: Id of the run.
            before: Number of the first version.
            after: Number of the second version, also a smaller one.

        Returns:
            The differences.

        Raises:
            InvalidId: `run_id` is invalid.
            InvalidInput: A number is not an integer.
            RunNotFound: The store has no such run or version.
            RunErased: The run was erased.
            Corrupt: A version or decision is damaged.
            NewerFormat: A newer release wrote the run.
            StoreError: The store failed.
        """

    def events(
        self, run_id: str, *, after: str = "", follow: bool = False
    ) -> Iterator[StreamEvent]:
        """Iterate over what happened in a run: messages, calls, waits, its end.

        The events are derived from the stored versions, in any process and as often as
        you like. Nothing is stored for them, and no agents are needed. See
        `continuations.events` for their types.

        Each version is read once, and each decision once. An iteration after a cursor
        reads at most log2(versions) + 1 versions more. While nothing happens,
        `follow=True` reads the key of the next version, each 0.2 seconds at first and
        each 5 seconds later.

        Args:
            run_id: Id of the run, also of a thread.
            after: The `cursor` of an event: return only later ones. Default: all.
            follow: With True, wait for what happens next, also while a wait is open.
                The iteration ends when the run ends or the thread rests.

        Returns:
            An iterator over the events, in their order.

        Raises:
            InvalidId: `run_id` is invalid.
            InvalidInput: `after` is not a cursor of the run.
            RunNotFound: The store has no such run; raised during the iteration, as the
                errors below.
            RunErased: The run was erased.
            Corrupt: A version or decision is damaged, and the run was not repaired.
            NewerFormat: A newer release wrote the run.
            StoreError: The store failed. Continue after the last cursor.
        """

    def drift(
        self, *, context: Any = NOT_GIVEN, after: str = "", run: str | None = None
    ) -> Iterator[DriftRow]:
        """Iterate over all live runs, with what this code would do with each of them.

        Nothing is written, and no model and no tool is called. The rules are those of
        `resume`. A row names each approved call that would wait again, and each error
        that `resume` would raise. Call it before a deployment, with the new code and
        the store of the old code.

        Functions of approval policies are called for calls that were accepted and have
        not begun, as `resume` does. `recheck`, guardrails and hooks are not called. A
        run that ended is left out.

        Each row costs a listing and the reads of one resume. At most 20 runs are in
        memory at a time.

        Args:
            context: Your object for the tools, as for `resume`. Its type is checked if
                it is given.
            after: Return only runs whose id sorts after this one.
            run: Return only the row of this run.

        Returns:
            An iterator over a row of each run, by run id.

        Raises:
            InvalidInput: The runner has no agents, or an argument is invalid.
            InvalidId: `after` or `run` is not a run id.
            StoreError: The store failed; raised during the iteration.
        """

    def audit(self, run_id: str, *, past: bool = True) -> list[AuditLine]:
        """Return what was decided about a run, also after its end.

        Decisions of people, programs and rules are lines, and so are expiries, signals,
        votes, the request to cancel the run, forks and rewinds. One listing, and one
        read for each line and for each version of the run.

        Args:
            run_id: Id of the run.
            past: Whether the fork that made the run, and its rewinds, are lines. If
                not, no version is read but the newest one.

        Returns:
            The lines, in the order of their times.

        Raises:
            InvalidId: `run_id` is invalid.
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            Corrupt: A recorded decision is damaged.
            FormatError: A recorded decision has a newer format.
            StoreError: The store failed.
        """

    def send(
        self,
        run_id: str,
        text: UserText,
        *,
        by: str | None = None,
        id: str | None = None,
    ) -> int:
        """Send a user message to a run.

        The root agent reads it at the next resume or sweep. A worker that already works
        on the run reads it only before it finishes the run, and not between two turns.
        A message that arrives between its last look and the end of the run is not read.

        Args:
            run_id: Id of the run.
            text: The message, not empty; or texts and attachments.
            by: Name of the sender, for the record.
            id: Your id of the message: a repeat sends nothing, and returns the number
                of the first one.

        Returns:
            The number of the message in the run's inbox, from 1.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: The run has ended, an argument is not a text, or `id` names
                a message with another text or sender.
            InboxFull: The run has too many unread messages.
            AttachmentsTooLarge: The run would have too many bytes of attachments.
            StoreError: The store failed.
        """

    def signal(
        self,
        run_id: str,
        name: str,
        data: Any = None,
        *,
        by: str | None = None,
        id: str | None = None,
        door: Door = PYTHON,
    ) -> int:
        """Send a signal to a run: it ends a wait that `wait_for(name)` opened.

        The oldest such wait takes the signal, whatever its key, at the next resume or
        sweep. The data of the signal is the answer. A signal that comes before its wait
        is kept. A signal never queues behind a message.

        If the data does not fit the type of the wait, the wait is opened again, and its
        note says why. The signal is then used up.

        Args:
            run_id: Id of the run.
            name: Name of the event, 1 to 200 characters.
            data: Any JSON value.
            by: Name of the sender, for the record.
            id: Your id of this signal. A repeated call with the same id, name and data
                sends one signal. Such a call reads all signals of the run.
            door: The way by which the signal came, for the audit.

        Returns:
            The number of the signal, from 1.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: The run has ended, an argument is invalid, or no wait has
                taken 100 signals of the run. Or the id names another signal.
            StoreError: The store failed. The signal may be recorded: repeat the call
                with an `id`.
        """

    def publish(
        self,
        name: str,
        data: Any = None,
        *,
        key: str | None = None,
        by: str | None = None,
        id: str | None = None,
        door: Door = PYTHON,
        connection: object = None,
    ) -> Publication:
        """Publish an event for all runs that wait for it with `wait_for(name, key=…)`.

        A wait matches if its name and its key are equal to those of the event. A wait
        without a key takes events without a key. Each wait takes the oldest event that
        its run has not taken, also one that was published up to 24 hours before the
        wait was opened. The data of the event is the answer. Events are deleted after
        two days, by a sweep.

        If the data does not fit the type of the wait, the wait is opened again, and its
        note says why. A crash leaves the event published or not. If it is published, a
        sweep ends the waits that this call left open.

        Args:
            name: Name of the event, 1 to 200 characters.
            data: Any JSON value.
            key: Key of the event, for example an order number. `None`: no key.
            by: Name of the publisher, for the record.
            id: Your id of this event. A repeated call with the same id, name, key and
                data records one event, as long as the first one is kept.
            door: The way by which the event came, for the audit.
            connection: Your open transaction, as for `decide`.

        Returns:
            The id of the event, and the runs whose waits this call ended. They continue
            at the next resume or sweep.

        Raises:
            InvalidInput: An argument is invalid, or the id names another event.
            StoreError: The event may be published. Repeat the call with an `id`.
        """

    def cancel(
        self,
        run_id: str,
        *,
        call: str | Sequence[str] | None = None,
        reason: str | None = None,
        by: str | None = None,
        door: Door = PYTHON,
    ) -> Continuation:
        """End a run, or one of its calls, and close its open waits; idempotent.

        If another process works on the run, that process ends it at its next commit, or
        before the run finishes. The request is stored first: after a crash, a sweep or
        resume ends the run. A request that arrives between the worker's last look and
        the end of the run comes too late; only the status "cancelled" is a promise.

        With `call`, only this call ends, with all calls of its agent and of the agents
        below. Its path may also be a list of names. The model reads that the call was
        cancelled, and the run goes on. A call that has begun to run is not stopped: it
        returns, and its result is kept. A call that has not begun never begins.

        Args:
            run_id: Id of the run.
            call: Id of an open call, or its path such as boss/hr/transfer. Default: the
                whole run.
            reason: Why, for the record, for later deciders and for the model.
            by: Name of the person who cancels, for the record.
            door: The way by which the request came, for the audit.

        Returns:
            The newest state: cancelled, running in another process, or ended before.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: `reason` or `by` is not a text. Or `call` names no open call
                or several, or the run has ended. Then nothing was recorded.
            StoreError: The store failed.
        """

    def pause(
        self,
        run_id: str,
        *,
        reason: str | None = None,
        by: str | None = None,
        door: Door = PYTHON,
    ) -> Continuation:
        """Pause a run until `unpause`; idempotent.

        From the time when a worker sees the pause, it begins no call and no model turn.
        Calls and model turns in progress are completed. Then the run is `Suspended`,
        and `reasons` has the reason. Until `unpause`, `resume` and `sweep` begin
        nothing. Decisions, signals and deadlines are recorded, and count after it.

        The request is recorded first. A worker of another process sees it at its next
        commit, or before the run finishes. After a crash, a sweep or resume pauses the
        run. A pause of a paused run changes nothing, and the first reason stays.

        Args:
            run_id: Id of the run.
            reason: Why, for the record and for `Suspended.reasons`.
            by: Name of the operator, for the record.
            door: The way by which the request came, for the audit.

        Returns:
            The newest state: paused, or running in another process.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: The run has ended, or `reason` or `by` is not a text.
            StoreError: The store failed. Call again.
        """

    def unpause(
        self, run_id: str, *, by: str | None = None, door: Door = PYTHON
    ) -> Continuation:
        """End a pause, and the waits of all conditions (`suspend_when`) of a run.

        Nothing runs here: call `resume`, or let a sweep go on. After a crash, a sweep
        or resume ends the pause. A run that waits for no operator is not changed.

        Args:
            run_id: Id of the run.
            by: Name of the operator, for the record.
            door: The way by which the request came, for the audit.

        Returns:
            The newest state.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: The run has ended, or `by` is not a text.
            StoreError: The store failed. Call again.
        """

    def signals(self, run_id: str) -> list[UntakenSignal]:
        """Return the signals that no wait of a run has taken, the oldest first.

        They are kept for waits that open later. `drop_signals` drops them.

        Args:
            run_id: Id of the run.

        Returns:
            The signals, with their data.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            Corrupt: A stored object is damaged.
            StoreError: The store failed.
        """

    def drop_signals(
        self,
        run_id: str,
        *,
        name: str | None = None,
        reason: str | None = None,
        by: str | None = None,
        door: Door = PYTHON,
    ) -> int:
        """Drop the signals that no wait of a run has taken; idempotent.

        The request is recorded first. A signal that comes later is kept. A signal that
        an open wait takes at the same time may still end this wait. While a worker of
        another process has the run, it drops the signals.

        Args:
            run_id: Id of the run.
            name: The name of the signals; by default, all are dropped.
            reason: Why, for the record.
            by: Name of the operator, for the record.
            door: The way by which the request came, for the audit.

        Returns:
            How many signals were dropped.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: The run has ended, or an argument is not a text.
            StoreError: The store failed. Call again.
        """

    def grants(self, run_id: str) -> list[KeptGrant]:
        """Return the grants of a run that have not ended, the oldest first.

        A grant whose approval no worker has applied yet is among them, and so is one
        that is revoked and not taken in; see `KeptGrant`. The store's time counts. A
        condition on a secret argument is `{"const": "[secret]"}`.

        Args:
            run_id: Id of the run.

        Returns:
            The grants; none if the run has ended.

        Raises:
            InvalidId: `run_id` is invalid.
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            Corrupt: A stored object is damaged.
            FormatError: A stored object has a newer format.
            StoreError: The store failed.
        """

    def revoke(
        self,
        run_id: str,
        grant: str,
        *,
        by: str | None = None,
        reason: str | None = None,
        door: Door = PYTHON,
    ) -> None:
        """End a grant of a run; idempotent.

        The revocation counts for each worker that takes the run over after it. A worker
        that read the run before may still begin calls by the grant, until it releases
        its claim; `pause` or `cancel` stops it. After that, every call that the grant
        approved and that has not begun waits for a person.

        Args:
            run_id: Id of the run.
            grant: Id of the grant, as `grants` lists it.
            by: Person or program that revokes, for the record.
            reason: Why, for the record.
            door: The way by which the revocation came, for the audit.

        Raises:
            InvalidId: `run_id` is invalid.
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: The run has no such grant, or an argument is not a text.
            Corrupt: A stored object is damaged.
            FormatError: A stored object has a newer format.
            StoreError: The store failed. Call again.
        """

    def fork(
        self,
        run: str,
        version: int | None = None,
        *,
        run_id: str | None = None,
        decisions: Mapping[str, Verdict] | None = None,
        results: Mapping[str, Any] | None = None,
        messages: Mapping[str, str | Sequence[Mapping[str, Any]]] | None = None,
        by: str | Identity | None = None,
        door: Door = PYTHON,
    ) -> str:
        """Start a new run from a version of a run, with other decisions or results.

        The fork is suspended: `resume` and `sweep` continue it. The other run may have
        ended, and is not changed. Nothing that it did is repeated unasked:

        - Open waits, and calls that were approved and not started, wait anew.
        - A call that was started, in this version or later, waits as `unknown`.
        - New calls of tools that were approved or started after this version need an
          approval. `read_only` tools run again without one.
        - No grant is copied, and the inbox is empty. A fork of a thread has no key.

        A repeat with the same arguments and `run_id` returns the same run, also after a
        crash: it records the decisions that are missing.

        Args:
            run: Id of the run to fork.
            version: Number of the version to go on from. Default: the newest.
            run_id: Id of the fork. Default: a new one.
            decisions: Verdicts by the ids of open waits of the version.
            results: Results by the ids of open calls, whose tools do not run.
            messages: By the ids of frames: a text that is added for the user, or a list
                of chat messages that replaces the transcript.
            by: The requester of the fork: a name or an `Identity`.
            door: The way by which the decisions came, for the audit.

        Returns:
            The id of the fork.

        Raises:
            InvalidId, InvalidInput, DecisionRefused: An argument does not fit the
                version, or nothing is left to do in it. Nothing was written.
            RunNotFound, RunErased: The store has no such run or version.
            RunExists: The id of the fork belongs to another run.
            AlreadyDecided: A repeat found another decision than its own.
            ClockOff, Corrupt, FormatError, StoreError: As for `start`.
        """

    def plan_rewind(
        self, run: str, version: int, *, newest: int | None = None
    ) -> RewindPlan:
        """Return what a rewind would end, and what it would not undo. Read only.

        Pass the `digest` of the plan as `shown=` to `rewind`: then a run that another
        process advanced meanwhile is not rewound.

        Args:
            run: Id of the run.
            version: Number of the version to go on from.
            newest: Number of the version to rewind. Default: the newest one. With an
                older one, the plan tells of a rewind that was made.

        Returns:
            The plan, with the reason if `rewind` would refuse it.

        Raises:
            InvalidId, InvalidInput: An argument is invalid.
            RunNotFound, RunErased: The store has no such run or version.
            Corrupt, FormatError, StoreError: A version cannot be read.
        """

    def rewind(
        self,
        run: str,
        version: int,
        *,
        shown: str | None = None,
        by: str | Identity | None = None,
        door: Door = PYTHON,
    ) -> Rewound:
        """Let a live run go on from one of its earlier versions.

        The run keeps its id. Its agents, calls, messages and waits are those of the
        version; its inbox, usage and numbers never go back. Nothing runs here.

        - Effects are not undone, and messages are not read again. The result lists the
          calls that were started and the messages that were read since the version.
        - Each open wait ends, and each wait of the version comes back under a new id.
        - As in a fork, a person is asked before calls that were approved or started
          since the version run again. `read_only` tools run again unasked.
        - Grants that were given since the version end. A pause stays.

        Fork a run that has ended. After a crash, `resume`, a sweep or a second call
        finishes the rewind, once the claim of the dead process has ended.

        Args:
            run: Id of the run.
            version: Number of the version to go on from.
            shown: The `digest` of the plan that was shown to a person, from
                `plan_rewind`. Default: nothing is compared.
            by: The person who rewinds: a name or an `Identity`. The audit has it if an
                open wait ends.
            door: The way by which the request came, for the audit.

        Returns:
            The number of the new version, and what is not undone.

        Raises:
            InvalidId, InvalidInput: An argument is invalid, the run has ended, or it
                cannot go on from this version. Nothing was written.
            RunNotFound, RunErased: The store has no such run or version.
            RunBusy: A worker holds the run. Call again after `until`.
            StaleRun: Another process advanced the run at the same time. Or the run
                moved on, or something was decided for it, since the plan that was
                shown. Nothing was written.
            ClockOff, Corrupt, FormatError, StoreError: As for `resume`.
        """

    def erase(self, run_id: str) -> ErasedRun:
        """Delete everything that the store holds of a run, except a tombstone.

        Decisions that a `Retention(audit=...)` kept of an erased run are deleted, too.

        The tombstone keeps the run's id from being used again, and contains no personal
        data. A worker, sender or decider that was frozen cannot bring the run back:
        later sweeps delete what it writes. If the process dies in between, a sweep or a
        second call completes the deletion.

        Needs neither agents nor a model. The store must allow this process to delete
        `runs/*`. A bucket that keeps versions of objects keeps the deleted ones.

        Args:
            run_id: Id of the run.

        Returns:
            The numbers of deleted objects; zeros if the call is repeated.

        Raises:
            RunNotFound: The run does not exist.
            RunBusy: A worker holds the run. Call again after `until`, or cancel the run
                first.
            StaleRun: Other processes advanced the run at the same time. Call again.
            NewerFormat: A newer release wrote the run.
            StoreError: The store failed. Call again, or let a sweep complete it.
        """

    def prune(
        self,
        *,
        older_than: timedelta | None = None,
        retention: Retention | None = None,
        dry_run: bool = False,
    ) -> PruneResult:
        """Erase all runs that ended a long time ago.

        The index of ended runs tells which. A run that is still live is never erased,
        and an error of one run does not stop the others.

        Args:
            older_than: Erase runs that ended at least this long ago: at most 100 years.
            retention: Erase the runs that it keeps no longer, however many they are.
                Default: the retention of this runner.
            dry_run: With True, erase nothing, and return only the ids.

        Returns:
            The ids of the runs, the receipts of those that were erased, and the errors
            by run id.

        Raises:
            InvalidInput: `older_than` is not a positive timedelta, or is too long; both
                are given; or neither, and the runner has no retention.
            StoreError: The store failed to list the runs.
        """

    def copy_to(
        self,
        target: str | PathLike[str] | Store,
        *,
        run_ids: Sequence[str] | None = None,
    ) -> CopyResult:
        """Copy runs with all their objects to another store.

        Until the copy of a run is complete, the target does not show the run: methods
        raise `RunBusy`, and lists leave it out. Nothing is overwritten, and nothing is
        written to this store. After a crash, a repeated copy goes on. A later copy
        brings the runs up to date that went on here. An error of one run does not stop
        the others:

        - `RunBusy`: a worker holds the run. Stop the worker, or copy again later.
        - `RunExists`: the run went on in the target by itself, or is another one.
        - `RunErased`: the run is erased in one of the stores only.
        - `Corrupt`, `FormatError`: an object of the run is damaged, or is of a newer
          release.

        Both stores have the runs afterwards. **Let only one of them go on**: each would
        run an approved call.

        Needs neither agents nor a model.

        Args:
            target: The store to copy to: a URL, a `Path` of a folder or a store object.
            run_ids: The runs to copy. Default: all runs, with the published events.

        Returns:
            The copied runs, the runs that went on meanwhile, and the errors.

        Raises:
            InvalidInput: The target is not a store, or is this store.
            InvalidId: A run id is invalid.
            StoreUnsafe: The target does not honour put-if-absent.
            StoreError: A store failed to list its keys. Call again.
        """
