"""The table of scenarios: the steps of each process, and the expected end.

A row is a script of one sample application, whose processes are numbered. So a process
can be killed or frozen at each storage operation, effect and model turn of each step.
The end is compared with that of an undisturbed run: messages, versions and effects.

Checks of one capability are rows of `tests/engine/crash_scenario.py`. Their processes
are methods with agents and checks of their own, so they have no steps and no
undisturbed run to compare with. Both share `run_recovery.py`: how others bring a run to
its end. `test_killed_scenarios.py` kills the processes of those rows, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from continuations import Answer, Approve, Deny, Grant
from tests.torture.agents import CHOICE, EVENT_DATA, JOB_RESULT
from tests.torture.workspace import CrashPoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations import Wait
    from continuations.core.rows.decisions import Verdict
    from tests.scripts import Line

    DecisionRule: TypeAlias = "Callable[[Wait, bool], Verdict]"

Verb = Literal[
    "start",
    "resume",
    "decide",
    "vote",
    "publish",
    "send",
    "revoke",
    "pause",
    "cancel call",
    "cancel",
    "rewind",
]
FinalStatus = Literal["finished", "failed", "cancelled"]
RESULT_VERBS = {
    "act": "acted",
    "pay": "paid",
    "read": "read",
    "push": "pushed",
    "book": "booked",
    "rush": "rushed",
    "spend": "spent",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step: the operation of one process.

    Attributes:
        verb: The operation.
        decide_count: How many waits are decided.
        seconds_later: How long after the step before.
        crash_point: Where the process dies in the scenario itself.
        model_down: Whether the model raises errors after its first reply.
    """

    verb: Verb
    decide_count: int = 99
    seconds_later: float = 1
    crash_point: CrashPoint | None = None
    model_down: bool = False


def true_decision(wait: Wait, happened: bool) -> Verdict:
    """Approve; for an unknown outcome, say what the effect log says."""
    if wait.kind == "unknown" and happened:
        return Answer(true_result(wait), by="kim")
    return Approve(by="kim")


def true_result(wait: Wait) -> str:
    """Return what a call that happened would have returned."""
    what = wait.arguments["what"]
    answers = {"choose": CHOICE, "scan": JOB_RESULT, "receipt": EVENT_DATA}
    if wait.tool in answers:
        return f"{what}: {answers[wait.tool]}"
    return f"{RESULT_VERBS[wait.tool]} {what}"


def approve_and_remember(wait: Wait, happened: bool) -> Verdict:
    """Approve later calls too; for an unknown outcome, say the truth."""
    if wait.kind == "unknown":
        return true_decision(wait, happened)
    return Approve(by="kim", remember=Grant(wait.tool))


def approve_with_edit(wait: Wait, happened: bool) -> Verdict:
    """Approve with an edit; for an unknown outcome, say the truth."""
    if wait.kind == "unknown":
        return true_decision(wait, happened)
    return Approve(by="kim", arguments={**wait.arguments, "what": "less"})


def deny(wait: Wait, happened: bool) -> Verdict:
    """Deny; for an unknown outcome that happened, say the truth."""
    if wait.kind == "unknown" and happened:
        return true_decision(wait, happened)
    return Deny(by="kim", reason="Not today.")


def deny_only_pay(wait: Wait, happened: bool) -> Verdict:
    """Deny payments, and approve or say the truth about all other calls."""
    return deny(wait, happened) if wait.tool == "pay" else true_decision(wait, happened)


def deny_the_first(wait: Wait, happened: bool) -> Verdict:
    """Deny the first unknown outcome, and say the truth about later ones."""
    return (deny if wait.arguments["what"] == "1" else true_decision)(wait, happened)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A run from its start to its end, step by step.

    Attributes:
        name: The name; also part of the seed of random draws.
        script: The replies of the model.
        steps: The steps, each in a process.
        effects: All allowed effects, each once. A cancelled or failed run may have
            fewer.
        decide: The rule that decides waits.
        final_status: The status of the run at its end.
        resume_with: The operation with which a recovering process advances the run.
        waits_end_by: How waits end: a decision, a cancellation or their deadline.
        sends_message: Whether a message is sent to the run.
        cancels_first_call: Whether the call with the argument 1 is cancelled.
        conversation_varies: Whether the conversation depends on the crash point.
        parallel: Whether calls run at the same time, so that their order varies.
        is_workflow: Whether the root is the workflow `errand`, which calls the agent.
    """

    name: str
    script: dict[str, list[Line]]
    steps: tuple[Step, ...]
    effects: tuple[str, ...]
    decide: DecisionRule = true_decision
    final_status: FinalStatus = "finished"
    resume_with: Literal["resume", "start"] = "resume"
    waits_end_by: Literal["decide", "cancel", "wait"] = "decide"
    sends_message: bool = False
    cancels_first_call: bool = False
    conversation_varies: bool = False
    parallel: bool = False
    is_workflow: bool = False


START, DECIDE, RESUME = Step("start"), Step("decide"), Step("resume")
RESUME_LATER = Step("resume", seconds_later=60)
DEEP_SCRIPT: dict[str, list[Line]] = {
    "go": [[["left", {"input": "A"}], ["push", {"what": "1"}]], "all"],
    "A": [[["clerk", {"input": "C"}], ["act", {"what": "2"}]], "A done"],
    "C": [[["pay", {"what": "3"}], ["read", {"what": "4"}]], "C done"],
}
WIDE_SCRIPT: dict[str, list[Line]] = {
    "go": [
        [
            ["pay", {"what": "1"}],
            ["pay", {"what": "2"}],
            ["left", {"input": "A"}],
            ["right", {"input": "B"}],
        ],
        "all",
    ],
    "A": [[["pay", {"what": "3"}], ["clerk", {"input": "C"}]], "A done"],
    "B": [[["pay", {"what": "4"}]], "B done"],
    "C": [[["pay", {"what": "5"}]], "C done"],
}
PAYMENT_SCRIPT: dict[str, list[Line]] = {
    "go": [[["act", {"what": "1"}]], [["pay", {"what": "2"}]], "end"]
}
TWO_PAYMENTS_SCRIPT: dict[str, list[Line]] = {
    "go": [
        [["left", {"input": "A"}]],
        [["pay", {"what": "2"}]],
        [["push", {"what": "3"}]],
        "end",
    ],
    "A": [[["pay", {"what": "1"}]], "A done"],
}

SPEND_SCRIPT: dict[str, list[Line]] = {
    "go": [[["left", {"input": "A"}]], [["act", {"what": "2"}]], "end"],
    "A": [[["spend", {"what": "1"}]], "A done"],
}
THREE_PAYMENTS_SCRIPT: dict[str, list[Line]] = {
    "go": [[["left", {"input": "A"}]], "end"],
    "A": [[["clerk", {"input": "C"}]], "A done"],
    "C": [*([["pay", {"what": what}]] for what in "123"), "C done"],
}


def crash_in_tool(name: str, tool: str, moment: Literal["before", "after"]) -> Scenario:
    """Return a scenario in which a process dies in a tool of a sub-agent."""
    happens = not name.endswith("deny")
    script: dict[str, list[Line]] = {
        "go": [[["left", {"input": "A"}]], [["act", {"what": "2"}]], "end"],
        "A": [[[tool, {"what": "1"}]], "A done"],
    }
    decide_steps = () if tool == "book" else (DECIDE, RESUME)
    return Scenario(
        name=name,
        script=script,
        # The third line of the logs: two turns, then the tool.
        steps=(
            Step("start", crash_point=CrashPoint("line", 3, moment)),
            RESUME_LATER,
            *decide_steps,
        ),
        effects=(*([f"{tool} 1"] if happens else []), "act 2"),
        decide=deny_the_first if name.endswith("deny") else true_decision,
    )


SCENARIOS = (
    Scenario(
        name="plain",
        script={
            "go": [
                [["act", {"what": "1"}]],
                [["push", {"what": "2"}]],
                [["read", {"what": "3"}]],
                [["book", {"what": "4"}]],
                "end",
            ]
        },
        steps=(START,),
        effects=("act 1", "push 2", "read 3", "book 4"),
    ),
    Scenario(
        name="one approval",
        script=PAYMENT_SCRIPT,
        steps=(START, DECIDE, RESUME),
        effects=("act 1", "pay 2"),
    ),
    Scenario(
        name="depth 3",
        script=DEEP_SCRIPT,
        steps=(START, DECIDE, RESUME),
        effects=("push 1", "act 2", "pay 3", "read 4"),
        parallel=True,
    ),
    Scenario(
        name="five waits",
        script=WIDE_SCRIPT,
        steps=(START, Step("decide", 2), RESUME, DECIDE, RESUME),
        effects=("pay 1", "pay 2", "pay 3", "pay 4", "pay 5"),
        parallel=True,
    ),
    Scenario(
        name="edit",
        script=PAYMENT_SCRIPT,
        steps=(START, DECIDE, RESUME),
        effects=("act 1", "pay less"),
        decide=approve_with_edit,
    ),
    Scenario(
        name="deny",
        script=PAYMENT_SCRIPT,
        steps=(START, DECIDE, RESUME),
        effects=("act 1",),
        decide=deny_only_pay,
    ),
    Scenario(
        name="deny stops",
        script={"go": [[["act", {"what": "1"}], ["rush", {"what": "2"}]], "end"]},
        steps=(START, DECIDE, RESUME),
        effects=("act 1",),
        decide=lambda w, h: (true_decision if w.tool == "act" else deny)(w, h),
        final_status="failed",
    ),
    Scenario(
        name="expiry",
        script={
            "go": [[["left", {"input": "A"}]], [["act", {"what": "2"}]], "end"],
            "A": [[["rush", {"what": "1"}]], "A done"],
        },
        steps=(START, Step("resume", seconds_later=4000)),
        effects=("act 2",),
        waits_end_by="wait",
    ),
    Scenario(
        name="cancel",
        script=WIDE_SCRIPT,
        steps=(START, Step("cancel")),
        effects=(),
        final_status="cancelled",
        waits_end_by="cancel",
        parallel=True,
    ),
    Scenario(
        name="cancel while it works",
        script={
            "go": [[["left", {"input": "A"}], ["pay", {"what": "9"}]], "end"],
            "A": [[["act", {"what": "1", "then": "cancel"}]], "A done"],
        },
        steps=(START,),
        effects=("act 1",),
        final_status="cancelled",
        waits_end_by="cancel",
        parallel=True,
    ),
    Scenario(
        name="two turns",
        script=TWO_PAYMENTS_SCRIPT,
        steps=(START, DECIDE, RESUME, DECIDE, RESUME),
        effects=("pay 1", "pay 2", "push 3"),
    ),
    crash_in_tool("unknown, answer", "act", "after"),
    crash_in_tool("unknown, approve", "act", "before"),
    crash_in_tool("unknown, deny", "act", "before"),
    crash_in_tool("unknown, verify finds it", "book", "after"),
    crash_in_tool("unknown, verify finds nothing", "book", "before"),
    Scenario(
        name="start again",
        script=PAYMENT_SCRIPT,
        steps=(START, START, DECIDE, START),
        effects=("act 1", "pay 2"),
        resume_with="start",
    ),
    Scenario(
        name="message",
        script=PAYMENT_SCRIPT,
        steps=(START, Step("send"), DECIDE, RESUME),
        effects=("act 1", "pay 2"),
        sends_message=True,
        conversation_varies=True,
    ),
    Scenario(
        name="model down",
        script=TWO_PAYMENTS_SCRIPT,
        steps=(Step("start", model_down=True), RESUME, DECIDE, RESUME, DECIDE, RESUME),
        effects=("pay 1", "pay 2", "push 3"),
    ),
    Scenario(
        name="grant",
        script=THREE_PAYMENTS_SCRIPT,
        steps=(START, DECIDE, RESUME),
        effects=("pay 1", "pay 2", "pay 3"),
        decide=approve_and_remember,
    ),
    Scenario(
        name="grant revoked",
        script=THREE_PAYMENTS_SCRIPT,
        steps=(START, DECIDE, Step("revoke"), RESUME, DECIDE, RESUME),
        effects=("pay 1", "pay 2", "pay 3"),
        decide=approve_and_remember,
    ),
    Scenario(
        name="grant revoked after a death",
        script=THREE_PAYMENTS_SCRIPT,
        # The lines of the step: the first payment, a turn, the second payment.
        steps=(
            START,
            DECIDE,
            Step("resume", crash_point=CrashPoint("line", 3, "after")),
            Step("revoke", seconds_later=60),
            RESUME,
            DECIDE,
            RESUME,
            DECIDE,
            RESUME,
        ),
        effects=("pay 1", "pay 2", "pay 3"),
        decide=approve_and_remember,
    ),
    Scenario(
        name="votes",
        script=SPEND_SCRIPT,
        steps=(START, Step("vote"), DECIDE, RESUME),
        effects=("spend 1", "act 2"),
    ),
    Scenario(
        name="escalation",
        script=SPEND_SCRIPT,
        steps=(
            START,
            Step("vote"),
            Step("resume", seconds_later=4000),
            DECIDE,
            RESUME,
        ),
        effects=("spend 1", "act 2"),
    ),
    Scenario(
        name="job",
        script={
            "go": [[["left", {"input": "A"}]], [["pay", {"what": "2"}]], "end"],
            "A": [[["scan", {"what": "1"}]], "A done"],
        },
        steps=(START, DECIDE, RESUME, DECIDE, RESUME),
        effects=("scan 1", "scanned 1", "pay 2"),
    ),
    Scenario(
        name="job reports early",
        script={
            "go": [[["left", {"input": "A"}]], "end"],
            "A": [[["scan", {"what": "1", "then": "early"}]], "A done"],
        },
        steps=(START,),
        effects=("scan 1", "scanned 1"),
    ),
    Scenario(
        name="question and job, depth 3",
        script={
            "go": [[["left", {"input": "A"}]], [["act", {"what": "1"}]], "end"],
            "A": [[["clerk", {"input": "C"}]], "A done"],
            "C": [[["choose", {"what": "2"}], ["scan", {"what": "3"}]], "C done"],
        },
        steps=(START, Step("decide", 1), RESUME, DECIDE, RESUME),
        effects=("act 1", "chosen 2", "scan 3", "scanned 3"),
        parallel=True,
    ),
    Scenario(
        name="one event, four waits",
        script={
            "go": [
                [
                    ["receipt", {"what": "1"}],
                    ["receipt", {"what": "2"}],
                    ["left", {"input": "A"}],
                    ["right", {"input": "B"}],
                ],
                "all",
            ],
            "A": [[["receipt", {"what": "3"}]], "A done"],
            "B": [[["receipt", {"what": "4"}]], "B done"],
        },
        steps=(START, Step("publish"), RESUME),
        effects=("received 1", "received 2", "received 3", "received 4"),
        parallel=True,
    ),
    Scenario(
        name="pause",
        script=PAYMENT_SCRIPT,
        steps=(START, Step("pause"), RESUME, DECIDE, RESUME),
        effects=("act 1", "pay 2"),
    ),
    Scenario(
        name="rewind to the first wait",
        script=SPEND_SCRIPT,
        steps=(START, Step("pause"), RESUME, Step("rewind"), DECIDE, RESUME),
        effects=("spend 1", "act 2"),
    ),
    Scenario(
        name="cancel a call",
        script={
            "go": [[["pay", {"what": "1"}], ["left", {"input": "A"}]], "end"],
            "A": [[["pay", {"what": "2"}]], "A done"],
        },
        steps=(START, Step("cancel call"), DECIDE, RESUME),
        effects=("pay 2",),
        cancels_first_call=True,
        parallel=True,
    ),
    Scenario(
        name="a tool raises",
        script={
            "go": [[["left", {"input": "A"}]], [["act", {"what": "2"}]], "end"],
            "A": [[["act", {"what": "1", "then": "raise:no"}]], "A done"],
        },
        steps=(START,),
        effects=("act 1", "act 2"),
        conversation_varies=True,
    ),
    Scenario(
        name="workflow",
        script={"go": [[["book", {"what": "4"}]], "end"]},
        # Two calls at once, an approval, a sleep of an hour, an agent.
        steps=(START, DECIDE, RESUME, Step("resume", seconds_later=4000)),
        effects=("act 1", "act 2", "pay 3", "book 4"),
        parallel=True,
        is_workflow=True,
    ),
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
