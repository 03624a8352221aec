"""Decide whether a ready call may begin. Every call passes this check before it begins.

It is made for tools and sub-agents, for first attempts and repeats: immediately before
the start of a call is recorded, and again before its tool runs. A call that is held
back waits for a person. If it began before, it may have happened: then its outcome is
unknown, and it does not count as a call that never ran.

A condition that denies counts before an approval: whatever let the call get here, it is
denied.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from continuations.authoring.errors import ArgumentsInvalid
from continuations.authoring.manifest import Contract, contract_changes_text
from continuations.authoring.tool.base_tool import BaseTool
from continuations.core import jsontext
from continuations.core.changes.events import (
    ApprovalRequested,
    Denied,
    OutcomeUnknown,
    Reopened,
)
from continuations.core.rows.calls import CallRow, Started, Unknown
from continuations.core.rows.decisions import Approve, Deny
from continuations.engine.call_waits import (
    approval_digest,
    approved_contract_digest,
    renewed_wait,
    strict_contract_digest,
    wait_of_call,
    with_form,
)
from continuations.engine.calls import rule_approvals
from continuations.engine.code_changes import old_contract
from continuations.value_class import dataclass
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.authoring.tool.tool_protocol import ToolProtocol
    from continuations.core.rows.state import RunState
    from continuations.core.rows.wait_rules import WaitKind
    from continuations.core.rows.waits import Wait
    from continuations.engine.ports import Ports
    from continuations.engine.stack.stack_binding import StackBinding

_NOW_ASKS_NOTE = (
    "The call was accepted without an approval. The code that would begin it now asks "
    "for one."
)
_BEGAN_NOTE = " The call began before, so it may have happened."
_DESCRIPTION_NOTE = "The tool's description changed after the approval."
_FORM_NOTE = (
    "The tool's description, or the form of its policy, changed after the approval."
)
_NO_FORM_NOTE = "The tool's policy needs a form, and the approval has none."
_NOW_STRICT_NOTE = "The tool's policy is strict, and the approval was not."
_NOT_STRICT_NOTE = "The approval was strict, and the tool's policy no longer is."
# The stored call has no policy, and its first wait may be closed.
_NO_POLICY_NOTE = (
    " The tool's approval policy is not known here: a denial does not stop the run, "
    "and this wait has no deadline."
)


@dataclass(slots=True, eq=False)
class Admission:
    """Decides whether calls may begin in this process.

    Attributes:
        examined_ids: The calls that this process examined. Their policies were asked.
        rechecks: Whether the `recheck` functions of policies are called.
        rules: Records the decisions of conditions that deny.
    """

    stack_binding: StackBinding
    ports: Ports
    examined_ids: set[str] = field(default_factory=set[str])
    rechecks: bool = True
    rules: rule_approvals.RuleApprovals = field(
        default_factory=rule_approvals.RuleApprovals
    )

    async def hold(
        self, state: RunState, call: CallRow
    ) -> ApprovalRequested | Reopened | OutcomeUnknown | Denied | None:
        """Return the event that holds a ready call back, `None` if it may begin.

        Raises what the tool's policy raises, and `AgentChanged` if the tool of a call
        without an approval is missing or has changed.
        """
        verdict = await self._verdict(state, call)
        if type(verdict) is Deny:
            tool = self.stack_binding.unchanged_tool(state, call)
            now, arguments = self.ports.clock.now(), call.arguments or "{}"
            denied = await self.rules.deny(state, call, tool, arguments, verdict, now)
            if isinstance(denied, Denied):
                return denied
            return self.ask_again(state, call, denied)
        if rule_approvals.has_lost_its_grant(state, call):
            return self.ask_again(state, call, rule_approvals.ENDED_NOTE)
        if call.approved_digest is not None:
            note = self.why_void(
                state,
                call,
                arguments=call.arguments or "{}",
                digest=call.approved_digest,
                until=call.approved_until,
                form=call.form,
            )
            if note is None and self.rechecks:
                note = await self._recheck(state, call)
            return None if note is None else self.ask_again(state, call, note)
        self.stack_binding.unchanged_tool(state, call)  # raises if it changed
        return self.ask_again(state, call, _NOW_ASKS_NOTE) if verdict is True else None

    async def _verdict(self, state: RunState, call: CallRow) -> bool | Approve | Deny:
        """Return what the policy of a call's present tool says about its arguments.

        `False` if the call needs no decision, or if it is not asked here.
        """
        tool = self.stack_binding.tool(state, call)
        is_known = tool is not None and tool.contract_digest == call.contract_digest
        if tool is None or tool.approval is None or not is_known:
            return False
        was_asked = call.approved_digest is None and call.id in self.examined_ids
        # The function that gets an answer belongs to a call that was admitted before.
        # The policy of a started call was asked before its start was recorded.
        if was_asked or call.stage or isinstance(call.state, Started):
            return False
        verdict = await tool.needs_approval(call.arguments or "{}")
        return verdict if rule_approvals.asks_person(verdict) else False

    async def _recheck(self, state: RunState, call: CallRow) -> str | None:
        """Return why the policy's check does not let an approved call begin now."""
        tool = self.stack_binding.tool(state, call)
        policy = None if tool is None else tool.approval
        if tool is None or policy is None or policy.recheck is None:
            return None
        arguments = call.arguments or "{}"
        if isinstance(tool, BaseTool):
            return await tool.why_not_now(arguments)
        return await policy.why_not_now(jsontext.parse(arguments))

    def why_void(
        self,
        state: RunState,
        call: CallRow,
        *,
        arguments: str,
        digest: str,
        until: datetime | None,
        form: str | None,
        wait: Wait | None = None,
        form_is_known: bool = True,
    ) -> str | None:
        """Return why an approval does not let a call begin, `None` if it does.

        Args:
            state: The run.
            call: The approved call.
            arguments: The arguments that were approved.
            digest: The digest that the approval is bound to.
            until: The time until which the approval is valid, `None` for no limit.
            form: The form that the approver filled in, as JSON text, `None` for none.
            wait: The wait of the approval, if it is still in the run.
            form_is_known: With False, the form is not checked.
        """
        tool = self.stack_binding.tool(state, call)
        if tool is None:
            return self.stack_binding.missing_tool_note(state, call)
        follows_policy = wait is None or wait.rules.follows_policy
        contract = (
            approved_contract_digest(tool) if follows_policy else tool.contract_digest
        )
        if approval_digest(state, call, arguments, contract) != digest:
            if tool.contract_digest != call.contract_digest:
                return self._contract_note(state, call, tool, wait)
            policy = tool.approval
            plain = with_form(tool.contract_digest, policy)
            strict = with_form(strict_contract_digest(tool), policy)
            notes = {
                approval_digest(state, call, arguments, plain): _NOW_STRICT_NOTE,
                approval_digest(state, call, arguments, strict): _NOT_STRICT_NOTE,
            }
            has_form = form or (policy is not None and policy.form_digest)
            other = _FORM_NOTE if has_form else _DESCRIPTION_NOTE
            return notes.get(digest, other)
        if until is not None and self.ports.clock.now() > until:
            return f"The approval was valid until {readable_time(until)}."
        return _why_form_is_void(tool, form) if form_is_known else None

    def _contract_note(
        self, state: RunState, call: CallRow, tool: ToolProtocol, wait: Wait | None
    ) -> str:
        old = old_contract(state, call, wait)
        changes = contract_changes_text(old, Contract.of_tool(tool))
        return f"The tool changed after the approval: {changes}"

    def ask_again(
        self, state: RunState, call: CallRow, note: str, wait: Wait | None = None
    ) -> ApprovalRequested | Reopened | OutcomeUnknown:
        """Return the event that opens a new wait of a call, with a note.

        Args:
            state: The run.
            call: The call; it is waiting, ready, started or of unknown outcome.
            note: Why the call waits again.
            wait: The wait that the new one replaces, if there is one.
        """
        if isinstance(call.state, Unknown):
            return Reopened(
                call_id=call.id, wait=self._new_wait(state, call, note, unknown=True)
            )
        recorded = 1 if isinstance(call.state, Started) else 0
        if call.attempts + call.stage > recorded:
            new = self._new_wait(state, call, note + _BEGAN_NOTE, unknown=True)
            return OutcomeUnknown(call_id=call.id, wait=new)
        tool = self.stack_binding.tool(state, call)
        if tool is None and wait is not None:
            now = self.ports.clock.now()
            new = renewed_wait(wait, now, self.ports.ids.new_ulid(now), note)
            return Reopened(call_id=call.id, wait=new)
        if tool is not None and tool.contract_digest != call.contract_digest:
            return self._examined_again(state, call, tool, note)
        return Reopened(call_id=call.id, wait=self._new_wait(state, call, note))

    def _examined_again(
        self, state: RunState, call: CallRow, tool: ToolProtocol, note: str
    ) -> ApprovalRequested | Reopened:
        """Return the event for a call whose tool has another contract now."""
        try:
            arguments = tool.effective_arguments(call.arguments or "{}")
        except ArgumentsInvalid as error:
            note = (
                f"{note} The arguments do not fit the new contract: {error} Approve "
                "the call with edited arguments, deny it, or answer it."
            )
            return Reopened(call_id=call.id, wait=self._new_wait(state, call, note))
        return examined_under(
            tool, call, self._new_wait(state, call, note, arguments=arguments)
        )

    def _new_wait(
        self,
        state: RunState,
        call: CallRow,
        note: str,
        *,
        unknown: bool = False,
        arguments: str | None = None,
    ) -> Wait:
        if not unknown and self.stack_binding.tool(state, call) is None:
            note += _NO_POLICY_NOTE
        kind: WaitKind = "unknown" if unknown else "approval"
        parts = self.stack_binding, self.ports
        return wait_of_call(*parts, state, call, kind, note, arguments=arguments)


def _why_form_is_void(tool: ToolProtocol, form: str | None) -> str | None:
    """Return why the tool cannot run with the form of its approval, or `None`."""
    policy = tool.approval
    if policy is None or policy.form_digest is None:
        return None
    if form is None:
        return _NO_FORM_NOTE
    try:
        policy.typed_form(form)
    except ArgumentsInvalid as error:
        return f"The form was rejected: {error}"
    return None


def examined_under(tool: ToolProtocol, call: CallRow, wait: Wait) -> ApprovalRequested:
    """Return the event that binds a call to the present contract of its tool."""
    examined = rule_approvals.examined_call(call.id, tool, wait.arguments_json)
    return ApprovalRequested(wait=wait, **examined)
