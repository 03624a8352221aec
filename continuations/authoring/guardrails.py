"""Guardrails: checks of the input, of the output and of the calls of an agent."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

from continuations.authoring import callables
from continuations.errors import InvalidInput
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from continuations.authoring.approval import ApprovalPolicy
    from continuations.core.model_protocol import Model
    from continuations.core.rows.run import GuardrailStage

    Check: TypeAlias = "Callable[[Any], Tripped | Awaitable[Tripped | None] | None]"
    GuardrailLike: TypeAlias = "Guardrail | Check | CheckingAgent"


class CheckingAgent(Protocol):
    """An agent that checks inputs, outputs or calls; every `Agent` is one."""

    @property
    def name(self) -> str:
        """The name of the agent."""
        ...

    @property
    def model(self) -> str | Model | None:
        """The name of a model, or a `Model`; `None`: that of the checked agent."""
        ...

    @property
    def tools_by_name(self) -> Mapping[str, Any]:
        """The tools by name; there must be none."""
        ...

    @property
    def output_type(self) -> Any:
        """A type with the fields `tripped` and `reason`."""
        ...

    async def make_instructions(self, agent_input: Any, context: Any) -> str:
        """Return the system message of a check."""
        ...


OnTrip = Literal["fail", "retry", "refuse", "ask"]
# The consequences that guardrails of each stage may have, the default first.
ON_TRIP: dict[GuardrailStage, tuple[OnTrip, ...]] = {
    "input": ("fail", "ask"),
    "output": ("fail", "retry", "ask"),
    "tool": ("refuse", "ask", "fail"),
}


@dataclass(frozen=True, slots=True)
class Tripped:
    """The guardrail trips; its function returns it.

    Attributes:
        reason: The reason. People read it, and the model if it goes on.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardrail:
    """A check with its options, for `Guardrails`.

    Attributes:
        check: A plain or async function that returns `None` or `Tripped(reason)`. Or an
            agent without tools, whose `output_type` has the fields `tripped` (a bool)
            and `reason` (a text). It reads the text of the input or of the output, or
            the tool and the arguments of the call as JSON.
        name: The name. Default: the name of the function or of the agent.
        on_trip: The consequence. `"fail"`: the agent ends with the error `guardrail`;
            for a call, the whole run fails. `"retry"` (output): the model is asked
            again, at most `output_retries` times, then the agent ends. `"refuse"`
            (tools): the call does not run, and the model reads the reason. `"ask"`: a
            person decides, and reads the reason. An input or output that no person
            accepts has the consequence `"fail"`. Default: `"refuse"` for tools, else
            `"fail"`.
        approval: The people who accept an input or output, and until when: an
            `ApprovalPolicy` with `approvers`, `votes`, `not_requester`, `within`,
            `on_deadline` and `remind_after` only. It needs `on_trip="ask"`. A call
            follows the policy of its tool. Default: every person, without a deadline.

    Raises:
        InvalidInput: An option is invalid.
    """

    check: Check | CheckingAgent
    name: str | None = None
    on_trip: OnTrip | None = None
    approval: ApprovalPolicy | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        if self.approval is not None:
            _check_policy(self)
        check: object = self.check
        if is_agent(check):
            _check_agent(cast("CheckingAgent", check))
        elif not callables.is_observer(check):
            raise _not_a_check(check)
        name: object = self.name
        if name is None and not is_agent(check):
            name = getattr(check, "__name__", None)
            if name == "<lambda>":
                name = None
            if name is None:
                raise InvalidInput(
                    "Guardrail: a function without a name of its own needs name=. Pass "
                    "Guardrail(check=..., name=...)."
                )
        elif name is None:
            name = cast("CheckingAgent", check).name
        if not isinstance(name, str) or not name:
            msg = f"Guardrail: name must be a string, got {name!r}. Pass a name."
            raise InvalidInput(msg)
        object.__setattr__(self, "name", name)

    @property
    def agent(self) -> CheckingAgent | None:
        """The agent that checks, or `None` if a function checks."""
        return cast("CheckingAgent", self.check) if is_agent(self.check) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardrails:
    """Checks of the input, of the output and of the calls of an agent.

    Each item is a function, an agent, or a `Guardrail` with options. They are called in
    their order, and the first one that trips counts. If one asks a person and a later
    one refuses, the refusal counts. A guardrail may be called again after a crash or an
    approval.

    Attributes:
        input: Asked with a `TurnInfo` before the first request after a message of a
            user, or after the call of another agent.
        output: Asked with a `ReplyInfo` before a reply becomes the output.
        tools: Asked with a `CallInfo` after the hook `before_tool`, before the approval
            policy.
        asks_agents_about_calls: Whether one of `tools` is an agent. The class sets it.

    Raises:
        InvalidInput: An item is not a guardrail for its stage.
    """

    input: Sequence[GuardrailLike] = ()
    output: Sequence[GuardrailLike] = ()
    tools: Sequence[GuardrailLike] = ()
    asks_agents_about_calls: bool = field(
        default=False, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Check the items, and give each its options."""
        stages: tuple[tuple[str, GuardrailStage], ...] = (
            ("input", "input"),
            ("output", "output"),
            ("tools", "tool"),
        )
        for option, stage in stages:
            made = _checked(option, stage, getattr(self, option))
            object.__setattr__(self, option, made)
        asks = any(each.agent is not None for each in self.of_stage("tool"))
        object.__setattr__(self, "asks_agents_about_calls", asks)

    def of_stage(self, stage: GuardrailStage) -> tuple[Guardrail, ...]:
        """Return the guardrails of a stage, in their order.

        Args:
            stage: The stage.

        Returns:
            Guardrails with their names and consequences.
        """
        stages = {"input": self.input, "output": self.output, "tool": self.tools}
        return cast("tuple[Guardrail, ...]", stages[stage])


def _checked(option: str, stage: GuardrailStage, items: Any) -> tuple[Guardrail, ...]:
    if type(items) not in (list, tuple):
        raise InvalidInput(
            f"Guardrails: {option} must be a list of functions, agents and Guardrail "
            f"objects, got {callables.shown(items)}. Pass {option}=[...]."
        )
    return tuple([_checked_guardrail(option, stage, item) for item in items])


def _checked_guardrail(option: str, stage: GuardrailStage, item: Any) -> Guardrail:
    made = item if isinstance(item, Guardrail) else Guardrail(check=item)
    allowed = ON_TRIP[stage]
    on_trip = allowed[0] if made.on_trip is None else made.on_trip
    if on_trip not in allowed:
        names = ", ".join(f'"{each}"' for each in allowed)
        raise InvalidInput(
            f"Guardrails: {option}: on_trip of {made.name} must be one of {names}, got "
            f"{made.on_trip!r}. Pass one of them."
        )
    if stage == "tool" and made.approval is not None:
        raise InvalidInput(
            f"Guardrails: tools: approval of {made.name} would not count, because a "
            "call follows the policy of its tool. Leave approval= out."
        )
    return replace(made, on_trip=on_trip)


def is_agent(value: object) -> bool:
    """Return whether a check is an agent."""
    return hasattr(value, "make_instructions") and hasattr(value, "tools_by_name")


# The options of a policy that say who decides, and until when.
_POLICY_OPTIONS = frozenset(
    {
        "approvers",
        "votes",
        "not_requester",
        "within",
        "expires_after",
        "on_deadline",
        "on_expiry",
        "remind_after",
    }
)


def _check_policy(guardrail: Guardrail) -> None:
    """Check who accepts a text; raises `InvalidInput`."""
    from continuations.authoring.approval import ApprovalPolicy  # noqa: PLC0415 - rarely given
    from continuations.core.rows.decisions import Answer  # noqa: PLC0415

    policy: object = guardrail.approval
    if not isinstance(policy, ApprovalPolicy):
        raise InvalidInput(
            "Guardrail: approval must be an ApprovalPolicy, got "
            f"{type(policy).__name__}. Pass ApprovalPolicy(...)."
        )
    if guardrail.on_trip != "ask":
        msg = 'Guardrail: approval= needs on_trip="ask". Pass both, or neither.'
        raise InvalidInput(msg)
    plain = ApprovalPolicy()
    for option in ApprovalPolicy.__dataclass_fields__:
        is_given = getattr(policy, option) != getattr(plain, option)
        if is_given and option not in _POLICY_OPTIONS:
            raise InvalidInput(
                f"Guardrail: the policy has {option}, which is about calls. Leave "
                f"{option}= out."
            )
    if isinstance(policy.on_deadline or policy.on_expiry, Answer):
        raise InvalidInput(
            "Guardrail: on_deadline of the policy is an Answer, and no answer replaces "
            "a text. Pass a Deny, or escalate(...)."
        )


def _check_agent(agent: CheckingAgent) -> None:
    if agent.tools_by_name or getattr(agent, "tool_sources", None):
        msg = f"Guardrail: the agent {agent.name} has tools. Pass an agent without any."
        raise InvalidInput(msg)
    fields: set[str] = set()
    classes: tuple[Any, ...] = getattr(agent.output_type, "__mro__", ())
    for each in classes:
        fields |= {*getattr(each, "__annotations__", ())}
    if not {"tripped", "reason"} <= fields:
        raise InvalidInput(
            f"Guardrail: output_type of the agent {agent.name} must be a class with "
            "the fields tripped and reason. Declare both."
        )


def _not_a_check(value: object) -> InvalidInput:
    return InvalidInput(
        "Guardrail: check must be a function with one parameter, or an agent, got "
        f"{callables.shown(value)}. Declare def check(info)."
    )
