"""Tool messages to the model, and runs that end as failed."""

from __future__ import annotations

from tests.errors.case import Area, Case

_ERROR = "tool message ERROR"
_PAY = 'pay = tool(pay.function, name="pay")'

MESSAGES = Area(
    "Tool messages to the model",
    (
        Case(
            "call-of-unknown-tool",
            _ERROR,
            'tool_message(pay, {"cents": 5}, name="transfer")',
            'tool_message(pay, {"cents": 5})',
            setup=_PAY,
            names=("transfer", "pay"),
        ),
        Case(
            "call-too-deep",
            _ERROR,
            'tool_message(talker().as_tool(), {"input": "x"}, max_depth=1)',
            'tool_message(talker().as_tool(), {"input": "x"}, max_depth=2)',
            names=("1",),
        ),
        Case(
            "call-arguments-no-json",
            _ERROR,
            "tool_message(pay, '{\"cents\": 5')",
            'tool_message(pay, {"cents": 5})',
            setup=_PAY,
            names=("JSON",),
        ),
        Case(
            "call-arguments-no-object",
            _ERROR,
            'tool_message(pay, "[5]")',
            'tool_message(pay, {"cents": 5})',
            setup=_PAY,
            names=("object",),
        ),
        Case(
            "call-arguments-key-twice",
            _ERROR,
            'tool_message(pay, \'{"cents": 5, "cents": 6}\')',
            'tool_message(pay, {"cents": 5})',
            setup=_PAY,
            names=("cents",),
        ),
        Case(
            "call-arguments-nan",
            _ERROR,
            "tool_message(pay, '{\"cents\": NaN}')",
            'tool_message(pay, {"cents": 5})',
            setup=_PAY,
            names=("NaN",),
        ),
        Case(
            "call-arguments-large-number",
            _ERROR,
            "tool_message(pay, '{\"cents\": 1e999}')",
            'tool_message(pay, {"cents": 5})',
            setup=_PAY,
            names=("1e999",),
        ),
        Case(
            "call-arguments-many-digits",
            _ERROR,
            "tool_message(pay, '{\"cents\": ' + '9' * 5000 + '}')",
            'tool_message(pay, {"cents": 5})',
            setup=_PAY,
        ),
        Case(
            "call-arguments-half-character",
            _ERROR,
            'tool_message(pay, \'{"cents": "\\\\ud800"}\')',
            'tool_message(pay, {"cents": 5})',
            setup=_PAY,
        ),
        Case(
            "call-arguments-too-deep",
            _ERROR,
            "tool_message(pay, '{\"cents\": ' + '[' * 9999 + ']' * 9999 + '}')",
            'tool_message(pay, {"cents": 5})',
            setup=_PAY,
        ),
        Case(
            "call-arguments-type",
            _ERROR,
            'tool_message(pay, {"cents": "many", "note": 5})',
            'tool_message(pay, {"cents": 5})',
            setup=_PAY,
            names=("cents", "note"),
        ),
        Case(
            "call-arguments-missing",
            _ERROR,
            "tool_message(pay, {})",
            'tool_message(pay, {"cents": 5})',
            setup=_PAY,
            names=("cents",),
        ),
        Case(
            "call-arguments-validator-raises",
            _ERROR,
            'tool_message(enter, {"room": {"number": 5}})',
            'tool_message(enter, {"room": {"number": 6}})',
            setup="""
                class Room(BaseModel):
                    number: int
                    @field_validator("number")
                    @classmethod
                    def check(cls, number):
                        if number == 5: raise LookupError(PASSWORD)
                        return number
                @tool
                def enter(room: Room) -> str: "Enter."; return "entered"
            """,
            names=("LookupError",),
        ),
        Case(
            "call-arguments-that-change",
            _ERROR,
            'tool_message(enter, {"room": {"number": 5}})',
            'tool_message(enter, {"room": {"number": 600}})',
            setup="""
                class Room(BaseModel):
                    number: int
                    @field_validator("number")
                    @classmethod
                    def check(cls, number): return min(number + 1, 600)
                @tool
                def enter(room: Room) -> str: "Enter."; return "entered"
            """,
        ),
        Case(
            "call-arguments-against-json-schema",
            _ERROR,
            'tool_message(find, {"room": 5})',
            'tool_message(find, {"room": "5"})',
            setup="""
                schema = {"type": "object", "properties": {"room": {"type": "string"}}}
                find = Tool.from_schema("find", schema, lambda arguments: "found")
            """,
            names=("room",),
        ),
        Case(
            "call-arguments-without-json-form",
            _ERROR,
            'tool_message(enter, {"size": 5})',
            'tool_message(enter, {"size": 6})',
            setup="""
                from typing import Annotated
                from pydantic import AfterValidator
                Size = Annotated[float, AfterValidator(lambda size: float("inf") if size == 5 else size)]
                @tool
                def enter(size: Size) -> str: "Enter."; return "entered"
            """,
        ),
        Case(
            "call-arguments-that-mean-something-else",
            _ERROR,
            "scene.drifted(drift=True)",
            "scene.drifted(drift=False)",
        ),
        Case(
            "call-policy-raises",
            _ERROR,
            'tool_message(pay, {"cents": 5})',
            'fixed = True; tool_message(pay, {"cents": 5})',
            setup="""
                fixed = False
                def is_large(cents):
                    if not fixed: raise LookupError(PASSWORD)
                    return False
                pay = tool(pay.function, name="pay", approval=is_large)
            """,
            names=("LookupError",),
        ),
        Case(
            "call-policy-returns-no-bool",
            _ERROR,
            'tool_message(pay, {"cents": 5})',
            'fixed = True; tool_message(pay, {"cents": 5})',
            setup="""
                fixed = False
                def is_large(cents): return False if fixed else "no"
                pay = tool(pay.function, name="pay", approval=is_large)
            """,
            names=("str", "True"),
        ),
        Case(
            "call-tool-raises",
            _ERROR,
            "tool_message(fail, {})",
            "tool_message(pay, {'cents': 5})",
            setup=f"""
                {_PAY}
                @tool
                def fail() -> str:
                    "Fail."
                    raise LookupError("the account is closed")
            """,
            names=("LookupError", "the account is closed"),
            is_list=True,
        ),
        Case(
            "call-times-out",
            _ERROR,
            "tool_message(hang, {})",
            "tool_message(pay, {'cents': 5})",
            setup=f"""
                {_PAY}
                @tool(timeout=0.01, on_timeout="tell_model")
                async def hang() -> str:
                    "Hang."
                    await asyncio.sleep(5)
            """,
            names=("0.01",),
        ),
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
        Case(
            "call-result-that-cannot-be-read",
            _ERROR,
            "tool_message(report, {})",
            "value.size = 5; tool_message(report, {})",
            setup="""
                @dataclass
                class Size: size: int
                value = Size(5)
                del value.size
                @tool
                def report() -> Any: "Report."; return value
            """,
            names=("result",),
        ),
        Case(
            "call-denied",
            "tool message DENIED",
            "scene.decided(Deny(by='kim', reason='Too much.'))",
            "scene.decided(Approve())",
            names=("Too much.",),
        ),
        Case(
            "call-expired",
            "tool message EXPIRED",
            "scene.expired()",
            "scene.decided(Approve())",
        ),
        Case(
            "call-unknown-and-denied",
            "tool message NOT",
            "scene.settled(Deny())",
            "scene.settled(Answer('booked 5'))",
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
            "failed-max-denials",
            "Failed max_denials",
            'failure_of(run(Agent("clerk", tools=[never], model=busy, max_denials=2), TASK))',
            'failure_of(run(Agent("clerk", tools=[never], model=busy, max_denials=9), TASK))',
            setup="""
                busy = ScriptedModel([ToolCall("never", {})] * 3 + ["done"])
                @tool(approval=lambda: Deny(reason="no"))
                def never():
                    return "done"
            """,
            names=("clerk", "never", "max_denials"),
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
            "failed-output-type",
            "Failed output",
            "failure_of(run(talker('\"five\"', output_type=int, output_retries=0), TASK))",
            'failure_of(run(talker("5", output_type=int), TASK))',
            names=("output",),
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
            "failed-length",
            "Failed length",
            'failure_of(run(talker(stopped("length")), TASK))',
            'failure_of(run(talker(stopped("stop")), TASK))',
            setup="""
                def stopped(reason):
                    message = Agent and __import__("continuations.core.messages", fromlist=["Message"]).Message
                    text = message.from_mapping({"role": "assistant", "content": "do"})
                    return ModelReply(message=text, finish_reason=reason)
            """,
        ),
        Case(
            "failed-content-filter",
            "Failed content_filter",
            'failure_of(run(talker(stopped("content_filter")), TASK))',
            'failure_of(run(talker(stopped("stop")), TASK))',
            setup="""
                def stopped(reason):
                    message = Agent and __import__("continuations.core.messages", fromlist=["Message"]).Message
                    text = message.from_mapping({"role": "assistant", "content": "do"})
                    return ModelReply(message=text, finish_reason=reason)
            """,
        ),
        Case(
            "failed-denied",
            "Failed denied",
            "failure_of(scene.end(Deny(by='kim', reason='Too much.')))",
            "failure_of(scene.end(Approve()))",
            names=("pay", "Too much."),
        ),
        Case(
            "failed-expired",
            "Failed expired",
            "failure_of(scene.end(None))",
            "failure_of(scene.end(Approve()))",
            names=("pay",),
        ),
        Case(
            "failed-cancelled",
            "Failed cancelled",
            'failure_of(runner.resume("jane-1"))',
            'start("jane-2")',
            setup='start(); runner.cancel("jane-1")',
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
