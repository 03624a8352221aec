"""The waits of calls, and the digests that bind an approval to a call."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from continuations.authoring.arguments import answer_types
from continuations.core import jsontext
from continuations.core.rows.state import RunState, call_path
from continuations.core.rows.wait_rules import WAIT_RULES, WaitKind
from continuations.core.rows.waits import Wait, call_digest, parked_digest
from continuations.core.words.secret_arguments import scrubbed
from continuations.ledger import layout
from continuations.value_class import replace
from continuations.wire.fields import whole_milliseconds

if TYPE_CHECKING:
    from continuations.authoring.approval import ApprovalPolicy
    from continuations.authoring.tool.tool_protocol import AgentProtocol, ToolProtocol
    from continuations.authoring.tool_waits import ToolWait
    from continuations.core.messages import ToolCallRequest
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.quorum import Quorum
    from continuations.core.words.call_display import CallDisplay
    from continuations.engine.ports import Ports
    from continuations.engine.stack.stack_binding import StackBinding


def approval_digest(
    state: RunState, call: CallRow, arguments: str, contract_digest: str
) -> str:
    """Return the digest that an approval of a call with some arguments is bound to."""
    if call.stage:
        contract_digest = f"{contract_digest} {call.stage}"
    return call_digest(
        run_nonce=state.run.run_nonce,
        frame_id=call.frame_id,
        call_id=call.id,
        arguments=arguments,
        contract_digest=contract_digest,
    )


def approved_contract_digest(tool: ToolProtocol) -> str:
    """Return the contract digest that an approval of a tool's calls is bound to.

    With a strict policy it covers the tool's description as well. It covers the form.
    """
    policy = tool.approval
    if policy is None:
        return tool.contract_digest
    contract = strict_contract_digest(tool) if policy.strict else tool.contract_digest
    return with_form(contract, policy)


def with_form(contract_digest: str, policy: ApprovalPolicy | None) -> str:
    """Return a contract digest that covers the form of a policy, if it has one."""
    form = None if policy is None else policy.form_digest
    return contract_digest if form is None else f"{contract_digest} form {form}"


def strict_contract_digest(tool: ToolProtocol) -> str:
    """Return the contract digest of a tool with its description."""
    return f"{tool.contract_digest} {tool.model_text_digest}"


def new_wait(  # noqa: PLR0913 - one parameter for each part of a wait
    state: RunState,
    call: CallRow,
    tool: ToolProtocol | None,
    *,
    kind: WaitKind,
    now: datetime,
    ulid: str,
    arguments: str | None = None,
    note: str | None = None,
    agent: AgentProtocol | None = None,
) -> Wait:
    """Return a new wait of a call.

    Args:
        state: The run.
        call: The call that waits.
        tool: The call's tool, `None` if this process does not have it.
        kind: The kind of the wait.
        now: When the wait is opened.
        ulid: A new ULID. A wait id is never used twice, so neither is this.
        arguments: The call's arguments as canonical JSON; by default those of the call.
        note: A text for the person who decides.
        agent: The agent that calls, `None` if this process does not have it.
    """
    arguments = arguments or call.arguments or "{}"
    display = display_of_wait(state, call, tool, arguments, agent=agent)
    if note is not None and display is not None and display.secrets:
        note = scrubbed(note, arguments, display.secrets)
    declared = tool if (follows := WAIT_RULES[kind].follows_policy) else None
    contract_digest, policy = call.contract_digest or "", None
    if declared is not None:
        contract_digest, policy = approved_contract_digest(declared), declared.approval
    validity = policy.approval_validity if policy else None
    return Wait(
        id=layout.build_wait_id(kind, ulid, state.run.id),
        run_id=state.run.id,
        call_id=call.id,
        kind=kind,
        path=call_path(state, call),
        tool=call.tool,
        arguments_json=arguments,
        schema_json=tool.schema_json if tool is not None else "{}",
        digest=approval_digest(state, call, arguments, contract_digest),
        created_at=now,
        deadline=_deadline(policy, now),
        valid_for=validity // timedelta(seconds=1) if validity is not None else None,
        policy=policy.display_name if policy else None,
        denial_stops=policy is not None and policy.on_denied == "stop",
        expiry_stops=policy is not None and policy.on_expired == "stop",
        note=note,
        stage=call.stage,
        display=display,
        on_deadline_json=policy.deadline_action_json if policy else None,
        quorum=quorum_of(state, call, policy) if follows else call.quorum,
        remind_after=policy.reminder_seconds if policy else 0,
        form_schema_json=policy.form_schema_json if policy else None,
        editable_json=_editable_json(policy),
        answer_schema_json=_result_schema(state, call, tool),
    )


def wait_of_call(
    stack_binding: StackBinding,
    ports: Ports,
    state: RunState,
    call: CallRow,
    kind: WaitKind,
    note: str | None,
    *,
    arguments: str | None = None,
) -> Wait:
    """Return a new wait of a call, with its tool and its agent in this process."""
    now = ports.clock.now()
    return new_wait(
        state,
        call,
        stack_binding.tool(state, call),
        kind=kind,
        now=now,
        ulid=ports.ids.new_ulid(now),
        arguments=arguments,
        note=note,
        agent=stack_binding.find_agent(state, call.frame_id),
    )


def _deadline(policy: ApprovalPolicy | None, now: datetime) -> datetime | None:
    timeout = policy.decision_timeout if policy else None
    return None if timeout is None else now + timeout


def _result_schema(
    state: RunState, call: CallRow, tool: ToolProtocol | None
) -> str | None:
    """Return the schema of an answer: the code of a workflow needs the result type."""
    if tool is None or not state.frames[call.frame_id].step:
        return None
    from continuations.authoring.workflow.workflow import result_schema_json  # noqa: PLC0415 - few runs have a workflow

    return result_schema_json(tool)


def _editable_json(policy: ApprovalPolicy | None) -> str | None:
    if policy is None or policy.editable is None:
        return None
    return jsontext.canonical(list(policy.editable))


def quorum_of(
    state: RunState, call: CallRow, policy: ApprovalPolicy | None
) -> Quorum | None:
    """Return who may approve a call.

    If the tool is missing, the rule of the call's last approval holds.
    """
    if policy is None:
        return call.quorum
    quorum = policy.quorum
    return quorum and quorum.of_run(state.run)


def parked_wait(
    state: RunState,
    call: CallRow,
    tool: ToolProtocol,
    asked: ToolWait[Any],
    *,
    now: datetime,
    ulid: str,
    agent: AgentProtocol | None,
) -> Wait:
    """Return the wait that a tool opened.

    `ulid` is a new ULID. It is not used if the tool knew the id before.
    Raises `InvalidInput` if the tool asked for an answer or action that is invalid.
    """
    wait_id = layout.build_wait_id(asked.kind, ulid, state.run.id)
    if WAIT_RULES[asked.kind].has_known_id:
        wait_id = layout.known_wait_id(state.run, call)
    deadline = asked.until
    if asked.within is not None:
        deadline = now + asked.within
    wait = Wait(
        id=wait_id,
        run_id=state.run.id,
        call_id=call.id,
        kind=asked.kind,
        path=call_path(state, call),
        tool=call.tool,
        arguments_json=call.arguments or "{}",
        schema_json=tool.schema_json,
        digest="",
        created_at=now,
        deadline=deadline and whole_milliseconds(deadline),
        question=asked.question,
        answer_schema_json=answer_types.schema_json_of(asked.answer_type),
        event=asked.event,
        event_key=asked.key,
        stage=call.stage,
        on_deadline_json=answer_types.action_json_of(
            asked.on_deadline, asked.answer_type
        ),
        continues=tool.continues,
        cancels=tool.cancels,
        display=display_of_wait(
            state, call, tool, call.arguments or "{}", agent=agent, parked=True
        ),
        events_taken=state.run.events_taken if asked.event is not None else (),
    )
    return with_parked_digest(state, call, wait)


def with_parked_digest(state: RunState, call: CallRow, wait: Wait) -> Wait:
    """Return a wait that a tool opened, with a digest over its fields."""
    digest = parked_digest(
        wait,
        run_nonce=state.run.run_nonce,
        frame_id=call.frame_id,
        contract=call.contract_digest or "",
    )
    return replace(wait, digest=digest)


def renewed_wait(wait: Wait, now: datetime, ulid: str, note: str) -> Wait:
    """Return a wait under a new id, with as much time to decide as it had at first."""
    deadline = wait.deadline and now + (wait.deadline - wait.created_at)
    wait_id = layout.build_wait_id(wait.kind, ulid, wait.run_id)
    return replace(wait, id=wait_id, created_at=now, deadline=deadline, note=note)


def display_of_wait(
    state: RunState,
    call: CallRow,
    tool: ToolProtocol | None,
    arguments_json: str,
    *,
    agent: AgentProtocol | None,
    parked: bool = False,
) -> CallDisplay | None:
    """Return what people read about a waiting call, or `None` for nothing.

    Evidence is collected for tools with a summary only, because it costs bytes.

    Args:
        state: The run.
        call: The call that waits.
        tool: Its tool, `None` if this process does not have it.
        arguments_json: The effective arguments that the wait shows.
        agent: The agent that calls, `None` if this process does not have it. Its tools
            tell the secrets of earlier calls, whose results are evidence.
        parked: Whether the tool ran and asks something. Then the call has no title.
    """
    declared = None if tool is None else tool.display_call(arguments_json)
    requester = state.run.asker
    if declared is None and requester is None and not call.secrets:
        return None
    from continuations.core.words.call_display import CallDisplay  # noqa: PLC0415 - few tools have one

    display = declared or CallDisplay()
    secrets = tuple(sorted({*display.secrets, *call.secrets}))
    if display.title is not None:
        display = _with_evidence(display, state, call, arguments_json, secrets, agent)
    if parked:
        display = replace(display, title=None, template=None, reversible=None)
    display = replace(display, secrets=secrets, requester=requester)
    return None if display == CallDisplay() else display


def _with_evidence(
    display: CallDisplay,
    state: RunState,
    call: CallRow,
    arguments_json: str,
    secrets: tuple[str, ...],
    agent: AgentProtocol | None,
) -> CallDisplay:
    from continuations.core.words import call_display, secret_arguments  # noqa: PLC0415 - few tools have one

    def scrubbed(text: str) -> str:
        return secret_arguments.scrubbed(text, arguments_json, secrets)

    def scrubbed_result(text: str, earlier: ToolCallRequest | None) -> str:
        text = scrubbed(text)
        tool = agent.get_tool(earlier.tool) if agent and earlier else None
        if tool is None or earlier is None or not tool.secrets:
            return text
        try:
            return secret_arguments.scrubbed(text, earlier.arguments, tool.secrets)
        except jsontext.NotJson:
            return text  # such a call never began

    messages = state.logs[call.frame_id].messages
    agents = _agents_among_tools(state, call.frame_id)
    found = call_display.findings(messages, agents, scrubbed_result)
    words = call_display.agent_words(messages, scrubbed)
    # The code that examined the call may have had more secrets than this one.
    title = scrubbed(display.title or "")
    return replace(display, title=title, evidence=found, agent_words=words)


def _agents_among_tools(state: RunState, frame_id: str) -> frozenset[str]:
    """Return the names of the frame's tools that are agents, by the manifest."""
    manifest = jsontext.as_object(jsontext.parse(state.manifest or "{}")) or {}
    names: set[str] = set()
    for row in jsontext.as_array(manifest.get("agents")) or []:
        agent = jsontext.as_object(row) or {}
        if agent.get("name") == state.frames[frame_id].agent:
            tools = jsontext.as_object(agent.get("tools")) or {}
            names.update(name for name in tools if "agent" in (tools[name] or {}))
    return frozenset(names)
