"""Tools that wait: what an author, a decider and the model read."""

from __future__ import annotations

from continuations.errors import AgentChanged, DecisionRefused, InvalidInput
from tests.errors.case import Area, Case

_ERROR = "tool message ERROR"
_RECEIPT = """
    @tool
    def receipt(trip: str):
        "Get a receipt."
        return ask("Which one?", Choice)
    @dataclass
    class Choice:
        name: str
"""
_ASK = """
    def waits(wait):
        def receipt(trip: str):
            "Get a receipt."
            return wait()
        return tool(receipt)
    trip = {"trip": "Rome"}
"""
_WAITING = (
    _RECEIPT
    + """
    agent = clerk(receipt, script=[ToolCall("receipt", {"trip": "Rome"}), "done"])
    runner = Runner(agent, store=store, clock=clock)
    (wait,) = runner.start(TASK, run_id="jane-1").waits
    answer = Answer({"name": "blue"})
"""
)
_ANY = """
    def make(type_, *, continues=True):
        def receipt(trip: str):
            "Get a receipt."
            return wait_for("mail")
        made = tool(receipt)
        def received(answer: type_) -> str:
            return "ok"
        received.__annotations__ = {"answer": type_}
        if continues:
            made.on_answer(received)
        agent = clerk(made, script=[ToolCall("receipt", {"trip": "Rome"}), "done"])
        return Runner(agent, store=store, clock=clock)
    runner = make(int)
    (wait,) = runner.start(TASK, run_id="jane-1").waits
"""

WAITS = Area(
    "Tools that wait",
    (
        Case(
            "wait-question",
            InvalidInput,
            'ask(" ")',
            'ask("Which one?")',
            names=("ask", "question"),
        ),
        Case(
            "wait-moment",
            InvalidInput,
            "sleep_until(datetime(2026, 12, 1))",
            "sleep_until(datetime.now(UTC) + timedelta(days=1))",
            names=("moment", "time zone"),
        ),
        Case(
            "wait-on-deadline",
            InvalidInput,
            'ask("Which one?", within=60, on_deadline=Approve())',
            'ask("Which one?", within=60, on_deadline=Deny())',
            names=("on_deadline", "Approve"),
        ),
        Case(
            "wait-period",
            InvalidInput,
            "sleep(0)",
            "sleep(1)",
            names=("duration",),
        ),
        Case(
            "on-answer-no-function",
            InvalidInput,
            'receipt.on_answer("received")',
            "receipt.on_answer(lambda answer: answer)",
            setup=_RECEIPT,
            names=("receipt", "on_answer"),
        ),
        Case(
            "on-answer-without-answer",
            InvalidInput,
            "receipt.on_answer(lambda reply: reply)",
            "receipt.on_answer(lambda answer: answer)",
            setup=_RECEIPT,
            names=("receipt", "answer", "reply"),
        ),
        Case(
            "on-answer-twice",
            InvalidInput,
            "receipt.on_answer(lambda answer: answer)",
            "assert receipt.continues",
            setup=_RECEIPT + "    receipt.on_answer(lambda answer: answer)\n",
            names=("receipt", "on_answer"),
        ),
        Case(
            "list-unknown-approver",
            InvalidInput,
            'runner.waiting(approver="")',
            'list(runner.waiting(approver="kim"))',
            names=("approver", "Identity"),
        ),
        Case(
            "list-unknown-kinds",
            InvalidInput,
            'runner.waiting(kinds=["mail"])',
            'list(runner.waiting(kinds=["event", "external"]))',
            names=("kinds", "mail", "event"),
        ),
    ),
)

DECIDING = Area(
    "Deciding waits of tools",
    (
        Case(
            "answer-does-not-match",
            DecisionRefused,
            "runner.decide(wait.id, Answer(5))",
            "runner.decide(wait.id, answer)",
            setup=_WAITING,
        ),
        Case(
            "answer-no-text",
            DecisionRefused,
            "runner.decide(wait.id, Answer(5))",
            'runner.decide(wait.id, Answer("blue"))',
            setup=_WAITING.replace(", Choice)", ")"),
            names=("text", "int"),
        ),
        Case(
            "question-is-not-approved",
            DecisionRefused,
            "runner.decide(wait.id, Approve())",
            "runner.decide(wait.id, answer)",
            setup=_WAITING,
            names=("question", "answer"),
        ),
        Case(
            "fail-without-text",
            DecisionRefused,
            "runner.decide(wait.id, Fail(5))",
            'runner.decide(wait.id, Fail("it broke"))',
            setup=_ANY,
            names=("error",),
        ),
        Case(
            "answer-without-its-function",
            AgentChanged,
            'make(int, continues=False).resume("jane-1")',
            'runner.resume("jane-1")',
            setup=_ANY + "    runner.decide(wait.id, Answer(5))\n",
            names=("jane-1", "receipt", "on_answer"),
        ),
        Case(
            "answer-without-its-tool",
            AgentChanged,
            'Runner(clerk(pay), store=store, clock=clock).resume("jane-1")',
            'runner.resume("jane-1")',
            setup=_ANY + "    runner.decide(wait.id, Answer(5))\n",
            names=("jane-1", "receipt", "Nothing was written"),
        ),
        Case(
            "answer-without-its-tool-and-cancel",
            AgentChanged,
            'Runner(clerk(pay), store=store, clock=clock).resume("jane-1")',
            """
                (call_id,) = runner.look("jane-1").run_state.calls
                runner.cancel("jane-1", call=call_id); runner.resume("jane-1")
            """,
            setup=_ANY + "    runner.decide(wait.id, Answer(5))\n",
            names=("receipt", "cancel('jane-1'"),
        ),
        Case(
            "answer-that-the-function-rejects",
            "note of a wait",
            """
                (again,) = runner.resume("jane-1").waits
                raise Shown("note of a wait", again.note)
            """,
            """
                (again,) = runner.resume("jane-1").waits
                runner.decide(again.id, Answer(5)); runner.resume("jane-1")
            """,
            setup=_ANY + '    runner.decide(wait.id, Answer("five"))\n',
            is_list=True,
        ),
        Case(
            "answer-that-cannot-be-checked",
            "note of a wait",
            """
                (again,) = runner.resume("jane-1").waits
                raise Shown("note of a wait", again.note)
            """,
            'runner.cancel("jane-1")',
            setup=_ANY.replace("make(int)", "make(Strange)").replace(
                "    def make(",
                """
    class Strange(BaseModel):
        name: str
        @field_validator("name")
        @classmethod
        def check(cls, value):
            raise OSError("no")
    def make(""",
            )
            + '    runner.decide(wait.id, Answer({"name": "x"}))\n',
            is_list=True,
        ),
        Case(
            "wait-with-a-wrong-action",
            _ERROR,
            """
                wrong = waits(lambda: ask("?", int, within=9, on_deadline=Answer("x")))
                tool_message(wrong, trip)
            """,
            "ask('?', int, within=9, on_deadline=Answer(5))",
            setup=_ASK,
            names=("on_deadline", "answer_type"),
        ),
        Case(
            "wait-with-an-action-without-json",
            _ERROR,
            """
                wrong = waits(lambda: wait_for("e", on_deadline=Answer(object())))
                tool_message(wrong, trip)
            """,
            'wait_for("e", on_deadline=Answer({"a": 1}))',
            setup=_ASK,
            names=("on_deadline",),
        ),
    ),
)
