"""Approval policies: which calls wait for a person, how long, and with which form."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from continuations.authoring import callables, deadline_options, tool_contract
from continuations.authoring.arguments import answer_types
from continuations.authoring.deadline_options import Duration, to_seconds, to_timedelta
from continuations.authoring.errors import PolicyFailed
from continuations.core import jsontext
from continuations.core.rows.decisions import (
    Answer,
    Approve,
    Deny,
    Escalate,
    dump_action,
)
from continuations.core.rows.quorum import Quorum
from continuations.errors import InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta


@dataclass(frozen=True, slots=True)
class ApprovalForm:
    """A form, checked.

    Attributes:
        type: The type of the application.
        schema_json: Its JSON Schema, as JSON text.
        digest: A digest of the schema without descriptions.
    """

    type: Any
    schema_json: str
    digest: str

    def typed(self, form_json: str) -> Any:
        """Return a form that was filled in, as a value of the type.

        Raises `ArgumentsInvalid` if a validator of the type rejects it.
        """
        return answer_types.typed_value(form_json, self.type)


def checked_form(form_type: Any) -> ApprovalForm:
    """Return the form of a policy; raises `InvalidInput`."""
    from continuations.authoring.arguments.typed_values import has_fields  # noqa: PLC0415 - it imports pydantic

    label = "ApprovalPolicy: form"
    try:
        schema_json = answer_types.schema_json_of(form_type) or "{}"
    except InvalidInput as error:
        raise InvalidInput(f"{label} cannot be used: {error}") from None
    schema = jsontext.parse(schema_json)
    if not has_fields(schema):
        raise InvalidInput(
            f"{label} must be a class with fields (a pydantic model, a dataclass or a "
            f"TypedDict), got {form_type!r}."
        )
    digest = tool_contract.compute_contract_digest("form", None, schema)
    return ApprovalForm(form_type, schema_json, digest)


Condition: TypeAlias = "Callable[..., object]"
ApprovalDeadline: TypeAlias = Answer | Deny | Escalate
ContinueOrStop = Literal["continue", "stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPolicy:
    """Which calls wait for a person, and the consequences of each decision.

    Attributes:
        when: `True` or left out: every call waits. `False`: no call waits. Or a
            condition: a plain or async function that returns `True` (wait) or
            `False` (run), or decides itself: `Approve()` or `Deny(reason=...)`. Such a
            decision is recorded under the name of the policy. A `Deny` counts before
            each begin, also of an approved call. The condition gets the
            arguments that it declares, by name, as Python values; with a `**` parameter
            it gets all of them. If it raises or returns anything else, the call does
            not run.
        name: The name that people see. Default: the name of the condition.
        approvers: The people who may decide: names of persons, and `group:NAME` for
            groups, at most 100. Default: every person who can reach the store.
        votes: How many persons must give the same verdict. One `Deny` is enough. The
            first vote of a person counts. Default: 1.
        not_requester: Refuse the decision of the requester of the run, and every
            approval if the requester is unknown (`start(by=...)`). Default: `False`.
        editable: The names of the arguments that `Approve(arguments=...)` may change;
            an empty list: none. Default: all of them.
        form: The type of a form that each approver fills in: a class with fields that
            pydantic supports (a model, dataclass or TypedDict). `Approve(form=...)` is
            checked against its JSON Schema, and the tool gets it as `ctx.form`. A
            condition and a grant cannot approve such a call. Default: no form.
        within: The time to decide: a timedelta, or seconds, at most 3,650 days. After
            it the wait expires and the call does not run. Default: no limit.
        on_deadline: The consequence instead: `Deny(reason=...)`, `Answer(value)`,
            which becomes the result of the call, or `escalate(to=..., within=...)`.
            No deadline approves a call.
        remind_after: The time after which `notify` is called once more for a wait that
            is still open: a timedelta, or seconds. It is called at most 3 times, each
            after this time. Default: no reminder.
        expires_after: The older name of `within`.
        on_expiry: The older name of `on_deadline`.
        recheck: A function of the arguments, like a condition, that is called again
            before an approved call begins. `True` or `None`: the call begins. `False`,
            or a reason as text: the call waits for a person again. So it does if the
            function raises. It may be called several times, and must have no effect.
        valid_for: How long after the approval the call may still begin: a timedelta,
            or seconds, at least 1 second and at most 3,650 days. Default: no limit.
        strict: Bind an approval also to the tool's description: after a change of
            the description, the call waits again. Default: `False`.
        on_denied: `"continue"`: the model reads the denial and the agent continues.
            `"stop"`: the run fails. Default: `"continue"`.
        on_expired: The same for a wait that expired. Default: `"continue"`.

    Raises:
        InvalidInput: An option is invalid.
    """

    when: bool | Condition | None = None
    name: str | None = None
    approvers: Sequence[str] = ()
    votes: int = 1
    not_requester: bool = False
    editable: Sequence[str] | None = None
    form: Any = None
    within: Duration | None = None
    on_deadline: ApprovalDeadline | None = None
    remind_after: Duration | None = None
    expires_after: Duration | None = None
    on_expiry: ApprovalDeadline | None = None
    recheck: Condition | None = None
    valid_for: Duration | None = None
    strict: bool = False
    on_denied: ContinueOrStop = "continue"
    on_expired: ContinueOrStop = "continue"
    # The JSON Schema of `form`, and a digest without its descriptions.
    _form: ApprovalForm | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Raise now what would otherwise fail when the first call is examined."""
        when: object = self.when
        if not (when is None or isinstance(when, bool) or callable(when)):
            wanted = "a bool or a function of the arguments"
            raise _option_error("when", wanted, when)
        name: object = self.name
        if not (name is None or type(name) is str):
            raise _option_error("name", "a string", name)
        if type(self.strict) is not bool:
            raise _option_error("strict", "True or False", self.strict)
        for option in ("within", "expires_after", "valid_for", "remind_after"):
            seconds = to_seconds(getattr(self, option), f"ApprovalPolicy: {option}")
            at_least_one = option in ("valid_for", "remind_after")
            if at_least_one and seconds is not None and seconds < 1:
                raise _option_error(option, "at least 1 second", getattr(self, option))
        self._check_deciders()
        if self.editable is not None:
            names = checked_names("ApprovalPolicy: editable", self.editable)
            object.__setattr__(self, "editable", names)
        self._check_form()
        recheck: object = self.recheck
        if not (recheck is None or callable(recheck)):
            raise _option_error("recheck", "a function of the arguments", recheck)
        for option in ("on_denied", "on_expired"):
            consequence = getattr(self, option)
            if consequence not in ("continue", "stop"):
                raise _option_error(option, '"continue" or "stop"', consequence)

    def _check_form(self) -> None:
        if self.form is not None:
            # It imports pydantic, and most policies have no form.

            object.__setattr__(self, "_form", checked_form(self.form))

    def _check_deciders(self) -> None:
        """Check who decides, and what the deadline does; bring both to one form."""
        if type(self.not_requester) is not bool:
            raise _option_error("not_requester", "True or False", self.not_requester)
        for name, older in (("within", "expires_after"), ("on_deadline", "on_expiry")):
            if getattr(self, name) is not None and getattr(self, older) is not None:
                msg = f"ApprovalPolicy: {older} is the older name of {name}. Pass one."
                raise InvalidInput(msg)
        action = self.on_deadline or self.on_expiry
        if self.approvers == () and self.votes == 1 and action is None:
            return
        # Most policies have none of these options, and need no checks.
        names = deadline_options.checked_approvers(
            "ApprovalPolicy: approvers", self.approvers
        )
        object.__setattr__(self, "approvers", names)
        deadline_options.check_votes("ApprovalPolicy: votes", self.votes, names)
        deadline_options.checked_approval_action(action)
        if action is not None and self.decision_timeout is None:
            msg = "ApprovalPolicy: on_deadline needs a deadline. Pass within=... too."
            raise InvalidInput(msg)

    @classmethod
    def from_option(cls, option: object) -> ApprovalPolicy | None:
        """Return the policy for the value of an `approval` option.

        Args:
            option: `None`, a bool, a condition, or a policy.

        Returns:
            The policy; `None` if no call waits.

        Raises:
            InvalidInput: The value is none of these.
        """
        if option is None or option is False:
            return None
        if isinstance(option, ApprovalPolicy):
            return option
        if option is True:
            return cls()
        if callable(option) and not isinstance(option, type):
            return cls(when=option)
        raise InvalidInput(
            "approval must be True, False, a function of the arguments or an"
            f" ApprovalPolicy, got {callables.shown(option)}."
        )

    @property
    def display_name(self) -> str | None:
        """The name that people see: the own one, or the name of the condition."""
        name = self.name or getattr(self.when, "__name__", None)
        return None if name == "<lambda>" else name

    @property
    def decision_timeout(self) -> timedelta | None:
        """The time that a person has to decide."""
        return to_timedelta(self.within or self.expires_after, "within")

    @property
    def quorum(self) -> Quorum | None:
        """The people who may decide, and how many; `None`: each person alone."""
        if not self.approvers and self.votes == 1 and not self.not_requester:
            return None
        return Quorum(
            approvers=tuple(self.approvers),
            votes=self.votes,
            not_requester=self.not_requester,
        )

    @property
    def form_schema_json(self) -> str | None:
        """The JSON Schema of the form, as JSON text; `None`: no form."""
        return None if self._form is None else self._form.schema_json

    @property
    def form_digest(self) -> str | None:
        """The digest of the form without descriptions; `None`: no form."""
        return None if self._form is None else self._form.digest

    def typed_form(self, form_json: str | None) -> Any:
        """Return a form with its type.

        Args:
            form_json: The form as JSON text, or `None` without a form.

        Returns:
            The value; `None` if the call or the policy has no form.

        Raises:
            ArgumentsInvalid: A validator of the type rejects the form.
        """
        if self._form is None or form_json is None:
            return None
        return self._form.typed(form_json)

    @property
    def deadline_action_json(self) -> str | None:
        """The action of the deadline, as JSON text; `None`: the wait expires."""
        action = self.on_deadline or self.on_expiry
        return None if action is None else dump_action(action)

    @property
    def reminder_seconds(self) -> int:
        """The whole seconds between reminders, or 0."""
        return int(to_seconds(self.remind_after, "remind_after") or 0)

    @property
    def approval_validity(self) -> timedelta | None:
        """The time after an approval during which the call may begin."""
        return to_timedelta(self.valid_for, "valid_for")

    @property
    def digest(self) -> str:
        """The digest of the options, without the code of a condition."""
        mode = "condition" if callable(self.when) else str(self.when is not False)
        periods = [
            to_seconds(self.within or self.expires_after, "within"),
            to_seconds(self.valid_for, "valid_for"),
        ]
        rules: list[object] = [self.strict, self.on_denied, self.on_expired]
        options: list[object] = [mode, self.display_name, *periods, *rules]
        deciders = [
            list(self.approvers),
            self.votes,
            self.not_requester,
            self.deadline_action_json,
            self.reminder_seconds,
        ]
        # Only values that differ from the usual ones are part of the digest.
        if deciders != [[], 1, False, None, 0]:
            options += deciders
        if self.editable is not None or self.recheck is not None:
            editable = None if self.editable is None else list(self.editable)
            options.append({"editable": editable, "recheck": bool(self.recheck)})
        if self.form_digest is not None:
            options.append({"form": self.form_digest})
        return jsontext.digest(jsontext.canonical(options))

    async def needs_approval(
        self, arguments: Mapping[str, Any]
    ) -> bool | Approve | Deny:
        """Return whether a call waits for a person, or the decision of the condition.

        Args:
            arguments: The arguments as Python values by name.

        Returns:
            `True` if the call waits. `Approve` or `Deny` if the condition decided.

        Raises:
            PolicyFailed: The condition raised, or returned something else.
        """
        if not callable(self.when):
            return self.when is not False
        try:
            chosen = callables.accepted_arguments(self.when, arguments)
            verdict = await callables.call(self.when, **chosen)
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            msg = f"the approval policy raised {type(error).__name__}; nothing ran."
            raise PolicyFailed(msg) from error
        if isinstance(verdict, bool):
            return verdict
        if type(verdict) is Deny or verdict == Approve(reason=_reason_of(verdict)):
            # A condition cannot fill in a form, so a person approves.
            needs_form = type(verdict) is Approve and self._form is not None
            return True if needs_form else cast("Approve | Deny", verdict)
        raise PolicyFailed(
            f"the approval policy returned a value of type {type(verdict).__name__}"
            " instead of True, False, a plain Approve or a Deny; nothing ran."
        )

    async def why_not_now(self, arguments: Mapping[str, Any]) -> str | None:
        """Return why an approved call must not begin now, `None` if it may.

        Args:
            arguments: The arguments as Python values by name.

        Returns:
            The note for the person who is asked again.
        """
        if self.recheck is None:
            return None
        try:
            chosen = callables.accepted_arguments(self.recheck, arguments)
            verdict = await callables.call(self.recheck, **chosen)
        except BaseException as error:
            if callables.is_task_cancellation(error):
                raise
            return f"The check before the call raised {type(error).__name__}."
        if verdict is None or verdict is True:
            return None
        if isinstance(verdict, str) and verdict:
            return f"The check before the call failed: {verdict}"
        return "The check before the call says that the approval no longer holds."


def _reason_of(verdict: object) -> str | None:
    """Return the reason of an `Approve`: a rule gives neither edits nor grants."""
    return verdict.reason if type(verdict) is Approve else None


def checked_names(label: str, names: Any) -> tuple[str, ...]:
    """Return names of arguments; raises `InvalidInput` with a label."""
    listed: list[Any] = list(names) if type(names) in (list, tuple) else [None]
    if all(type(name) is str and name for name in listed):
        return tuple(listed)
    got = f"{names!r} ({type(names).__name__})"
    raise InvalidInput(f"{label} must be a list of names of arguments, got {got}.")


def _option_error(option: str, wanted: str, value: object) -> InvalidInput:
    got = f"{value!r} ({type(value).__name__})"
    return InvalidInput(f"ApprovalPolicy: {option} must be {wanted}, got {got}.")
