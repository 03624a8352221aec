"""Predict what `resume` would do with the runs of a store, and write nothing.

The prediction makes the steps of a worker before its claim (`readiness`), with the
same classes. Then it asks them about each open wait: if it were approved now, or got an
answer, would its call go on?
"""

from __future__ import annotations

from asyncio import gather
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from continuations import errors
from continuations.authoring import callables
from continuations.authoring.tool_contract import compute_contract_digest
from continuations.core import jsontext
from continuations.core.changes.events import Denied
from continuations.core.rows.calls import Parked, Ready, open_wait_id
from continuations.core.rows.state import call_path
from continuations.core.rows.waits import decision_on
from continuations.engine.arrivals import readiness
from continuations.engine.arrivals.arrival_reducer import ArrivalReducer
from continuations.engine.calls.admission import Admission
from continuations.engine.calls.parked_calls import answered_tool
from continuations.engine.code_changes import find_code_changes
from continuations.engine.deadlines import is_past_deadline
from continuations.engine.stack.stack_binding import StackBinding
from continuations.engine.workflow.flows_of_worker import FlowsOfWorker
from continuations.ledger import missing_code
from continuations.ledger.arrivals.arrivals import read_arrivals
from continuations.ledger.index import run_index
from continuations.ledger.index.run_overview import read_overview
from continuations.ledger.versions import Versions
from continuations.value_class import dataclass, replace
from continuations_storage.contract import is_last_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from continuations.authoring.manifest import ManifestChange
    from continuations.authoring.registry import AgentRegistry
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.run import RunStatus
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.engine.model_registry import ModelRegistry
    from continuations.engine.ports import Ports
    from continuations.engine.worker_options import RunOptions, WorkerOptions
    from continuations.ledger.arrivals.arrivals import Arrivals
    from continuations.ledger.objects import Objects


# So many runs are in memory at the same time, and no more.
_PARALLEL_RUNS = 20
_CHANGES: tuple[tuple[type[errors.ContinuationsError], str], ...] = (
    (errors.PriceUnknown, "prices"),
    (errors.ToolsUnavailable, "tools"),
    (errors.ModelError, "model"),
    (errors.FormatError, "stored"),
    (errors.InvalidInput, "context"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftCheck:
    """Compares the runs of a store with the code of this process.

    Attributes:
        objects: The store; it is only read.
        agent_registry: The agents of this process.
        model_registry: Their models; nothing is sent.
        ports: The clock and the ids of waits that are never stored.
        run_options: The options with which runs would be resumed.
        options: The options of the runner's workers.
        checks_context: Whether `run_options.context` is what `resume` will get.
    """

    objects: Objects
    agent_registry: AgentRegistry
    model_registry: ModelRegistry
    ports: Ports
    run_options: RunOptions
    options: WorkerOptions
    checks_context: bool
    _registries: dict[str, AgentRegistry | errors.ToolsUnavailable] = field(
        default_factory=dict[str, Any], init=False
    )

    async def rows(self, after: str = "") -> AsyncIterator[list[DriftRow]]:
        """Iterate over the rows of all live runs, by run id, in small batches."""
        last = run_index.live_key(after) if after else ""
        while True:
            page = await self.objects.keys(run_index.LIVE_PREFIX, last, _PARALLEL_RUNS)
            ids = filter(None, map(run_index.indexed_run_id, page))
            rows = await gather(*map(self.row, ids))
            yield [row for row in rows if row is not None]
            if is_last_page(page, _PARALLEL_RUNS):
                return
            last = page[-1]

    async def row_alone(self, run_id: str) -> AsyncIterator[list[DriftRow]]:
        """Yield the row of one run, if it has not ended."""
        row = await self.row(run_id)
        yield [] if row is None else [row]

    async def row(self, run_id: str) -> DriftRow | None:
        """Return the row of a run; `None` if the run has ended or was erased."""
        overview = await read_overview(self.objects, run_id)
        if overview.newest_number == 0:
            return None
        try:
            versions = Versions(self.objects, run_id)
            state = (await versions.load(overview.newest_number)).state
            if state.run.has_ended:
                return None
            state.read_messages()
            arrived = await read_arrivals(
                self.objects, state, overview.arrival_keys, records=False
            )
        except (errors.RunErased, errors.RunNotFound):
            return None
        except errors.FormatError as error:
            why = _refusal(error)
            return DriftRow(run_id=run_id, verdict=why.verdict, why=(why,))
        registry = await self._listed(state.run.agent)
        if isinstance(registry, errors.ToolsUnavailable):
            why = _refusal(registry)
            return DriftRow(run_id=run_id, verdict=why.verdict, why=(why,))
        check = replace(self, agent_registry=registry)
        reasons = tuple(await _Prediction(check, state, arrived).reasons())
        ranks = [DRIFT_VERDICTS.index(each.verdict) for each in reasons]
        changes: tuple[ManifestChange, ...] = ()
        with suppress(errors.FormatError):
            changes = find_code_changes(state, registry)
        left = None
        if state.run.claim is None and readiness.can_progress(state, arrived):
            left = await missing_code.read(self.objects, run_id, overview.newest_number)
        return DriftRow(
            run_id=run_id,
            agent=state.run.agent,
            status=state.run.status,
            verdict=DRIFT_VERDICTS[max(ranks, default=0)],
            why=reasons,
            code_changes=changes,
            worker_lacked="" if left is None else left.text,
        )

    async def _listed(self, root: str) -> AgentRegistry | errors.ToolsUnavailable:
        """Return the agents with the tools of their sources, listed once for all runs.

        Or the error, so that a source that does not answer is asked once.
        """
        if root not in self._registries:
            try:
                self._registries[root] = await self.agent_registry.listed(root)
            except errors.ToolsUnavailable as error:
                self._registries[root] = error
        return self._registries[root]


@dataclass(frozen=True, slots=True)
class _Prediction:
    """The outcome of a resume of one run, as far as the code determines it."""

    check: DriftCheck
    before: RunState
    arrived: Arrivals

    async def reasons(self) -> list[DriftReason]:
        """Return why the run would not just go on; an empty list if it would."""
        if self.arrived.cancel_request is not None:
            return []  # it ends, and needs no agents
        binding = StackBinding(self.check.agent_registry)
        flows = FlowsOfWorker(binding, self.check.ports)
        reducer = ArrivalReducer(binding, self.check.ports, flows)
        try:
            self._check_process(binding)
            state = readiness.take_in(self.before, self.arrived, reducer).state
        except (errors.AgentChanged, errors.InvalidInput, errors.ModelError) as error:
            return [_refusal(error)]
        finally:
            flows.close()
        if state.run.has_ended:
            return []
        found = list(self._opened_again(state, binding))
        for wait in state.waits.values():
            if wait.call_id and self._is_undecided(wait):
                found += self._of_open_wait(state, wait, reducer)
        for call in state.calls.values():
            if isinstance(call.state, Ready):
                found += await self._of_ready_call(state, call, binding)
        return found

    def _check_process(self, binding: StackBinding) -> None:
        """Raise the error with which a worker would refuse the run."""
        check = self.check
        readiness.check_code(
            *(self.before, self.arrived, binding, check.run_options, check.options),
            checks_context=check.checks_context,
        )
        for frame in self.before.frames.values():
            agent = binding.find_agent(self.before, frame.id)
            if agent is not None and not agent.is_workflow:
                run_id = self.before.run.id
                check.model_registry.model_of(agent, run_id, frame.pending_reply)

    def _is_undecided(self, wait: Wait) -> bool:
        return wait.id in self.before.waits and wait.id not in self.arrived.decisions

    def _opened_again(
        self, state: RunState, binding: StackBinding
    ) -> Iterator[DriftReason]:
        """Return a reason for each decided wait whose call waits again."""
        for wait_id in self.arrived.decisions:
            decided = self.before.waits.get(wait_id)
            call = decided and state.calls.get(decided.call_id)
            again = call and state.waits.get(open_wait_id(call.state) or "")
            if decided and call and again and again.id != wait_id:
                # The call as it was: it may have been examined again meanwhile.
                call = self.before.calls[call.id]
                yield _reopened(self.before, call, decided, binding, again.note)

    def _of_open_wait(
        self, state: RunState, wait: Wait, reducer: ArrivalReducer
    ) -> Iterator[DriftReason]:
        """Return why the wait could not be ended with success, if that is so."""
        call, ports = state.calls[wait.call_id], self.check.ports
        binding = reducer.stack_binding
        if isinstance(call.state, Parked):
            try:
                if wait.continues:
                    answered_tool(binding, state, call)
            except errors.AgentChanged as error:
                yield _refusal(error, wait.id)
            return
        now = ports.clock.now()
        if is_past_deadline(self.arrived.current(wait), now):
            return  # it ends as expired
        approval = decision_on(wait, "approve", "drift", now)
        try:
            readiness.check_tools(state, {wait.id: approval}, binding)
        except errors.AgentChanged as missing:
            yield _refusal(missing, wait.id)
            return
        note = reducer.why_reopened(state, wait, approval, form_is_known=False)
        if note is not None:
            again = Admission(binding, ports).ask_again(state, call, note, wait)
            yield _reopened(state, call, wait, binding, again.wait.note)

    async def _of_ready_call(
        self, state: RunState, call: CallRow, binding: StackBinding
    ) -> list[DriftReason]:
        """Return why a call that was accepted, or approved, would not begin."""
        admission = Admission(binding, self.check.ports, rechecks=False)
        try:
            held = await admission.hold(state, call)
            if held is None:
                binding.unchanged_tool(state, call)
                return []
        except errors.AgentChanged as error:
            return [_refusal(error)]
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            text = f"The approval policy of {call.tool} raised {type(error).__name__}."
            return [_reason("refuse", "policy", state, call, text)]
        if isinstance(held, Denied):
            text = f"The approval policy of {call.tool} denies the call now."
            return [_reason("reopen", "policy", state, call, text)]
        return [_reopened(state, call, None, binding, held.wait.note)]


def _refusal(
    error: errors.ContinuationsError, wait_id: str | None = None
) -> DriftReason:
    change = next((name for kind, name in _CHANGES if isinstance(error, kind)), "")
    path: tuple[str, ...] = ()
    if isinstance(error, errors.AgentChanged):
        change, path = error.change, error.path
    agent = path[-2] if len(path) > 1 else "".join(path)
    return DriftReason(
        verdict="refuse",
        change=change,
        agent=agent,
        path=path,
        wait_id=wait_id or error.wait_id,
        text=str(error),
    )


def _reopened(
    state: RunState,
    call: CallRow,
    wait: Wait | None,
    binding: StackBinding,
    note: str | None,
) -> DriftReason:
    tool = binding.tool(state, call)
    change = "approval"
    if tool is None:
        change = "removed"
    elif tool.contract_digest != call.contract_digest:
        change = "contract"
        schema = wait and jsontext.as_object(jsontext.parse(wait.schema_json))
        if schema and _digest(schema) != _digest(tool.parameters):
            change = "schema"
    wait_id = None if wait is None else wait.id
    return _reason("reopen", change, state, call, note or "", wait_id)


def _digest(schema: Mapping[str, Any]) -> str:
    return compute_contract_digest("", None, schema)


def _reason(
    verdict: DriftVerdict,
    change: str,
    state: RunState,
    call: CallRow,
    text: str,
    wait_id: str | None = None,
) -> DriftReason:
    return DriftReason(
        verdict=verdict,
        change=change,
        agent=state.frames[call.frame_id].agent,
        path=call_path(state, call),
        wait_id=wait_id,
        text=text,
    )


DriftVerdict = Literal["accept", "reopen", "refuse"]
# From the best to the worst.
DRIFT_VERDICTS: tuple[DriftVerdict, ...] = ("accept", "reopen", "refuse")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReason:
    """Why the code does not accept a run as it is.

    Attributes:
        verdict: `"reopen"` or `"refuse"`.
        change: The kind of change:

            - `removed`: an agent, a tool or a function of a tool is missing
            - `schema`: the tool has other parameters
            - `contract`: the tool has another contract: its version or a detail of its
              schema
            - `approval`: the approval is not valid any more, for example because of
              another approval policy
            - `state`: a stored state does not fit the type of its agent
            - `workflow`: the code of a workflow does not do what its history says
            - `kind`: a workflow is an agent now, or an agent is a workflow
            - `model`: an agent has no model, or one that cannot answer
            - `context`: the given `context` has another type
            - `prices`: the run has a budget in money, and a price is missing
            - `policy`: the approval policy raised an exception, or denies the call now
            - `tools`: the tools of a source, such as an MCP server, cannot be listed
            - `stored`: an object of the run is damaged or newer than this release
        agent: Name of the agent, as it is stored; empty if it is not known.
        path: Names from the root agent down to the tool or agent; may be empty.
        wait_id: Id of the wait that would be opened again, or whose answer would be
            refused; `None` for other reasons.
        text: The error that `resume` would raise, or the note of the new wait.
    """

    verdict: DriftVerdict
    change: str
    agent: str
    path: tuple[str, ...]
    wait_id: str | None = None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRow:
    """The effect that the code of this process would have on one run.

    Attributes:
        run_id: Id of the run.
        agent: Name of the root agent; empty if the run cannot be read.
        status: Status of the newest version, or `"unreadable"`.
        verdict: The worst verdict of `why`; `"accept"` without a reason.

            - `accept`: the run goes on, and open waits can be approved as they are
            - `reopen`: the run goes on, and an approved call waits again or is denied
            - `refuse`: `resume` raises an error and changes nothing, now or once an
              open wait is answered
        why: The reasons, in the order in which `resume` would meet them.
        code_changes: All differences between the stored code and the code of this
            process. Most of them stop nothing.
        worker_lacked: The error of the first worker that left the run as it is to
            others, because its code lacked a tool or an agent. Empty if no worker did.
    """

    run_id: str
    agent: str = ""
    status: RunStatus | Literal["unreadable"] = "unreadable"
    verdict: DriftVerdict
    why: tuple[DriftReason, ...] = ()
    code_changes: tuple[ManifestChange, ...] = ()
    worker_lacked: str = ""


_MAX_CHANGES = 10


def allowed_changes(row: DriftRow) -> tuple[tuple[str, ...], int]:
    """Return the differences of the code that a run accepts.

    Args:
        row: The run. A row with another verdict has reasons instead.

    Returns:
        The first differences in words, and how many more there are.
    """
    changes = row.code_changes if row.verdict == "accept" else ()
    shown = tuple(change.text for change in changes[:_MAX_CHANGES])
    return shown, len(changes) - len(shown)
