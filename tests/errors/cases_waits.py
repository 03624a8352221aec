"""Tools that wait: what an author, a decider and the model read."""

from __future__ import annotations

from continuations.errors import AgentChanged
from tests.errors.case import Area, Case

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


DECIDING = Area(
    "Deciding waits of tools",
    (
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
    ),
)
