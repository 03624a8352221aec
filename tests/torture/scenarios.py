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
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

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


@dataclass(frozen=True, slots=True)
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
APPROVED = (START, DECIDE, RESUME)


def script(**turns: list[str | list[str]]) -> dict[str, list[Line]]:
    """Return what models say about inputs: a text, or calls as `tool argument then`."""
    return {
        task: [line if isinstance(line, str) else _calls(line) for line in lines]
        for task, lines in turns.items()
    }


def _calls(line: list[str]) -> Line:
    calls: list[list[Any]] = []
    for name, argument, *then in map(str.split, line):
        word = "input" if name in ("left", "right", "clerk") else "what"
        calls.append([name, {word: argument, **({"then": then[0]} if then else {})}])
    return calls


DEEP_SCRIPT = script(
    go=[["left A", "push 1"], "all"],
    A=[["clerk C", "act 2"], "A done"],
    C=[["pay 3", "read 4"], "C done"],
)
WIDE_SCRIPT = script(
    go=[["pay 1", "pay 2", "left A", "right B"], "all"],
    A=[["pay 3", "clerk C"], "A done"],
    B=[["pay 4"], "B done"],
    C=[["pay 5"], "C done"],
)
PAYMENT_SCRIPT = script(go=[["act 1"], ["pay 2"], "end"])
TWO_PAYMENTS_SCRIPT = script(
    go=[["left A"], ["pay 2"], ["push 3"], "end"], A=[["pay 1"], "A done"]
)

SPEND_SCRIPT = script(go=[["left A"], ["act 2"], "end"], A=[["spend 1"], "A done"])
THREE_PAYMENTS_SCRIPT = script(
    go=[["left A"], "end"],
    A=[["clerk C"], "A done"],
    C=[["pay 1"], ["pay 2"], ["pay 3"], "C done"],
)


def crash_in_tool(name: str, tool: str, moment: Literal["before", "after"]) -> Scenario:
    """Return a scenario in which a process dies in a tool of a sub-agent."""
    happens = not name.endswith("deny")
    decide_steps = () if tool == "book" else (DECIDE, RESUME)
    return Scenario(
        name,
        script(go=[["left A"], ["act 2"], "end"], A=[[f"{tool} 1"], "A done"]),
        # The third line of the logs: two turns, then the tool.
        (
            Step("start", crash_point=CrashPoint("line", 3, moment)),
            RESUME_LATER,
            *decide_steps,
        ),
        (*([f"{tool} 1"] if happens else []), "act 2"),
        decide=deny_the_first if name.endswith("deny") else true_decision,
    )


SCENARIOS = (
    Scenario(
        "plain",
        script(go=[["act 1"], ["push 2"], ["read 3"], ["book 4"], "end"]),
        (START,),
        ("act 1", "push 2", "read 3", "book 4"),
    ),
    Scenario("one approval", PAYMENT_SCRIPT, APPROVED, ("act 1", "pay 2")),
    Scenario(
        "depth 3",
        DEEP_SCRIPT,
        APPROVED,
        ("push 1", "act 2", "pay 3", "read 4"),
        parallel=True,
    ),
    Scenario(
        "five waits",
        WIDE_SCRIPT,
        (START, Step("decide", 2), RESUME, DECIDE, RESUME),
        ("pay 1", "pay 2", "pay 3", "pay 4", "pay 5"),
        parallel=True,
    ),
    Scenario(
        "edit",
        PAYMENT_SCRIPT,
        APPROVED,
        ("act 1", "pay less"),
        decide=approve_with_edit,
    ),
    Scenario("deny", PAYMENT_SCRIPT, APPROVED, ("act 1",), decide=deny_only_pay),
    Scenario(
        "deny stops",
        script(go=[["act 1", "rush 2"], "end"]),
        APPROVED,
        ("act 1",),
        decide=lambda w, h: (true_decision if w.tool == "act" else deny)(w, h),
        final_status="failed",
    ),
    Scenario(
        "expiry",
        script(go=[["left A"], ["act 2"], "end"], A=[["rush 1"], "A done"]),
        (START, Step("resume", seconds_later=4000)),
        ("act 2",),
        waits_end_by="wait",
    ),
    Scenario(
        "cancel",
        WIDE_SCRIPT,
        (START, Step("cancel")),
        (),
        final_status="cancelled",
        waits_end_by="cancel",
        parallel=True,
    ),
    Scenario(
        "cancel while it works",
        script(go=[["left A", "pay 9"], "end"], A=[["act 1 cancel"], "A done"]),
        (START,),
        ("act 1",),
        final_status="cancelled",
        waits_end_by="cancel",
        parallel=True,
    ),
    Scenario(
        "two turns",
        TWO_PAYMENTS_SCRIPT,
        (START, DECIDE, RESUME, DECIDE, RESUME),
        ("pay 1", "pay 2", "push 3"),
    ),
    crash_in_tool("unknown, answer", "act", "after"),
    crash_in_tool("unknown, approve", "act", "before"),
    crash_in_tool("unknown, deny", "act", "before"),
    crash_in_tool("unknown, verify finds it", "book", "after"),
    crash_in_tool("unknown, verify finds nothing", "book", "before"),
    Scenario(
        "start again",
        PAYMENT_SCRIPT,
        (START, START, DECIDE, START),
        ("act 1", "pay 2"),
        resume_with="start",
    ),
    Scenario(
        "message",
        PAYMENT_SCRIPT,
        (START, Step("send"), DECIDE, RESUME),
        ("act 1", "pay 2"),
        sends_message=True,
        conversation_varies=True,
    ),
    Scenario(
        "model down",
        TWO_PAYMENTS_SCRIPT,
        (Step("start", model_down=True), RESUME, DECIDE, RESUME, DECIDE, RESUME),
        ("pay 1", "pay 2", "push 3"),
    ),
    Scenario(
        "grant",
        THREE_PAYMENTS_SCRIPT,
        APPROVED,
        ("pay 1", "pay 2", "pay 3"),
        decide=approve_and_remember,
    ),
    Scenario(
        "grant revoked",
        THREE_PAYMENTS_SCRIPT,
        (START, DECIDE, Step("revoke"), RESUME, DECIDE, RESUME),
        ("pay 1", "pay 2", "pay 3"),
        decide=approve_and_remember,
    ),
    # The lines of the step: the first payment, a turn, the second payment.
    Scenario(
        "grant revoked after a death",
        THREE_PAYMENTS_SCRIPT,
        (
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
        ("pay 1", "pay 2", "pay 3"),
        decide=approve_and_remember,
    ),
    Scenario(
        "votes",
        SPEND_SCRIPT,
        (START, Step("vote"), DECIDE, RESUME),
        ("spend 1", "act 2"),
    ),
    Scenario(
        "escalation",
        SPEND_SCRIPT,
        (START, Step("vote"), Step("resume", seconds_later=4000), DECIDE, RESUME),
        ("spend 1", "act 2"),
    ),
    Scenario(
        "job",
        script(go=[["left A"], ["pay 2"], "end"], A=[["scan 1"], "A done"]),
        (START, DECIDE, RESUME, DECIDE, RESUME),
        ("scan 1", "scanned 1", "pay 2"),
    ),
    Scenario(
        "job reports early",
        script(go=[["left A"], "end"], A=[["scan 1 early"], "A done"]),
        (START,),
        ("scan 1", "scanned 1"),
    ),
    Scenario(
        "question and job, depth 3",
        script(
            go=[["left A"], ["act 1"], "end"],
            A=[["clerk C"], "A done"],
            C=[["choose 2", "scan 3"], "C done"],
        ),
        (START, Step("decide", 1), RESUME, DECIDE, RESUME),
        ("act 1", "chosen 2", "scan 3", "scanned 3"),
        parallel=True,
    ),
    Scenario(
        "one event, four waits",
        script(
            go=[["receipt 1", "receipt 2", "left A", "right B"], "all"],
            A=[["receipt 3"], "A done"],
            B=[["receipt 4"], "B done"],
        ),
        (START, Step("publish"), RESUME),
        ("received 1", "received 2", "received 3", "received 4"),
        parallel=True,
    ),
    Scenario(
        "pause",
        PAYMENT_SCRIPT,
        (START, Step("pause"), RESUME, DECIDE, RESUME),
        ("act 1", "pay 2"),
    ),
    Scenario(
        "rewind to the first wait",
        SPEND_SCRIPT,
        (START, Step("pause"), RESUME, Step("rewind"), DECIDE, RESUME),
        ("spend 1", "act 2"),
    ),
    Scenario(
        "cancel a call",
        script(go=[["pay 1", "left A"], "end"], A=[["pay 2"], "A done"]),
        (START, Step("cancel call"), DECIDE, RESUME),
        ("pay 2",),
        cancels_first_call=True,
        parallel=True,
    ),
    Scenario(
        "a tool raises",
        script(go=[["left A"], ["act 2"], "end"], A=[["act 1 raise:no"], "A done"]),
        (START,),
        ("act 1", "act 2"),
        conversation_varies=True,
    ),
    # Two calls at once, an approval, a sleep of an hour, an agent.
    Scenario(
        "workflow",
        script(go=[["book 4"], "end"]),
        (START, DECIDE, RESUME, Step("resume", seconds_later=4000)),
        ("act 1", "act 2", "pay 3", "book 4"),
        parallel=True,
        is_workflow=True,
    ),
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
