"""One replay of a workflow: its code runs on a loop of its own, fed by the history.

A drive lives as long as its worker. It first takes the history, entry by entry, and
compares each call of the code with the recorded one. Then each step gives it new
outcomes and the time, and returns what the code did.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import TYPE_CHECKING, Any, cast

from continuations import errors
from continuations.authoring.errors import ArgumentsInvalid, ResultNotSerializable
from continuations.authoring.workflow.flow_loop import FlowLoop
from continuations.authoring.workflow.workflow import Flow, Restart, in_one_line
from continuations.core import jsontext
from continuations.core.messages import Message, ToolCallRequest
from continuations.core.rows.calls import Errored, Returned
from continuations.core.rows.wait_rules import WAIT_RULES
from continuations.core.rows.workflow_history import (
    BY_WORKFLOW,
    MANY_ENTRIES,
    MAX_ENTRIES,
    CommandsEntry,
    OutcomeEntry,
    PatchEntry,
    StartEntry,
    TimeEntry,
    entry_of,
)
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.authoring.tool_waits import ToolWait
    from continuations.authoring.workflow.workflow import Workflow
    from continuations.core.rows.workflow_history import Entry

_log = logging.getLogger("continuations")
_SLOW_SECONDS = 1.0
# A timer after the year 9000 never fires.
_MAX_TIME = 221_845_392_000_000
_MAX_SHOWN_ERRORS = 5
_ERRORS: dict[str, type[errors.CallError]] = {
    "failed": errors.CallFailed,
    "denied": errors.CallDenied,
    "expired": errors.CallExpired,
    "cancelled": errors.CallCancelled,
}


class FlowCall(Coroutine[Any, Any, Any]):
    """One call of a workflow. It begins when it is first awaited.

    Attributes:
        tool: The name under which the history knows what is called.
        arguments: The arguments as the code gave them, as canonical JSON.
        value_of: Makes the value from an outcome; raises `ValueError`.
        asked: The wait of a call with which the workflow itself waits, or `None`.
        call_id: The id, once the call is in the history.
        tasks: The names of the tasks that made it, from the outermost one. Empty for a
            call of the function itself.
    """

    __slots__ = (
        *("tool", "arguments", "value_of", "asked", "call_id", "tasks", "future"),
        *("_drive", "_number", "_steps", "_is_given_up"),
    )

    def __init__(
        self,
        drive: FlowDrive,
        tool: str,
        arguments: str,
        value_of: Callable[[Any], Any],
        asked: ToolWait[Any] | None = None,
    ) -> None:
        self.tool = tool
        self.arguments = arguments
        self.value_of = value_of
        self.asked = asked
        self.call_id = ""
        self.tasks: tuple[str, ...] = ()
        self.future: asyncio.Future[Any] | None = None
        self._drive = drive
        self._number = drive.loop.next_number()
        self._steps: Generator[Any, Any, Any] | None = None
        self._is_given_up = False

    def __hash__(self) -> int:
        return self._number

    def __repr__(self) -> str:
        return _shown(self.tool)

    def __del__(self) -> None:
        """Tell the developer of a call that the code forgot to await."""
        is_lost = self.future is None and not self._is_given_up
        if is_lost and not self._drive.loop.is_closed():
            _log.warning(
                "workflow %s: %s was never awaited, so it was never made. Write: "
                "await %s.",
                self._drive.name,
                *(self, "flow.call(...)" if self.asked is None else self),
            )

    @property
    def is_cancelled(self) -> bool:
        """Whether the code cancelled the call."""
        return self.future is not None and self.future.cancelled()

    def __await__(self) -> Generator[Any, Any, Any]:
        if self.future is not None:
            raise RuntimeError(
                f"await failed: {self} was awaited before. Make a task of it first: "
                "task = asyncio.create_task(flow.call(...)), and await the task."
            )
        self.future = self._drive.begin(self)
        return self.future.__await__()

    def send(self, value: Any) -> Any:
        """Go on, as a coroutine does."""
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception where the call waits, as a coroutine does."""
        if self._steps is None:  # a task that is cancelled before it began
            self._is_given_up = True
            raise error[0]
        return self._steps.throw(*error)

    def close(self) -> None:
        """End the call, as a coroutine does."""
        if self._steps is not None:
            self._steps.close()


class HistoryDiffers(Exception):
    """The code of this process does not do what the history says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStep:
    """The calls and the end that the code made in one step.

    Attributes:
        entries: The new entries of the history.
        tasks: The names of the tasks of each new call.
        cancelled: The ids of the open calls that the code cancelled.
        cancelled_new: The places of the new calls of this step that it cancelled.
        alarm: When the earliest timer is due, in milliseconds, or `None`.
        end: The end of the function, or `None`.
        restart: The arguments with which the code begins anew, and the time of the
            history, or `None`.
    """

    entries: tuple[Entry, ...]
    tasks: tuple[tuple[str, ...], ...] = ()
    cancelled: tuple[str, ...] = ()
    cancelled_new: tuple[int, ...] = ()
    alarm: int | None = None
    end: Returned | Errored | None = None
    restart: tuple[str, int] | None = None


class FlowDrive:
    """Runs the code of one frame of a workflow.

    Attributes:
        workflow: The workflow.
        loop: The loop on which its code runs.
        seed: The seed of its randomness.
        entry_count: How many entries of the history the code has seen.
        log_id: The id of the log of the history.
    """

    def __init__(
        self,
        workflow: Workflow[Any, Any],
        log_id: int,
        newest_name: Callable[[str], str] = str,
    ) -> None:
        self.workflow = workflow
        self.loop = FlowLoop()
        self.loop.coroutine_of = self.make_wait
        self.seed = ""
        self.log_id = log_id
        self.entry_count = 0
        self._newest_name = newest_name
        self._flow = Flow(self)
        self._main: asyncio.Task[Any] | None = None
        # The calls that the history does not have yet, and those without an outcome.
        self._made: list[FlowCall] = []
        self._unbound: list[FlowCall] = []
        self._open: dict[str, FlowCall] = {}
        self._recorded_patches: frozenset[str] = frozenset()
        self._patches: dict[str, bool] = {}
        self._new_patches: list[str] = []
        self._is_replaying = False
        self._recorded_calls: frozenset[tuple[str, str]] = frozenset()
        self._has_awaited = False
        self._is_ending = False
        self._has_ended = False
        self._has_warned = False
        self._restart: str | None = None
        self._end: Returned | Errored | None = None

    @property
    def name(self) -> str:
        """The name of the workflow."""
        return self.workflow.name

    @property
    def now(self) -> int:
        """The time of the history, in milliseconds."""
        return self.loop.now

    # Replay ------------------------------------------------------------------------

    def replay(self, entries: Sequence[Entry]) -> None:
        """Give the history to the code; raises `HistoryDiffers`."""
        self._recorded_patches = frozenset(
            each.name for each in entries if isinstance(each, PatchEntry)
        )
        self._recorded_calls = frozenset(
            (self._newest_name(call.tool), call.arguments)
            for each in entries
            if isinstance(each, CommandsEntry)
            for call in each.calls
        )
        last = len(entries) - 1
        while isinstance(entries[last], PatchEntry):
            last -= 1
        with self.loop.running():
            for number, entry in enumerate(entries):
                self._is_replaying = number < last
                self._take(entry)
        self._is_replaying = False
        self.entry_count = len(entries)
        self._end_if_hopeless()

    def _take(self, entry: Entry) -> None:
        match entry:
            case OutcomeEntry():
                if self._made:
                    self._check_no_other_call()
                self._deliver(entry)
            case CommandsEntry(calls):
                self._compare(calls)
            case StartEntry():
                self._start(entry)
            case TimeEntry(at):
                self._check_no_other_call()
                self._advance(at)
            case PatchEntry():
                pass

    def check_start(self, entry: Entry) -> None:
        """Raise `HistoryDiffers` if the arguments of a start do not fit the code."""
        assert isinstance(entry, StartEntry)  # noqa: S101 - the invariants say so
        self._called_with(entry.arguments).close()

    def _called_with(self, arguments: str) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of the function; raises `HistoryDiffers`."""
        try:
            return self.workflow.coroutine(self._flow, arguments)
        except ArgumentsInvalid as error:
            raise HistoryDiffers(
                f"its arguments do not fit: {in_one_line(error)}; a new "
                "parameter needs a default"
            ) from None

    def _start(self, entry: StartEntry) -> None:
        self.seed = entry.seed
        self.loop.set_time(entry.at)
        coro = self._called_with(entry.arguments)
        context = contextvars.Context()
        self._main = self.loop.create_task(coro, context=context)
        self._run()

    def _compare(self, calls: Sequence[ToolCallRequest]) -> None:
        self._forget_cancelled()
        for number, recorded in enumerate(calls):
            if number >= len(self._made):
                raise HistoryDiffers(
                    f"the history has {_shown(recorded.tool)} where the code makes no "
                    f"call{self._raised}"
                )
            made = self._made[number]
            if not self._is_same_tool(recorded.tool, made.tool):
                raise HistoryDiffers(
                    f"the history has {_shown(recorded.tool)} where the code has {made}"
                )
            if recorded.arguments != made.arguments:
                names = ", ".join(_other_arguments(recorded.arguments, made.arguments))
                raise HistoryDiffers(
                    f"the code has {made} with other arguments than the history "
                    f"({names})"
                )
            self._bind(made, recorded.tool_call_id)
        if len(self._made) > len(calls):
            raise _unrecorded(self._made[len(calls)])
        self._made.clear()

    def _forget_cancelled(self) -> None:
        """Leave out the calls that the code cancelled before they could begin."""
        if self._made:
            self._made = [call for call in self._made if not call.is_cancelled]

    def _is_same_tool(self, recorded: str, made: str) -> bool:
        if recorded == made:
            return True
        return self._newest_name(recorded) == self._newest_name(made)

    def _check_no_other_call(self) -> None:
        self._forget_cancelled()
        if self._made:
            raise _unrecorded(self._made[0])

    def check_at_end(self, *, ends: bool, waits: bool) -> None:
        """Raise `HistoryDiffers` unless the code stands where the history ends."""
        if not self._new_patches:
            self._check_no_other_call()
        if waits and self._has_ended and not self._new_patches:
            raise HistoryDiffers(f"the code ends where the history waits{self._raised}")
        if ends and not self._has_ended:
            raise HistoryDiffers("the code goes on where the history ends")

    @property
    def _raised(self) -> str:
        """The exception with which the function ended, as the end of a sentence."""
        if self._main is None or not self._main.done() or self._main.cancelled():
            return ""
        error = self._main.exception()
        return "" if error is None else f": it raised {_text_of(error).rstrip('.')}"

    @property
    def has_news(self) -> bool:
        """Whether the code asked for a patch that the history does not have."""
        return bool(self._new_patches)

    @property
    def alarm(self) -> int | None:
        """When the earliest timer is due, in milliseconds, or `None`."""
        due = None if self._has_ended else self.loop.next_timer
        return None if due is None or due > _MAX_TIME else due

    def close(self) -> None:
        """Close the code, because the worker stops."""
        self.loop.put_aside()

    # Steps -------------------------------------------------------------------------

    def step(
        self, outcomes: Sequence[OutcomeEntry], now: int, start: Message | None = None
    ) -> FlowStep:
        """Give outcomes and the time to the code, and return what it did.

        Args:
            outcomes: The outcomes of calls, in their order.
            now: The time, in milliseconds.
            start: The first entry of a history whose code never ran.
        """
        began = time.monotonic()
        entries: list[Entry] = []
        if start is not None:
            self._take(entry_of(start))
            self.entry_count += 1
        self._add_news(entries)
        for outcome in outcomes:
            fitting = self._fitting(outcome)
            entries.append(fitting)
            self._deliver(fitting)
            self._add_news(entries)
        due = self.loop.next_timer
        if due is not None and due <= now:
            entries.append(TimeEntry(now))
            self._advance(now)
            self._add_news(entries)
        self.entry_count += len(entries)
        if time.monotonic() - began > _SLOW_SECONDS:
            _log.warning(
                "workflow %s: a step took %.1f s, in which nothing else ran. Move the "
                "work to a tool.",
                self.workflow.name,
                time.monotonic() - began,
            )
        self._end_if_hopeless()
        new = enumerate(self._unbound)
        restart = self._restart if self._has_ended else None
        return FlowStep(
            entries=tuple(entries),
            tasks=tuple(call.tasks for call in self._unbound),
            cancelled=tuple(key for key, c in self._open.items() if c.is_cancelled),
            cancelled_new=tuple(place for place, c in new if c.is_cancelled),
            alarm=self.alarm,
            end=self._end if self._has_ended and restart is None else None,
            restart=None if restart is None else (restart, self.loop.now),
        )

    def _end_if_hopeless(self) -> None:
        """End a function that nothing wakes any more, or whose history is too long."""
        if self._has_ended:
            return
        calls = (*self._open.values(), *self._unbound, *self._made)
        if self.entry_count >= MAX_ENTRIES:
            self._fail(
                "entries",
                f"its history has {MAX_ENTRIES:,} entries. Start a new run, with code "
                "that calls flow.restart(...) earlier.",
            )
        elif self.alarm is None and all(call.is_cancelled for call in calls):
            self._fail(
                "stuck",
                "its code awaits something that no call, wait or timer sets. Set the "
                "Event, Future or Queue in a task that awaits a call or a wait.",
            )
        elif self.entry_count >= MANY_ENTRIES and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "workflow %s: its history has %s entries, and at %s it fails. Begin it "
                "anew with flow.restart(...).",
                *(self.name, f"{self.entry_count:,}", f"{MAX_ENTRIES:,}"),
            )

    def _fail(self, code: str, text: str) -> None:
        self._end = Errored(code, text)
        self._restart = None
        self._is_ending = self._has_ended = True
        self._cancel_tasks()
        self._cancel_calls()

    def bind(self, messages: Sequence[Message]) -> None:
        """Give the new calls the ids that they have in the history."""
        for message in messages:
            entry = entry_of(message)
            if isinstance(entry, CommandsEntry):
                for request in entry.calls:
                    self._bind(self._unbound.pop(0), request.tool_call_id)

    def _bind(self, call: FlowCall, call_id: str) -> None:
        call.call_id = call_id
        self._open[call_id] = call

    def asked(self, call_id: str) -> ToolWait[Any] | None:
        """Return the wait of a call with which the workflow itself waits."""
        return self._open[call_id].asked

    def _add_news(self, entries: list[Entry]) -> None:
        entries += [PatchEntry(name) for name in self._new_patches]
        self._new_patches.clear()
        self._forget_cancelled()
        if self._made:
            entries.append(
                CommandsEntry(
                    tuple(
                        ToolCallRequest("", made.tool, made.arguments)
                        for made in self._made
                    )
                )
            )
            self._unbound += self._made
            self._made.clear()

    def _fitting(self, outcome: OutcomeEntry) -> OutcomeEntry:
        """Return an outcome, as failed if its value does not fit its type."""
        if outcome.end != "returned":
            return outcome
        try:
            self._open[outcome.call_id].value_of(outcome)
        except ValueError as error:
            text = f"the result does not fit its type: {in_one_line(error)}"
            return outcome._replace(end="failed", code="result", content=text)
        return outcome

    def _deliver(self, outcome: OutcomeEntry) -> None:
        self._advance(outcome.at)
        self._has_awaited = True
        call = self._open.pop(outcome.call_id)
        future = call.future
        assert future is not None  # noqa: S101 - a recorded call has begun
        if future.done():
            return
        if outcome.by == BY_WORKFLOW:
            raise HistoryDiffers(f"the history cancels {call}, and the code does not")
        if outcome.end == "returned":
            try:
                future.set_result(call.value_of(outcome))
            except ValueError:
                msg = f"the recorded result of {call} does not fit its type"
                raise HistoryDiffers(msg) from None
        else:
            future.set_exception(_error_of(call, outcome))
        self._run()

    def _advance(self, now: int) -> None:
        """Fire the timers up to a time."""
        due = self.loop.next_timer
        if due is None or due > now:
            self.loop.set_time(now)
            return
        self._has_awaited = True
        self.loop.advance(now)
        self._end_if_done()

    def _run(self) -> None:
        self.loop.run_ready()
        self._end_if_done()

    def _end_if_done(self) -> None:
        """Do what `asyncio.run` does at its end, once the function has ended."""
        main = self._main
        if main is None or not main.done() or self._has_ended:
            return
        if not self._is_ending:
            self._is_ending = True
            self._end = self._end_of(main)
            self._cancel_tasks()
        if self.loop.tasks:
            return  # their cleanup awaits something
        self._has_ended = True
        self._cancel_calls()

    def _cancel_tasks(self) -> None:
        for task in [*self.loop.tasks]:
            task.cancel()
        self.loop.create_task(self.loop.shutdown_asyncgens())
        self.loop.run_ready()

    def _cancel_calls(self) -> None:
        for call in (*self._open.values(), *self._unbound, *self._made):
            if call.future is not None and not call.future.done():
                call.future.cancel()
        self.loop.run_ready()

    def _end_of(self, main: asyncio.Task[Any]) -> Returned | Errored:
        if main.cancelled():
            return Errored("exception", "CancelledError: the workflow cancelled itself")
        error = main.exception()
        # A TaskGroup around flow.restart(...) raises it in a group.
        if error is None or not all(isinstance(e, Restart) for e in _leaves(error)):
            self._restart = None  # the code went on after it
        if error is None:
            try:
                return Returned(self.workflow.output_text(main.result()))
            except ResultNotSerializable as problem:
                return Errored("result", f"the result cannot be stored: {problem}.")
        is_call = all(isinstance(each, errors.CallError) for each in _leaves(error))
        return Errored("call" if is_call else "exception", _text_of(error))

    # What the code calls -------------------------------------------------------------

    def make_call(self, target: Any, args: Any, kwargs: Any) -> FlowCall:
        """Return a call; raises `InvalidInput`."""
        self._check_running("flow.call(...)")
        declared = self.workflow.declared(target)
        arguments = declared.arguments_json(args, kwargs)
        # A recorded call has been checked before.
        known = self._newest_name(declared.name), arguments
        if not self._is_replaying or known not in self._recorded_calls:
            declared.check_arguments(arguments)
        return FlowCall(self, declared.name, arguments, declared.value_of)

    def make_wait(self, awaited: Any) -> Any:
        """Return the coroutine of a wait such as `ask(...)`, or what was given."""
        from continuations.authoring.tool_waits import FlowWait, is_tool_wait  # noqa: PLC0415 - circular

        if not is_tool_wait(awaited):
            return awaited
        if isinstance(awaited, FlowWait):
            awaited.note_await()
        rules = WAIT_RULES[awaited.kind]
        self._check_running(f"{rules.function}(...)")
        if not rules.has_object:
            return self._sleep(awaited)
        given = {name: getattr(awaited, name) for name in ("question", "event", "key")}
        arguments = {name: value for name, value in given.items() if value is not None}
        return FlowCall(
            self,
            f".{rules.function}",  # no declared tool has such a name
            jsontext.canonical(arguments),
            lambda outcome: self.workflow.answer_of(awaited, outcome),
            awaited,
        )

    async def _sleep(self, awaited: ToolWait[Any]) -> str:
        if awaited.until is not None:
            now = self.loop.time()
            await asyncio.sleep(max(0.0, awaited.until.timestamp() - now))
        elif awaited.within is not None:
            await asyncio.sleep(awaited.within.total_seconds())
        return "The time has come."

    def begin(self, call: FlowCall) -> asyncio.Future[Any]:
        """Add a call to those that the history gets next."""
        self._check_running(call)
        self._made.append(call)
        task = self.loop.current_task
        if task is not None and task is not self._main:
            call.tasks = task.names
        return self.loop.create_future()

    def _check_running(self, what: object) -> None:
        if self.loop.takes_calls():
            return
        if self.loop.is_closed():
            raise RuntimeError(
                f"{what} failed: the worker has stopped or the workflow has ended, so "
                "it is not recorded. Await it before: after a stop, another process "
                "runs the code again from its start."
            )
        raise errors.InvalidInput(
            f"{what} failed: it ran outside the loop of the workflow. Await it in the "
            "function of the workflow or in a task, and not in a thread."
        )

    def is_patched(self, name: object) -> bool:
        """Return whether the code after a change runs."""
        if not isinstance(name, str) or not name:
            raise errors.InvalidInput(
                f"flow.patched(name) failed: the name is not a text or is empty, got "
                f'{name!r}. Write: flow.patched("charge-twice").'
            )
        self._check_running("flow.patched(...)")
        if name not in self._patches:
            is_recorded = name in self._recorded_patches
            self._patches[name] = is_recorded or not self._is_replaying
            if self._patches[name] and not is_recorded:
                self._new_patches.append(name)
        return self._patches[name]

    def ask_restart(self, args: Any, kwargs: Any) -> None:
        """Keep the arguments with which the code begins anew."""
        self._check_running("flow.restart(...)")
        arguments = self.workflow.arguments_json(args, kwargs)
        if not self._has_awaited:
            raise errors.InvalidInput(
                "flow.restart(...) failed: no call, wait or timer has ended before it, "
                "so it would begin anew without end. Await a call or sleep(...) first."
            )
        if asyncio.current_task() is not self._main:
            raise errors.InvalidInput(
                "flow.restart(...) failed: it was called in a task, and only the "
                "function itself begins anew. Return from the task, and call it in the "
                "function."
            )
        self._restart = arguments


def _unrecorded(made: FlowCall) -> HistoryDiffers:
    return HistoryDiffers(f"the code has {made} where the history has no call")


def _shown(tool: str) -> str:
    """Return a call as the code has it: the tool, or a wait such as `ask`."""
    return f"{tool[1:]}(...)" if tool.startswith(".") else f"a call of {tool}"


def _leaves(error: BaseException) -> list[BaseException]:
    """Return the exceptions of a group, as of a `TaskGroup`, or the one given."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    group = cast("BaseExceptionGroup[BaseException]", error)
    return [leaf for each in group.exceptions for leaf in _leaves(each)]


def _text_of(error: BaseException) -> str:
    """Return the class and the text of an exception of the code, or of its group."""
    leaves = _leaves(error)
    if leaves != [error]:
        return "; ".join(_text_of(each) for each in leaves[:_MAX_SHOWN_ERRORS])
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a class of the application
        text = ""
    return f"{type(error).__name__}: {text}".rstrip(": ")


def _error_of(call: FlowCall, outcome: OutcomeEntry) -> errors.CallError:
    facts = {"call": outcome.call_id, "tool": call.tool, "code": outcome.code}
    return _ERRORS[outcome.end](outcome.content, **facts)


def _other_arguments(recorded: str, made: str) -> list[str]:
    """Return the names of the arguments that differ, and never a value."""
    try:
        old = jsontext.as_object(jsontext.parse(recorded)) or {}
    except jsontext.NotJson:
        return ["the recorded ones are no JSON"]
    new = jsontext.as_object(jsontext.parse(made)) or {}
    missing = object()
    names = {*old, *new}
    return sorted(n for n in names if old.get(n, missing) != new.get(n, missing))
