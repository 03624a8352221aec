"""Every exception that continuations raises for an expected failure.

All are subclasses of `ContinuationsError`. The class says what kind of failure it is
and what to do next. The text says what failed and why, and names the run and the wait.
The text of an error never contains message contents, arguments of calls or secrets,
because it may end up in a log.

This module imports only the standard library. The type of a recorded decision is
imported for type checkers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.rows.decisions import Decision


class ContinuationsError(Exception):
    """Base class of all errors of this library.

    Catch it to handle every expected failure. Catch a subclass to handle one kind.

    Attributes:
        run_id: Id of the run that the error is about, or `None`.
        wait_id: Id of the wait that the error is about, or `None`.
    """

    def __init__(
        self, message: str, *, run_id: str | None = None, wait_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.wait_id = wait_id

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling, so that a worker process can send the error to another."""
        return _rebuild_error, (type(self), self.args, self.__dict__)


def _rebuild_error(
    kind: type[ContinuationsError], args: tuple[Any, ...], state: dict[str, Any]
) -> ContinuationsError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


# Names and arguments --------------------------------------------------------


class RunNotFound(ContinuationsError):
    """The store has no run with this id.

    The id may be misspelled, the store may be the wrong one, or the objects of the run
    were deleted. Check the id and the URL of the store. `runner.waiting()` lists the
    runs that have open waits.
    """


class VersionNotFound(RunNotFound):
    """The run has no version with this number. `runner.history()` lists them."""


class WaitNotFound(ContinuationsError):
    """No wait has this id, or the id has not the form of a wait id.

    Nothing was recorded. The id may be misspelled, or a new wait may have replaced this
    one. List the open waits with `runner.waiting()` and decide the new wait.
    """


class InvalidId(ContinuationsError, ValueError):
    """A run id or a store key is not allowed.

    Nothing was written. A run id has 1 to 200 characters out of `A-Z`, `a-z`, `0-9`,
    `.`, `_` and `-`, and begins with a letter or a digit. An id with the form of a
    thread's, `t-AGENT-DIGEST-NUMBER`, belongs to the thread. Choose another id.
    """


class InvalidInput(ContinuationsError, ValueError):
    """An argument has the wrong type or a value that is not allowed.

    Raised for example for the input of a run, the options of `Agent`, `tool`, `Runner`
    and `open_store`, and for text that cannot be stored. Nothing was written. The text
    names the argument. Correct it and call again.
    """


class AttachmentsTooLarge(InvalidInput):
    """The attachments of one run would have more than 64 MiB together.

    Nothing was written. Make the new attachments smaller, or leave some out.
    """


class PriceUnknown(InvalidInput):
    """A run has a budget in money, and the price of a model is missing.

    Raised by a start, and by a resume in a process without the prices of the run.
    Nothing was written and no model was asked. Pass `prices=` with the models that the
    text names, in the currency of the budget.
    """


# The state of a run ---------------------------------------------------------


class RunExists(ContinuationsError):
    """The id belongs to a run that has another input or agent, or is not a thread.

    The existing run is unchanged. Use another run id or key, or continue the run with
    `resume`. A repeated `start` with the same input and agent is not an error. A copy
    finds such a run in its target, or one that went on there.
    """


class RunErased(ContinuationsError):
    """The run was erased and its id cannot be used again.

    `erase` or `prune` deleted everything that the store held of the run. Start a run
    with another id. If objects of a run were deleted in another way, methods raise
    `RunNotFound` or `Corrupt`. A copy names a run that is erased in one store only.
    """


class RunBusy(ContinuationsError):
    """Another process holds the claim on the run, so only that process may advance it.

    This process did nothing. Usually the other process finishes the work. If it died,
    call `resume` again after `until`; `sweep` does this by itself. A run that is being
    copied into the store is busy, too: then wait for the copy, or repeat it.

    Attributes:
        until: Time at which the claim ends, in UTC, unless the other process renews it.
    """

    def __init__(self, message: str, *, run_id: str, until: datetime) -> None:
        super().__init__(message, run_id=run_id)
        self.until = until


class StaleRun(ContinuationsError):
    """Another process advanced the run while this process worked on it.

    This process stopped before it wrote a version. The run is intact: everything that
    was committed before is kept. Read it with `look`, or call `resume` again.
    """


class ClockOff(ContinuationsError):
    """The clocks of this machine and of the store differ by over a quarter of a lease.

    Claims depend on time, so this process did not work on the run. Synchronize the
    clock of this machine (for example with NTP) and call again.
    """


class Cancelled(ContinuationsError):
    """The wait was closed, because its run was cancelled, has failed or was repaired.

    The decision was not recorded and runs no call. `look` shows the reason. If the run
    has ended and the work is still needed, start a new run. After a repair by `doctor`,
    an open call has a new wait.
    """


# Decisions ------------------------------------------------------------------


class AlreadyDecided(ContinuationsError):
    """Another decision of this wait was recorded first, and it differs from this one.

    This decision was not recorded. Show `decision` to the person who decided second. A
    repeat of the recorded decision is not an error.

    Attributes:
        decision: The recorded `Decision`.
    """

    def __init__(
        self, message: str, *, run_id: str, wait_id: str, decision: Decision
    ) -> None:
        super().__init__(message, run_id=run_id, wait_id=wait_id)
        self.decision = decision


class DecisionRefused(ContinuationsError, ValueError):
    """The decision does not fit the wait, so it was not recorded.

    Causes are a verdict that this kind of wait does not accept, edited arguments that
    do not match the wait's schema, and a value that is not JSON. The wait is still
    open. Correct the decision and decide again.
    """


class WaitExpired(ContinuationsError):
    """The deadline of the wait has passed, so it cannot be decided.

    The decision was not recorded. Call `resume`: the run continues as the tool or its
    approval policy says for this case. A call that waited for an approval does not run.
    """


class ThreadClosed(ContinuationsError):
    """The thread was closed before it read the message.

    The message has no reply. The next `send` opens the thread again, with an empty
    conversation.
    """


class InboxFull(ContinuationsError):
    """The run has too many unread messages, so it accepts no further one now.

    The message was not posted. The text names the limit: 1,000 messages, or 16 MiB of
    text. Let the run read its messages: resume it, or decide what it waits for. Then
    send again. A close of a thread is always accepted.
    """


class NotFinished(ContinuationsError):
    """The run has no output yet, so `result()` of its outcome returns nothing.

    Nothing was changed. The text says what the run waits for.

    Attributes:
        outcome: The outcome, `Suspended` or `Queued`.
    """

    def __init__(
        self, message: str, *, run_id: str | None = None, outcome: Any = None
    ) -> None:
        super().__init__(message, run_id=run_id)
        self.outcome = outcome


class RunFailed(ContinuationsError):
    """The run has failed or was cancelled, so `result()` has no output.

    Attributes:
        outcome: The outcome, `Failed`, with the code of the failure in `error`.
    """

    def __init__(
        self, message: str, *, run_id: str | None = None, outcome: Any = None
    ) -> None:
        super().__init__(message, run_id=run_id)
        self.outcome = outcome


# Advancing a run ------------------------------------------------------------


class ModelError(ContinuationsError):
    """The model did not give a usable reply.

    Causes are a refused request, an invalid reply, and an agent without a model. The
    run keeps everything that was committed before. Fix the cause that the text names,
    then call `resume` with the run id or, without a store, with `continuation`. If the
    request may succeed later (`retryable`), a run raises no error: the frame waits for
    its model.

    Attributes:
        status: HTTP status of the provider's response, or `None` without a response.
        retryable: Whether the same request may succeed later without a change.
        retry_after: Seconds after which the provider wants the next request, or
            `None` if it does not say.
        unreachable: Whether no server was reached: its name is unknown, or it refused
            the connection. The first request of a run raises such an error at once.
        usage: The `Usage` of the responses without a usable reply, or `None` if there
            were none. It is part of the run's usage, except if the worker is
            interrupted, dies or loses its claim before it stores the run.
        continuation: Without a store, the `Continuation` with all work so far. With a
            store, `None`.
    """

    continuation: Any = None

    def __init__(
        self,
        message: str,
        *,
        run_id: str | None = None,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        unreachable: bool = False,
        usage: Any = None,
    ) -> None:
        super().__init__(message, run_id=run_id)
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.unreachable = unreachable
        self.usage = usage


class HookFailed(ModelError):
    """A hook, a guardrail or instructions of a turn raised or returned a wrong value.

    The run keeps everything that was committed before. Correct the function that the
    text names, then resume the run: the turn is made again.

    Attributes:
        hook: Name of the hook or of the guardrail, or `instructions`.
    """

    hook: str = ""


class CompactionFailed(ModelError):
    """The history of an agent is above its hard budget and was not shortened.

    Causes are a summary that failed, or messages that stay as they are and need too
    many tokens. Nothing was sent to the agent's model, and the history is as before.
    Correct the cause that the text names, or raise `hard`, then resume the run. In a
    thread, the reply to the message is `Failed` with code `compaction` instead.
    """


class AgentChanged(ContinuationsError):
    """The running code does not fit the run: an agent or a tool is missing or differs.

    Causes:

    - An agent of the stack is missing.
    - The tool of a call that may begin is missing. An approval is kept.
    - The tool of a pending call has changed. An approved call waits again instead.
    - The agent of a finished run has another output type now, which does not accept
      the output.

    Nothing ran and the run was not changed. Resume with compatible code, decide the
    wait with `Deny`, or cancel the run.

    Attributes:
        change: The kind of change:

            - `removed`: an agent, tool or function is missing
            - `contract`: the tool has another contract
            - `state`, `output`: the stored value does not fit the type
            - `workflow`: its code does not do what the history says
            - `kind`: a workflow is an agent now, or an agent is a workflow

        path: The names from the root agent down to the agent or tool that changed.
    """

    def __init__(
        self,
        message: str,
        *,
        run_id: str | None = None,
        wait_id: str | None = None,
        change: str = "removed",
        path: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, run_id=run_id, wait_id=wait_id)
        self.change = change
        self.path = path


class ToolsUnavailable(ContinuationsError):
    """The tools of a source, such as an MCP server, could not be listed.

    Causes are a server that does not answer, and tools that the agent cannot have: two
    of them have one name, or a schema is invalid. Nothing ran and nothing was written.
    Correct the cause that the text names, then call again. A later sweep tries the run
    again by itself.
    """


class WorkflowChanged(AgentChanged):
    """The code of a workflow does not do what the history of its run says.

    No tool or model ran, and nothing was written. Resume with the code that the run
    began with, or put the change under `if flow.patched("name")`, so that only runs
    that have not passed this place get it.
    """


class EffectUnknown(Exception):
    """A tool raises it if it cannot tell whether its call had an effect.

    An example is a connection that broke before the reply came. A call that may not be
    repeated then has an unknown outcome, which `verify` or a person settles. It runs
    again only after the claim of the worker, because the request may still be on its
    way. A call of a tool that is `idempotent` or `read_only` fails like after any other
    exception. The text is for the people who settle the outcome.
    """


class CallError(Exception):
    """A call of a workflow did not return; raised where the workflow awaits it.

    Attributes:
        call: Id of the call.
        tool: Name of the tool, agent or workflow.
        code: The kind of the failure, for programs.
        text: The reason, as far as it is known.
    """

    def __init__(self, text: str, *, call: str, tool: str, code: str) -> None:
        super().__init__(text)
        self.call = call
        self.tool = tool
        self.code = code
        self.text = text


class CallFailed(CallError):
    """The call failed."""


class CallDenied(CallError):
    """A person or a rule denied the call."""


class CallExpired(CallError):
    """No decision, answer, event or result came in time."""


class CallCancelled(CallError):
    """An operator cancelled the call."""


class TranscriptInvalid(ContinuationsError):
    """A provider would refuse the messages of a frame, so they were not sent.

    Each tool call needs exactly one tool message directly after it. The run is
    unchanged. If your application wrote the messages, for example as the input of
    `start`, correct them. If not, this is a bug in continuations: report it.
    """


class IllegalTransition(ContinuationsError):
    """An event is not possible in the present state of a run.

    The run is unchanged. This is a bug in continuations: report it with the text of the
    error. Your application cannot prevent it.
    """


# Bytes and stores -----------------------------------------------------------


class FormatError(ContinuationsError, ValueError):
    """Bytes cannot be read as a continuation or another stored object.

    They come from another program or from a newer version of this library, or a value
    is too large to be stored. Stored objects are unchanged. If the text names a newer
    format, update continuations. Otherwise check which file or object you passed.
    """


class NewerFormat(FormatError):
    """A stored object was written by a newer version of this library.

    It was not changed. Update continuations in this process. Processes with the newer
    version can work on the run meanwhile.
    """


class Corrupt(FormatError):
    """A stored object is missing, damaged or does not belong to its run.

    Nothing was changed. Run `continuations doctor RUN` to list the damaged objects.
    Restore them from a backup, or give up the lost versions with `doctor --repair`.
    """


class StoreError(ContinuationsError):
    """The store failed in a way that no subclass describes.

    Everything that was committed before is kept. Fix the cause that the text names and
    repeat the call.
    """


class Inconclusive(StoreError):
    """The store's reply to a write was lost, so the write may have succeeded.

    Read the state before you repeat the call, for example with `look`. A repeat of
    `decide`, of `resume`, or of `start` with the same run id is safe.
    """


class StoreDenied(StoreError):
    """The store denies access, or does not say whether the object is missing.

    Nothing was written. Check the credentials of this process and its permissions for
    the store: it must create, read, list and delete objects.
    """


class StoreUnavailable(StoreError):
    """The store does not answer, limits requests, has no space, or is too slow.

    Everything that was committed before is kept. Repeat the call later. If the text
    says that the store is too slow for the claim, pass a longer `lease` to the runner.
    """


class StoreUnsafe(StoreError):
    """The store does not keep the promise of put-if-absent, or may have ceased to.

    It overwrites an existing object instead of refusing the write, or its bucket began
    to keep versions after it was proved. Two processes could then both believe that
    they hold the claim, so no run is claimed. Use a store that supports put-if-absent,
    or do what the text says.
    """
