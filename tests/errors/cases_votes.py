"""Approval by several persons: who may decide, and what a deadline does."""

from __future__ import annotations

from continuations.errors import Corrupt, DecisionRefused, InvalidInput
from tests.errors.case import Area, Case

_POLICY = """
    def ask_for(groups=None, by="jane", **options):
        payer = tool(pay.function, approval=ApprovalPolicy(**options))
        runner = Runner(clerk(payer), store=store, clock=clock, groups=groups)
        (wait,) = runner.start(TASK, run_id="jane-1", by=by).waits
        return runner, wait
"""
_TWO = (
    _POLICY
    + """
    runner, wait = ask_for(approvers=["kim", "lee", "max"], votes=2)
    runner.decide(wait.id, Approve(by="kim"))
"""
)
_FORGED = """
    from dataclasses import replace
    from continuations.wire.records import DECISION
    from continuations.ledger import layout
    made = runner.decide(wait.id, Approve(by="lee"))
    key = layout.decision_key(wait.id)
    body = DECISION.encode(replace(made, voters=()), "jane-1")
"""

VOTES = Area(
    "Approval by several persons",
    (
        Case(
            "votes-twice",
            DecisionRefused,
            'runner.decide(wait.id, Answer("later", by="kim"))',
            'runner.decide(wait.id, Deny(by="lee"))',
            setup=_TWO,
            names=("kim",),
        ),
        Case(
            "votes-requester-unknown",
            DecisionRefused,
            'runner.decide(wait.id, Approve(by="kim"))',
            'runner.cancel("jane-1"); runner.start(TASK, run_id="jane-2", by="jane")',
            setup=_POLICY + "    runner, wait = ask_for(by=None, not_requester=True)\n",
            names=("by",),
        ),
        Case(
            "votes-groups-unknown",
            DecisionRefused,
            'runner.decide(wait.id, Approve(by="kim"))',
            'runner.decide(wait.id, Approve(by=Identity("kim", groups=["finance"])))',
            setup=_POLICY + '    runner, wait = ask_for(approvers=["group:finance"])\n',
            names=("groups", "kim"),
        ),
        Case(
            "votes-groups-result",
            InvalidInput,
            'runner.decide(wait.id, Approve(by="kim"))',
            'ask_again = Runner([], store=store, clock=clock, groups=lambda n: ["finance"]); ask_again.decide(wait.id, Approve(by="kim"))',
            setup=_POLICY
            + '    runner, wait = ask_for(approvers=["group:finance"], groups=lambda n: "finance")\n',
            names=("groups",),
        ),
        Case(
            "votes-groups-function",
            InvalidInput,
            "Runner([], store=store, groups=['finance'])",
            "Runner([], store=store, groups=lambda name: ['finance'])",
            names=("groups",),
        ),
        Case(
            "votes-forged-decision",
            Corrupt,
            """
                await_(store.delete(key))
                await_(store.create(key, body))
                runner.resume("jane-1")
            """,
            'runner.cancel("jane-1")',
            setup=_TWO + _FORGED,
        ),
        Case(
            "votes-number",
            InvalidInput,
            "ApprovalPolicy(votes=0)",
            "ApprovalPolicy(votes=1)",
            names=("votes",),
        ),
        Case(
            "votes-more-than-approvers",
            InvalidInput,
            'ApprovalPolicy(approvers=["kim"], votes=2)',
            'ApprovalPolicy(approvers=["kim", "lee"], votes=2)',
            names=("votes",),
        ),
        Case(
            "policy-deadline-without-period",
            InvalidInput,
            "ApprovalPolicy(on_deadline=Deny())",
            "ApprovalPolicy(on_deadline=Deny(), within=60)",
            names=("on_deadline", "within"),
        ),
        Case(
            "policy-deadline-value",
            InvalidInput,
            "ApprovalPolicy(within=60, on_deadline=Answer({1}))",
            "ApprovalPolicy(within=60, on_deadline=Answer([1]))",
            names=("on_deadline",),
        ),
        Case(
            "escalate-to-nobody",
            InvalidInput,
            "escalate(to=[], within=60)",
            'escalate(to=["cfo"], within=60)',
            names=("to",),
        ),
        Case(
            "escalate-within",
            InvalidInput,
            'escalate(to=["cfo"], within=0.5)',
            'escalate(to=["cfo"], within=1)',
            names=("within",),
        ),
    ),
)
