"""A harness for tests of one agent: its run, its clock and its store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime, timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NoReturn,
    Protocol,
    TypeVar,
    cast,
    overload,
)

from continuations import (
    Agent,
    Answer,
    Approve,
    Deny,
    Fail,
    Failed,
    Finished,
    Runner,
    Suspended,
)
from continuations.errors import RunNotFound
from continuations.testing.crash_point import CrashPoint
from continuations.testing.expectation import fail
from continuations.testing.fixed_ports import (
    FrozenClock,
    NumberedIds,
    memory_store,
    period_of,
)
from continuations.testing.transcript_checks import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from continuations import Outcome, Wait
    from continuations.results import Decision, Publication, SweepResult, Verdict, Vote
    from continuations_storage import Store

    class _Bound(Protocol):
        """A workflow with its arguments: `NAME.bind(...)`."""

        @property
        def arguments_json(self) -> str: ...

    Input: TypeAlias = str | Sequence[Mapping[str, Any]] | Mapping[str, Any] | _Bound


_DECIDER = "tester"


class WaitDecider(ABC):
    """Finds the open waits of one run by tool or kind, decides and checks them.

    Attributes:
        runner: The runner.
    """

    runner: Runner[Any]

    @property
    @abstractmethod
    def run_id(self) -> str:
        """Id of the run."""

    @property
    def waits(self) -> tuple[Wait, ...]:
        """The open waits of the run, the oldest first."""
        return self.runner.look(self.run_id).waits

    def wait(self, tool: str | None = None, *, kind: str | None = None) -> Wait:
        """Return the open wait of a tool and a kind.

        Args:
            tool: Name of the tool. `None`: any tool.
            kind: Kind of the wait, for example `approval`. `None`: any kind.

        Returns:
            The wait.

        Raises:
            AssertionError: There is no such wait, or there are several.
        """
        __tracebackhide__ = True
        return select(self.waits, tool, kind)

    def decide(
        self, verdict: Verdict, tool: str | None = None, *, kind: str | None = None
    ) -> Decision | Vote:
        """Decide a wait; the run continues at the next `resume` or `sweep`.

        Args:
            verdict: `Approve`, `Deny`, `Answer` or `Fail`.
            tool: Name of the tool. `None`: any tool.
            kind: Kind of the wait. `None`: any kind.

        Returns:
            The recorded decision or vote. Errors are those of `Runner.decide`.

        Raises:
            AssertionError: There is no such wait, or there are several.
        """
        __tracebackhide__ = True
        return self.runner.decide(self.wait(tool, kind=kind).id, verdict)

    def approve(
        self,
        tool: str | None = None,
        *,
        kind: str | None = None,
        by: str = _DECIDER,
        arguments: Mapping[str, Any] | None = None,
    ) -> Decision | Vote:
        """Approve a call that waits.

        Args:
            tool: Name of the tool. `None`: any tool.
            kind: Kind of the wait. `None`: any kind.
            by: The person who approves.
            arguments: Arguments instead of those of the wait. `None`: no edit.

        Returns:
            The recorded decision or vote. Errors are those of `Runner.decide`.

        Raises:
            AssertionError: There is no such wait, or there are several.
        """
        __tracebackhide__ = True
        return self.decide(Approve(by=by, arguments=arguments), tool, kind=kind)

    def deny(
        self,
        tool: str | None = None,
        *,
        kind: str | None = None,
        by: str = _DECIDER,
        reason: str | None = None,
    ) -> Decision | Vote:
        """Deny a call that waits.

        Args:
            tool: Name of the tool. `None`: any tool.
            kind: Kind of the wait. `None`: any kind.
            by: The person who denies.
            reason: Why. The model reads it.

        Returns:
            The recorded decision or vote. Errors are those of `Runner.decide`.

        Raises:
            AssertionError: There is no such wait, or there are several.
        """
        __tracebackhide__ = True
        return self.decide(Deny(by=by, reason=reason), tool, kind=kind)

    def answer(
        self,
        value: Any,
        tool: str | None = None,
        *,
        kind: str | None = None,
        by: str = _DECIDER,
    ) -> Decision | Vote:
        """Give a wait its value: an answer, the data of an event, a job's result.

        Args:
            value: The value.
            tool: Name of the tool. `None`: any tool.
            kind: Kind of the wait. `None`: any kind.
            by: The person or program that answers.

        Returns:
            The recorded decision or vote. Errors are those of `Runner.decide`.

        Raises:
            AssertionError: There is no such wait, or there are several.
        """
        __tracebackhide__ = True
        return self.decide(Answer(value, by=by), tool, kind=kind)

    def fail(
        self,
        error: str,
        tool: str | None = None,
        *,
        kind: str | None = None,
        by: str = _DECIDER,
    ) -> Decision | Vote:
        """Say that an awaited event does not come, or that a job failed.

        Args:
            error: The reason. The model reads it.
            tool: Name of the tool. `None`: any tool.
            kind: Kind of the wait. `None`: any kind.
            by: The person or program that says so.

        Returns:
            The recorded decision or vote. Errors are those of `Runner.decide`.

        Raises:
            AssertionError: There is no such wait, or there are several.
        """
        __tracebackhide__ = True
        return self.decide(Fail(error, by=by), tool, kind=kind)

    def assert_waits(self, *tools: str) -> None:
        """Check for which tools the run waits.

        Args:
            tools: Names of the tools, one for each open wait, in any order. Without a
                name, no wait may be open.

        Raises:
            AssertionError: The run waits for other tools.
        """
        __tracebackhide__ = True
        waits = self.waits
        if sorted(wait.tool for wait in waits) != sorted(tools):
            expected = ", ".join(tools) or "none"
            shown = describe(waits)
            fail(
                f"The run has other open waits, expected: {expected}. It has:\n{shown}"
            )


def select(waits: Sequence[Wait], tool: str | None, kind: str | None) -> Wait:
    """Return the one wait of a tool and a kind; raises `AssertionError`."""
    __tracebackhide__ = True
    found = [
        wait
        for wait in waits
        if tool in (None, wait.tool) and kind in (None, wait.kind)
    ]
    if len(found) != 1:
        wanted = " ".join(filter(None, ["wait", kind and f"of kind {kind}"]))
        wanted += f" of {tool}" if tool else ""
        advice = (
            "Pass tool= or kind=, or decide by id: runner.decide(wait.id, …)"
            if found
            else "Run the agent until it waits, or name another tool or kind"
        )
        fail(
            f"{len(found)} open waits fit, expected one {wanted}. {advice}. Open "
            f"waits:\n{describe(waits)}"
        )
    return found[0]


def describe(waits: Sequence[Wait]) -> str:
    """Return one line for each wait."""
    return "\n".join(f"  {_line(wait)}" for wait in waits) or "  (no open waits)"


def _line(wait: Wait) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in wait.arguments.items())
    parts = [f"{wait.kind} of {wait.tool}({arguments})"]
    if wait.question:
        parts.append(repr(wait.question))
    if wait.event:
        key = "" if wait.event_key is None else f", key {wait.event_key!r}"
        parts.append(f"event {wait.event!r}{key}")
    if wait.deadline:
        parts.append(f"until {wait.deadline.isoformat()}")
    return ", ".join(parts)


Output = TypeVar("Output")
_DEFAULT_LEASE = 30.0
# A claim has ended when this time has passed after it.
_AFTER_CLAIM = 1.0
_MILLISECOND = timedelta(milliseconds=1)


class AgentHarness(WaitDecider, Generic[Output]):
    """A run of an agent in a test, with a frozen clock, numbered ids and a store.

    A failed check raises an `AssertionError` that names the actual state. A harness
    works on one run at a time; `runner` has all other methods.

    Args:
        agent: The agent, or a function that returns it. `restart` calls the function
            again, so that nothing in memory survives.
        clock: The clock. Default: a new one.
        store: The store. It must tell the time of `clock`, as `memory_store` does.
            Default: a new store in memory.
        ids: The source of ids. Default: a new one.
        context: Your object for the tools, `ctx.context`.
        replays: Whether each `resume` first replays the workflows of the run in other
            processes, as `assert_replays` does. It needs a second for each step.
        options: Further options of the `Runner`. `model_retry_time` is 0 by default, so
            that a model that fails is not asked again before the next attempt is due.

    Attributes:
        clock: The clock.
        store: The store.
        runner: The runner. `restart` replaces it.
    """

    # Two forms, because a type checker takes a workflow for a function too.
    @overload
    def __init__(
        self,
        agent: Agent[Output],
        *,
        clock: FrozenClock | None = None,
        store: Store | None = None,
        ids: NumberedIds | None = None,
        context: Any = None,
        replays: bool = False,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self,
        agent: Callable[[], Agent[Output]],
        *,
        clock: FrozenClock | None = None,
        store: Store | None = None,
        ids: NumberedIds | None = None,
        context: Any = None,
        replays: bool = False,
        **options: Any,
    ) -> None: ...

    def __init__(
        self,
        agent: Agent[Output] | Callable[[], Agent[Output]],
        *,
        clock: FrozenClock | None = None,
        store: Store | None = None,
        ids: NumberedIds | None = None,
        context: Any = None,
        replays: bool = False,
        **options: Any,
    ) -> None:
        self._agent = agent
        self.clock = clock or FrozenClock()
        self.store: Store = memory_store(self.clock) if store is None else store
        self._ids = ids or NumberedIds()
        self._context = context
        self._replays = replays
        # By the id of a run, the last version that was replayed.
        self._replayed: dict[str, int] = {}
        self._options: dict[str, Any] = {"model_retry_time": 0, **options}
        self._run_ids: list[str] = []  # the last one is the harness's run
        self.runner: Runner[Output]
        self.restart()

    @property
    def run_id(self) -> str:
        """Id of the run.

        Raises:
            AssertionError: No run was started.
        """
        __tracebackhide__ = True
        if not self._run_ids:
            fail("The harness has no run. Call run_to_pause(input) or start(input).")
        return self._run_ids[-1]

    def restart(self, *, store: Store | None = None) -> None:
        """Go on as a new process: with a new runner, on the same store.

        Args:
            store: A store around the harness's own, for example one that fails.
                Default: the harness's own.
        """
        self.runner = Runner(
            self._make_agent(),
            store=self.store if store is None else store,
            clock=self.clock,
            ids=self._ids,
            **self._options,
        )

    def start(
        self,
        input: Input,  # noqa: A002 - as in Runner.start
        *,
        run_id: str = "run-1",
        **options: Any,
    ) -> Outcome[Output]:
        """Start a run and work on it until it ends or must wait.

        Args:
            input: The first user message as text, or a list of chat messages.
            run_id: Id of the run. The harness works on this run from now on.
            options: Further options of `Runner.start`, for example `budget=`.

        Returns:
            `Finished`, `Suspended` or `Failed`. Errors are those of `Runner.start`.
        """
        self._run_ids = [*(each for each in self._run_ids if each != run_id), run_id]
        given: Any = input
        return self.runner.start(
            given, run_id=run_id, **{"context": self._context, **options}
        )

    def resume(self) -> Outcome[Output]:
        """Continue the run.

        Returns:
            `Finished`, `Suspended` or `Failed`. Errors are those of `Runner.resume`.

        Raises:
            AssertionError: With `replays=True`, a replay in another process differs.
        """
        __tracebackhide__ = True
        if self._replays:
            self._check_replays(self._replayed.get(self.run_id, 0) + 1, (0, 1))
        return self.runner.resume(self.run_id, context=self._context)

    def run_to_pause(
        self,
        input: Input | None = None,  # noqa: A002 - as in Runner.start
    ) -> Suspended:
        """Start or continue the run, and check that it waits.

        Args:
            input: The input of a new run. `None`: the run is continued.

        Returns:
            The outcome.

        Raises:
            AssertionError: The run has finished or failed.
        """
        __tracebackhide__ = True
        outcome = self._work(input)
        if not isinstance(outcome, Suspended):
            self._fail_outcome("is suspended", outcome)
        return outcome

    def run_to_end(
        self,
        input: Input | None = None,  # noqa: A002 - as in Runner.start
    ) -> Finished[Output]:
        """Start or continue the run, and check that it finishes.

        Args:
            input: The input of a new run. `None`: the run is continued.

        Returns:
            The outcome.

        Raises:
            AssertionError: The run waits or has failed.
        """
        __tracebackhide__ = True
        outcome = self._work(input)
        if not isinstance(outcome, Finished):
            self._fail_outcome("has finished", outcome)
        return outcome

    def run_to_failure(
        self,
        input: Input | None = None,  # noqa: A002 - as in Runner.start
    ) -> Failed:
        """Start or continue the run, and check that it fails.

        Args:
            input: The input of a new run. `None`: the run is continued.

        Returns:
            The outcome.

        Raises:
            AssertionError: The run waits or has finished.
        """
        __tracebackhide__ = True
        outcome = self._work(input)
        if not isinstance(outcome, Failed):
            self._fail_outcome("has failed", outcome)
        return outcome

    def publish(
        self,
        name: str,
        data: Any = None,
        *,
        key: str | None = None,
        id: str | None = None,  # noqa: A002 - as in Runner.publish
    ) -> Publication:
        """Publish an event; the run continues at the next `resume` or `sweep`.

        Args:
            name: Name of the event.
            data: Any JSON value.
            key: Key of the event. `None`: no key.
            id: Your id of the event. `None`: each call publishes an event.

        Returns:
            The result. Errors are those of `Runner.publish`.
        """
        return self.runner.publish(name, data, key=key, by="tester", id=id)

    def sweep(self) -> SweepResult:
        """Apply deadlines and timers that are due, and resume the runs that can go on.

        Returns:
            The result. An error of a run is raised.
        """
        result = self.runner.sweep(context=self._context)
        for error in result.errors.values():
            raise error
        return result

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        """Let time pass: sweep at each deadline on the way, and at the end.

        So a timer of one day that the run begins again after each end fires three
        times in three days. A deadline takes effect a millisecond after its time. For
        each deadline, the clock moves this millisecond more.

        Args:
            days: Days to add.
            hours: Hours to add.
            minutes: Minutes to add.
            seconds: Seconds to add.

        Raises:
            InvalidInput: The sum is negative.
        """
        end = self.clock.now() + period_of(
            days=days, hours=hours, minutes=minutes, seconds=seconds
        )
        while (deadline := self._next_deadline()) is not None and deadline <= end:
            self.clock.advance_to(deadline + _MILLISECOND)
            end += _MILLISECOND
            self.sweep()
        self.clock.advance_to(end)
        self.sweep()

    def crash_at(
        self, number: int, moment: Literal["before", "after"] = "before"
    ) -> AbstractContextManager[None]:
        """Let the process die at a storage operation of a `with` block.

        The block ends at the crash. After the block the harness has a new runner. Call
        `recover` to let a sweep find the run.

        Args:
            number: Position of the operation in the block, from 1.
            moment: `before` or `after` the effect of the operation.

        Returns:
            The context manager of the block.
        """
        return CrashPoint(number, moment).during(self)

    def recover(self) -> None:
        """Wait until the claim of a dead worker has ended, and sweep.

        A run that was not stored before the crash must be started again.
        """
        lease = float(self._options.get("lease", _DEFAULT_LEASE))
        self.advance(seconds=lease + _AFTER_CLAIM)

    def transcript(self) -> Transcript:
        """Return all messages of the run and of its sub-agents.

        Every version of the run is read.

        Returns:
            The transcript.
        """
        newest = self.runner.look(self.run_id)
        earlier = range(1, newest.version)
        return Transcript(
            [*(self.runner.look(self.run_id, version=n) for n in earlier), newest]
        )

    def assert_replays(self, *, hash_seeds: Sequence[int] = (0, 1)) -> None:
        """Check that the workflows of the run make the same calls in other processes.

        A new process for each hash seed replays the history of every version. So code
        that follows the order of a set of texts is found.

        Args:
            hash_seeds: The hash seeds of the processes. Default: two of them.

        Raises:
            AssertionError: The code differs from the history of a version.
            InvalidInput: Another process cannot import the agent.
        """
        __tracebackhide__ = True
        self._check_replays(1, hash_seeds)

    def _check_replays(self, first: int, hash_seeds: Sequence[int]) -> None:
        """Replay the versions from one on; raise `AssertionError` if one differs."""
        __tracebackhide__ = True
        from continuations.testing import replays  # noqa: PLC0415 - only a few tests replay

        newest = self.runner.look(self.run_id)
        looks = (
            self.runner.look(self.run_id, version=n)
            for n in range(first, newest.version + 1)
        )
        versions = {
            f"{self.run_id}-version-{each.version}": each.to_bytes()
            for each in looks
            if each.status in ("running", "suspended")
        }
        agent = replays.ImportedName.of(self._agent)
        renamed = self._options.get("renamed")
        for seed in hash_seeds:
            found = replays.find_differences(agent, versions, seed, renamed)
            if found:
                text = "\n".join(found)
                fail(f"With the hash seed {seed}, run {self.run_id} differs:\n{text}")
        self._replayed[self.run_id] = newest.version

    def _make_agent(self) -> Agent[Output]:
        given: Any = self._agent
        if isinstance(given, Agent):
            return cast("Agent[Output]", given)
        return cast("Agent[Output]", given() if callable(given) else given)

    def _work(self, input: Input | None) -> Outcome[Output]:  # noqa: A002
        return self.resume() if input is None else self.start(input)

    def _fail_outcome(self, expected: str, outcome: Outcome[Any]) -> NoReturn:
        __tracebackhide__ = True
        if isinstance(outcome, Finished):
            found = f"finished with output {outcome.output!r}"
        elif isinstance(outcome, Failed):
            found = f"failed: {outcome.error.message}"
        else:
            waits = describe(outcome.waits)
            found = f"is suspended and has these open waits:\n{waits}"
        fail(f"Run {outcome.run_id} {found}\nThe test expected that it {expected}.")

    def _next_deadline(self) -> datetime | None:
        now = self.clock.now()
        deadlines = [
            wait.deadline
            for run_id in self._run_ids
            for wait in self._look(run_id)
            if wait.deadline is not None and wait.deadline >= now
        ]
        return min(deadlines, default=None)

    def _look(self, run_id: str) -> tuple[Wait, ...]:
        try:
            return self.runner.look(run_id).waits
        except RunNotFound:  # a crash before the run was stored
            return ()


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
