"""Hooks, guardrails, the choice of a tool, and the errors of tools."""

from __future__ import annotations

from continuations.errors import HookFailed, InvalidInput
from tests.errors.case import Area, Case

_IMPORTS = """
                from continuations import Answer, ApprovalPolicy, Deny
                from continuations.guardrails import Guardrail, Guardrails
                from continuations.hooks import ChangeRequest, Hooks, TurnInfo

                class Verdict:
                    tripped: bool
                    reason: str

                def check(info):
                    return None
"""
_RUN = (
    'Runner(Agent("clerk", model=ScriptedModel(["done"]), hooks=hooks), '
    "store=store, clock=clock)"
)
_FIXED = (
    'Runner(Agent("clerk", model=ScriptedModel(["done"])), store=store, '
    'clock=clock).resume("jane-1")'
)


def _case(name: str, wrong: str, right: str, *names: str) -> Case:
    return Case(name, InvalidInput, wrong, right, setup=_IMPORTS, names=names)


def _failing(name: str, hook: str, *names: str) -> Case:
    return Case(
        name,
        HookFailed,
        f'{_RUN}.start(TASK, run_id="jane-1")',
        _FIXED,
        setup=f"{_IMPORTS}                hooks = Hooks({hook})\n",
        names=("jane-1", "clerk", *names),
    )


HOOKS = Area(
    "Hooks and guardrails",
    (
        _case(
            "agent-tool-choice-of-a-missing-tool",
            'Agent("clerk", tools=[book], tool_choice="bok")',
            'Agent("clerk", tools=[book], tool_choice="book")',
            "clerk",
            "tool_choice",
            "bok",
        ),
        _case(
            "agent-tool-choice-twice",
            'Agent("clerk", tools=[book], tool_choice="auto", '
            'settings={"tool_choice": "auto"})',
            'Agent("clerk", tools=[book], tool_choice="auto")',
            "clerk",
            "tool_choice",
        ),
        Case(
            "agent-tool-errors-of-another-class",
            InvalidInput,
            'Agent("clerk", tools=[other], tool_errors=lambda error, call: "failed")',
            'other.on_error = lambda error, call: "failed"; '
            'Agent("clerk", tools=[other], tool_errors=lambda error, call: "failed")',
            setup="""
                from types import SimpleNamespace
                made = tool(lambda: "done", name="other", description="Act.")
                names = [name for name in dir(made) if not name.startswith("_")]
                other = SimpleNamespace(**{name: getattr(made, name) for name in names})
            """,
            names=("other",),
        ),
        _case(
            "guardrail-check",
            'Guardrails(input=["check"])',
            "Guardrails(input=[check])",
            "check",
        ),
        _case(
            "guardrail-without-a-name",
            "Guardrail(check=lambda info: None)",
            'Guardrail(check=lambda info: None, name="any")',
            "name",
        ),
        _case(
            "guardrail-name",
            "Guardrail(check=check, name=5)",
            'Guardrail(check=check, name="any")',
            "name",
        ),
        _case(
            "guardrails-list",
            "Guardrails(output=check)",
            "Guardrails(output=[check])",
            "output",
        ),
        _case(
            "guardrails-on-trip",
            'Guardrails(input=[Guardrail(check=check, on_trip="retry")])',
            'Guardrails(input=[Guardrail(check=check, on_trip="fail")])',
            "input",
            "retry",
        ),
        _case(
            "guardrails-approval-for-tools",
            "Guardrails(tools=[Guardrail(check=check, on_trip='ask', "
            "approval=ApprovalPolicy())])",
            "Guardrails(tools=[Guardrail(check=check, on_trip='ask')])",
            "tools",
            "approval",
        ),
        _case(
            "guardrail-approval",
            "Guardrail(check=check, on_trip='ask', approval=True)",
            "Guardrail(check=check, on_trip='ask', approval=ApprovalPolicy())",
            "approval",
        ),
        _case(
            "guardrail-approval-without-asking",
            "Guardrail(check=check, approval=ApprovalPolicy())",
            "Guardrail(check=check, on_trip='ask', approval=ApprovalPolicy())",
            "approval",
            "on_trip",
        ),
        _case(
            "guardrail-approval-of-calls",
            "Guardrail(check=check, on_trip='ask', approval=ApprovalPolicy(strict=True))",
            "Guardrail(check=check, on_trip='ask', approval=ApprovalPolicy())",
            "strict",
        ),
        _case(
            "guardrail-approval-answer",
            "Guardrail(check=check, on_trip='ask', approval=ApprovalPolicy(within=5, "
            "on_deadline=Answer('no')))",
            "Guardrail(check=check, on_trip='ask', approval=ApprovalPolicy(within=5, "
            "on_deadline=Deny()))",
            "on_deadline",
        ),
        _case(
            "guardrail-agent-with-tools",
            'Guardrail(check=Agent("checker", tools=[book], output_type=Verdict))',
            'Guardrail(check=Agent("checker", output_type=Verdict))',
            "checker",
        ),
        _case(
            "guardrail-agent-output",
            'Guardrail(check=Agent("checker", output_type=int))',
            'Guardrail(check=Agent("checker", output_type=Verdict))',
            "checker",
            "output_type",
        ),
        _failing("hook-returns", 'after_model=lambda info: "no"', "after_model"),
    ),
)
