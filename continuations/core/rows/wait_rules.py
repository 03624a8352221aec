"""The kinds of waits: one table of their rules, and of their words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from continuations.core.rows.decisions import Answer, Fail, VerdictKind
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


WaitKind = Literal[
    "approval",
    "unknown",
    "question",
    "event",
    "timer",
    "external",
    "model",
    "operator",
    "input",
    "output",
    "alarm",
]
WAIT_KINDS: frozenset[str] = frozenset(get_args(WaitKind))
# The subject of a wait: a call, a frame (no turn of its model begins), or the run
# (nothing begins).
SubjectKind = Literal["call", "frame", "run"]


@dataclass(frozen=True, slots=True)
class VerdictWords:
    """The words with which a verdict is offered to a person.

    Attributes:
        label: Text of its button.
        meaning: The statement of the person, and its consequence.
        value_label: Label of the text field for the value of an `Answer`.
    """

    label: str
    meaning: str
    value_label: str = "Result"


@dataclass(frozen=True, slots=True)
class StateWords:
    """The state of a row of a run that waits: an icon, a tone and words.

    Attributes:
        icon: The name of the icon.
        tone: The class of its color: `wt` (a person), `od` (unknown outcome) or `id`.
        words: The state.
    """

    icon: str
    tone: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KindWords:
    """How pages name one kind of wait: an icon and a word, never a color alone.

    Attributes:
        icon: The name of the icon.
        word: The word of the kind.
        tone: The class of the color, or an empty text.
        arguments: The words before the name of the tool, above the arguments.
        note_icon: The icon beside the sentence that says what is asked.
        state: The state of a row that waits.
    """

    icon: str
    word: str
    tone: str = ""
    arguments: str = "The call that waits:"
    note_icon: str = "clock"
    state: StateWords


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRules:
    """The rules of one kind of wait, and its words for people.

    Attributes:
        subjects: The parts of a run that a wait of this kind may suspend.
        call_state: Name of the state that the waiting call has (`calls.STATE_TYPES`);
            empty if no call waits.
        verdicts: Verdicts that end the wait, in the order in which they are offered.
        ended_by: The end of the wait in words, for an error about a wrong verdict.
        asks_person: Whether a person is asked. `waiting()` lists these waits.
        has_object: Whether the wait has an object of its own in the store. A wait that
            only the clock ends is a row of its run and a marker.
        ended_by_unpause: Whether only `unpause` ends the wait.
        may_wake: Whether `wake` ends the wait before its deadline.
        has_known_id: Whether another system has the id before the wait is opened.
        on_deadline: The consequence of the deadline if the tool names none; `None`: the
            call ends as expired.
        function: The function with which a tool opens the wait; empty if none does.
        takes_events: Whether a published event ends the wait.
        is_extendable: Whether the deadline can be moved while the wait is open.
        may_have_run: Whether the call may have run before the wait was opened. Then
            `Approve` repeats the call.
        allows_edits: Whether `Approve` may replace the arguments.
        follows_policy: Whether the tool's approval policy applies: it sets deadline
            and validity, it says what a denial or an expiry does, and the digest
            covers the contract that it approves.
        question: Title of its page and subject of its mail, with `{tool}`.
        explanation: Why the wait exists, in one or two sentences.
        awaited: The words after "the run waits for".
        question_label: The label of the tool's question, or of its job.
        deadline_label: The label of the deadline.
        policy_label: The label of the policy, condition or guardrail that asks.
        judges: The text of an agent that a person judges: `"input"` or `"output"`, or
            an empty text. Only `Approve` lets the agent use it. The digest covers the
            text.
        suspends: Whether a wait without a call suspends its frame or the run.
        asks_question: Whether the tool's question is the title of the page.
        truth: Facts that a person needs before the decision; empty if the explanation
            is enough.
        denied: The past participle for a denial, as in "If declined".
        expired: The consequence of the deadline without another action.
        denied_at_deadline: The consequence if the deadline denies.
        words: How pages name the kind.
    """

    subjects: tuple[SubjectKind, ...] = ("call",)
    call_state: str = ""
    verdicts: Mapping[VerdictKind, VerdictWords]
    ended_by: str = "a decision"
    asks_person: bool = True
    has_object: bool = True
    ended_by_unpause: bool = False
    may_wake: bool = False
    has_known_id: bool = False
    on_deadline: Answer | Fail | None = None
    function: str = ""
    takes_events: bool = False
    is_extendable: bool = False
    may_have_run: bool = False
    allows_edits: bool = False
    follows_policy: bool = False
    question: str
    explanation: str
    awaited: str
    question_label: str = "Question"
    deadline_label: str = "Decide by"
    policy_label: str = "Policy"
    judges: Literal["", "input", "output"] = ""
    suspends: bool = True
    asks_question: bool = False
    truth: str = ""
    denied: str = "denied"
    expired: str = "the work goes on"
    denied_at_deadline: str = "denied, nothing runs"
    words: KindWords

    @property
    def judges_text(self) -> bool:
        """Whether a person judges the input or the output of an agent."""
        return bool(self.judges)


# The one place that tells kinds of waits apart: other code asks `Wait.rules`.
WAIT_RULES: dict[WaitKind, WaitRules] = {
    "approval": WaitRules(
        call_state="waiting",
        verdicts={
            "approve": VerdictWords("Approve", "The call runs exactly as shown."),
            "deny": VerdictWords(
                "Deny", "The call does not run. The agent gets your reason."
            ),
            "answer": VerdictWords(
                "Answer",
                "The call does not run. The agent gets your text as its result:",
            ),
        },
        allows_edits=True,
        follows_policy=True,
        question="Approve {tool}?",
        explanation="An agent asks for permission to call a tool.",
        awaited="approval",
        expired="expired, nothing runs",
        truth="Runs once, exactly as shown.",
        words=KindWords(
            icon="shield",
            word="Approval",
            tone="is-wait",
            arguments="What will run:",
            note_icon="lock",
            state=StateWords("shield", "wt", "waits"),
        ),
    ),
    "unknown": WaitRules(
        call_state="unknown",
        verdicts={
            "answer": VerdictWords(
                "It happened",
                "You checked that the call had its effect. The agent gets this result:",
            ),
            "deny": VerdictWords(
                "It did not happen: do not run it",
                "You checked that the call had no effect. The call does not run again.",
            ),
            "approve": VerdictWords(
                "It did not happen: run it",
                "You checked that the call had no effect. The call runs exactly as "
                "shown.",
            ),
        },
        # An edit is refused: the call may have run with the arguments of the wait.
        may_have_run=True,
        question="Did {tool} take effect?",
        explanation="A tool call was started, and its outcome is unknown. Before you "
        "decide, check whether it took effect.",
        awaited="a decision about its unknown outcome",
        expired="expired, nothing runs again",
        truth="The call was started once, and its outcome is unknown. Check whether it "
        "took effect before you decide. If it did, running it again repeats it.",
        words=KindWords(
            icon="warn",
            word="Did it happen?",
            tone="is-odd",
            arguments="What was started:",
            note_icon="warn",
            state=StateWords("warn", "od", "unknown"),
        ),
    ),
    "question": WaitRules(
        call_state="parked",
        function="ask",
        verdicts={
            "answer": VerdictWords("Answer", "The tool gets your answer:", "Answer"),
            "deny": VerdictWords(
                "Decline", "The question stays unanswered. The agent gets your reason."
            ),
        },
        question="Answer a question of {tool}",
        explanation="A tool asks a person and waits for the answer.",
        awaited="an answer",
        deadline_label="Answer by",
        asks_question=True,
        truth="A tool asks a person and waits for the answer. The first answer ends "
        "the question.",
        denied="declined",
        expired="expired, no answer",
        denied_at_deadline="declined",
        words=KindWords(
            icon="ask",
            word="Question",
            arguments="The call that asks:",
            note_icon="ask",
            state=StateWords("ask", "wt", "asks"),
        ),
    ),
    "event": WaitRules(
        call_state="parked",
        function="wait_for",
        verdicts={
            "answer": VerdictWords("Give the data", "The tool gets your data:", "Data"),
            "fail": VerdictWords(
                "Fail", "The event does not come. The agent gets your error."
            ),
        },
        ended_by="an event, or its data as an Answer",
        asks_person=False,
        takes_events=True,
        on_deadline=Fail("the event did not come in time."),
        question="{tool} waits for an event",
        explanation="A tool waits for an event from another system.",
        awaited="an event",
        deadline_label="At the latest",
        words=KindWords(
            icon="ring",
            word="Event",
            state=StateWords("clock", "id", "awaits event"),
        ),
    ),
    "timer": WaitRules(
        call_state="parked",
        function="sleep",
        verdicts={},
        ended_by="the clock",
        asks_person=False,
        has_object=False,
        on_deadline=Answer("The time has come."),
        question="{tool} waits for a time",
        explanation="A tool waits until a time.",
        awaited="a time",
        deadline_label="Until",
        words=KindWords(
            icon="clock", word="Timer", state=StateWords("clock", "id", "sleeps")
        ),
    ),
    "external": WaitRules(
        call_state="parked",
        function="external",
        verdicts={
            "answer": VerdictWords(
                "Give the result", "The job succeeded with this result:"
            ),
            "fail": VerdictWords("Fail", "The job failed. The agent gets your error."),
        },
        ended_by="the callback of the other system, or its result as an Answer",
        asks_person=False,
        has_known_id=True,
        is_extendable=True,
        on_deadline=Fail("the other system did not report a result in time."),
        question="{tool} waits for another system",
        explanation="A job of another system is in progress.",
        awaited="the result of another system",
        question_label="Job",
        deadline_label="At the latest",
        words=KindWords(
            icon="ring",
            word="Outside job",
            state=StateWords("clock", "id", "awaits job"),
        ),
    ),
    "model": WaitRules(
        subjects=("frame",),
        verdicts={},
        ended_by="the clock, or wake()",
        asks_person=False,
        has_object=False,
        may_wake=True,
        question="{tool} waits for its model",
        explanation="A model is limited, cannot be reached, or is not ready.",
        awaited="its model",
        deadline_label="Next attempt",
        words=KindWords(
            icon="clock",
            word="Model",
            arguments="The agent that waits:",
            state=StateWords("clock", "id", "awaits model"),
        ),
    ),
    "operator": WaitRules(
        subjects=("frame", "run"),
        verdicts={},
        ended_by="unpause",
        asks_person=False,
        has_object=False,
        ended_by_unpause=True,
        question="{tool} waits for an operator",
        explanation="An operator, or a condition of the agent, paused the work.",
        awaited="an operator",
        policy_label="Reason",
        words=KindWords(
            icon="lock",
            word="Paused",
            arguments="The agent that waits:",
            state=StateWords("clock", "wt", "paused"),
        ),
    ),
    "input": WaitRules(
        subjects=("frame",),
        verdicts={
            "approve": VerdictWords(
                "Use it", "The agent reads the input exactly as shown."
            ),
            "deny": VerdictWords(
                "Refuse it",
                "The agent does not read the input, and ends with an error.",
            ),
        },
        question="May {tool} use this input?",
        explanation="A guardrail asks a person whether an agent may use its input.",
        awaited="a decision about its input",
        policy_label="Guardrail",
        judges="input",
        denied="refused",
        expired="the input is refused, and the agent ends with an error",
        denied_at_deadline="the input is refused, and the agent ends with an error",
        words=KindWords(
            icon="shield",
            word="Input",
            tone="is-wait",
            arguments="What this agent will read:",
            note_icon="lock",
            state=StateWords("shield", "wt", "input waits"),
        ),
    ),
    "output": WaitRules(
        subjects=("frame",),
        verdicts={
            "approve": VerdictWords(
                "Return it", "The output is returned exactly as shown."
            ),
            "deny": VerdictWords(
                "Withhold it",
                "The output is not returned, and the agent ends with an error.",
            ),
        },
        question="May {tool} return this output?",
        explanation="A guardrail asks a person whether an agent may return its output.",
        awaited="a decision about its output",
        policy_label="Guardrail",
        judges="output",
        denied="withheld",
        expired="the output is withheld, and the agent ends with an error",
        denied_at_deadline="the output is withheld, and the agent ends with an error",
        words=KindWords(
            icon="shield",
            word="Output",
            tone="is-wait",
            arguments="What this agent will return:",
            note_icon="lock",
            state=StateWords("shield", "wt", "output waits"),
        ),
    ),
    "alarm": WaitRules(
        subjects=("frame",),
        verdicts={},
        ended_by="the clock",
        asks_person=False,
        has_object=False,
        suspends=False,
        question="{tool} waits for a time",
        explanation="A workflow sleeps, or limits the time of something.",
        awaited="a time",
        deadline_label="Until",
        words=KindWords(
            icon="clock",
            word="Timer",
            arguments="The workflow that waits:",
            state=StateWords("clock", "id", "sleeps"),
        ),
    ),
}

# The kind of the waits whose ids are known before they are opened.
KNOWN_ID_KIND: WaitKind = next(
    kind for kind, rules in WAIT_RULES.items() if rules.has_known_id
)
# The kinds with an object that no person ends, with their nouns: an inbox counts them.
COUNTED_KINDS: dict[WaitKind, str] = {
    kind: rules.words.word.lower()
    for kind, rules in WAIT_RULES.items()
    if rules.has_object and not rules.asks_person
}
