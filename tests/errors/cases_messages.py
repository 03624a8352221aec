"""Tool messages to the model, and runs that end as failed."""

from __future__ import annotations

from tests.errors.case import Area, Case

_ERROR = "tool message ERROR"

MESSAGES = Area(
    "Tool messages to the model",
    (
        *(
            Case(
                f"call-result-{name}",
                _ERROR,
                "tool_message(report, {})",
                f"value = {good}; tool_message(report, {{}})",
                setup=f"""
                    value = {bad}
                    @tool
                    def report() -> Any: "Report."; return value
                """,
                names=("result",),
            )
            for name, bad, good in (
                ("no-json", "object()", '"x"'),
                ("iterator", "iter([1])", "[1]"),
                ("nan", 'float("nan")', "5"),
                ("key", "{5: 6}", '{"5": 6}'),
                ("many-digits", "10 ** 5000", "5"),
                ("bytes", 'b"\\xff"', 'b"x"'),
                ("decimal-nan", 'Decimal("NaN")', 'Decimal("5")'),
                (
                    "too-deep",
                    "__import__('functools').reduce(lambda inner, _: [inner], range(300), 1)",
                    "5",
                ),
                ("circular", "[value := []] and [value.append(value), value][1]", "[]"),
                (
                    "model-with-nan",
                    'type("Size", (BaseModel,), {"__annotations__": {"size": float}})(size=float("nan"))',
                    "5",
                ),
            )
        ),
    ),
)

ENDINGS = Area(
    "Runs that end as failed",
    (
        Case(
            "failed-max-turns",
            "Failed max_turns",
            'failure_of(run(Agent("clerk", tools=[book], model=busy, max_turns=2), TASK))',
            'failure_of(run(Agent("clerk", tools=[book], model=busy, max_turns=9), TASK))',
            setup='busy = ScriptedModel([ToolCall("book", {"room": "5"})] * 3 + ["done"])',
            names=("clerk", "max_turns"),
        ),
        Case(
            "failed-budget",
            "Failed budget",
            "failure_of(run(busy, TASK, budget=Budget(requests=1)))",
            "failure_of(run(busy, TASK, budget=Budget(requests=2)))",
            setup='busy = clerk(book, script=[ToolCall("book", {"room": "5"}), "done"])',
            names=("requests",),
        ),
        Case(
            "failed-budget-tokens",
            "Failed budget",
            "failure_of(run(busy, TASK, budget=Budget(tokens=1)))",
            "failure_of(run(busy, TASK, budget=Budget(tokens=99)))",
            setup="""
                call = ToolCall("book", {"room": "5"})
                async def answer(request):
                    reply = await ScriptedModel([call, "done"]).reply(request)
                    return ModelReply(message=reply.message, usage=Usage(requests=1, input_tokens=9))
                busy = clerk(book, script=answer)
            """,
            names=("tokens",),
        ),
        Case(
            "failed-output-no-json",
            "Failed output",
            'failure_of(run(talker("five", output_type=int, output_retries=0), TASK))',
            'failure_of(run(talker("5", output_type=int), TASK))',
            names=("JSON",),
        ),
        Case(
            "failed-output-validator-raises",
            "Failed output",
            "failure_of(run(talker('{\"number\": 5}', output_type=Room, output_retries=0), TASK))",
            "failure_of(run(talker('{\"number\": 6}', output_type=Room), TASK))",
            setup="""
                class Room(BaseModel):
                    number: int
                    @field_validator("number")
                    @classmethod
                    def check(cls, number):
                        if number == 5: raise LookupError(PASSWORD)
                        return number
            """,
            names=("LookupError",),
        ),
        Case(
            "failed-expired",
            "Failed expired",
            "failure_of(scene.end(None))",
            "failure_of(scene.end(Approve()))",
            names=("pay",),
        ),
        Case(
            "failed-attempts",
            "Failed attempts",
            'failure_of(again.resume("jane-1"))',
            'failure_of(Runner(talker(), store=store, clock=clock).start(TASK, run_id="jane-2"))',
            setup="""
                good = store
                def crash(number):
                    plan = faults.on("create", faults.crashed("after"), prefix="runs/")
                    again = Runner(talker(), store=faults.FaultyStore(good, plan), clock=clock)
                    try:
                        again.start(TASK, run_id="jane-1") if number == 0 else again.resume("jane-1")
                    except BaseException: pass
                    clock.advance(31)
                for number in range(5): crash(number)
                again = Runner(talker(), store=good, clock=clock)
            """,
            names=("5",),
        ),
    ),
)
