"""Declaring agents, tools and approval policies."""

from __future__ import annotations

from continuations.errors import InvalidInput
from tests.errors.case import Area, Case

AGENTS = Area(
    "Declaring agents",
    (
        Case(
            "agent-name", InvalidInput, 'Agent("")', 'Agent("clerk")', names=("name",)
        ),
        Case(
            "agent-instructions",
            InvalidInput,
            'Agent("clerk", instructions=5)',
            'Agent("clerk", instructions="Pay what is due.")',
            names=("clerk", "instructions"),
        ),
        Case(
            "agent-description",
            InvalidInput,
            'Agent("clerk", description=["pays"])',
            'Agent("clerk", description="Pays.")',
            names=("clerk", "description"),
        ),
        Case(
            "agent-model",
            InvalidInput,
            'Agent("clerk", model=ScriptedModel)',
            'Agent("clerk", model=ScriptedModel(["done"]))',
            names=("clerk", "model"),
        ),
        Case(
            "agent-output-type-as-text",
            InvalidInput,
            'Agent("clerk", output_type="Claim")',
            'Agent("clerk", output_type=int)',
            names=("clerk", "output_type"),
        ),
        Case(
            "agent-input-type-as-text",
            InvalidInput,
            'Agent("clerk", input_type="Claim")',
            'Agent("clerk", input_type=int)',
            names=("clerk", "input_type"),
        ),
        Case(
            "agent-max-turns",
            InvalidInput,
            'Agent("clerk", max_turns=0)',
            'Agent("clerk", max_turns=1); Agent("clerk", max_turns=None)',
            names=("clerk", "max_turns"),
        ),
        Case(
            "agent-tool-with-a-missing-member",
            InvalidInput,
            'Agent("clerk", tools=[older]).tools_by_name',
            'Agent("clerk", tools=[book]).tools_by_name',
            setup="names = {each for each in dir(book) if each[:1] != '_'}\n"
            "members = dict.fromkeys(names - {'writes_state'})\n"
            "older = type('Older', (), members)()",
            names=("clerk", "writes_state"),
        ),
        Case(
            "agent-approval",
            InvalidInput,
            'Agent("clerk", tools=[book], approval="yes")',
            'Agent("clerk", tools=[book], approval=True)',
            names=("clerk", "approval"),
        ),
        Case(
            "agent-approval-of-another-class",
            InvalidInput,
            'Agent("clerk", tools=[other], approval=True)',
            'other.approval = ApprovalPolicy(); Agent("clerk", tools=[other], approval=True)',
            setup="""
                from types import SimpleNamespace
                made = tool(lambda: "done", name="other", description="Act.")
                names = [name for name in dir(made) if not name.startswith("_")]
                other = SimpleNamespace(**{name: getattr(made, name) for name in names})
            """,
            names=("other",),
        ),
        Case(
            "agent-settings",
            InvalidInput,
            'Agent("clerk", settings=[0.2])',
            'Agent("clerk", settings={"temperature": 0.2})',
            names=("clerk", "settings"),
        ),
        Case(
            "agent-reserved-setting",
            InvalidInput,
            'Agent("clerk", settings={"stream": True})',
            'Agent("clerk", settings={"seed": 5})',
            names=("clerk", "settings", "stream"),
        ),
        Case(
            "every-turns",
            InvalidInput,
            "every(turns=0)",
            "every(turns=2)",
            names=("turns", "0"),
        ),
        Case(
            "after-minutes",
            InvalidInput,
            "after(minutes=-1)",
            "after(minutes=3)",
            names=("minutes", "-1"),
        ),
        Case(
            "agent-suspend-when",
            InvalidInput,
            'Agent("clerk", suspend_when=every(turns=2))',
            'Agent("clerk", suspend_when=[every(turns=2)])',
            names=("clerk", "suspend_when"),
        ),
        Case(
            "agent-suspend-when-item",
            InvalidInput,
            'Agent("clerk", suspend_when=["every turn"])',
            'Agent("clerk", suspend_when=[every(turns=1)])',
            names=("clerk", "suspend_when", "every turn"),
        ),
        Case(
            "agent-suspend-when-twice",
            InvalidInput,
            'Agent("clerk", suspend_when=[every(turns=2), every(turns=2)])',
            'Agent("clerk", suspend_when=[every(turns=2), every(turns=3)])',
            names=("clerk", "every 2 turns"),
        ),
        Case(
            "agent-output-retries",
            InvalidInput,
            'Agent("clerk", output_retries=-1)',
            'Agent("clerk", output_retries=0)',
            names=("clerk", "output_retries"),
        ),
        Case(
            "agent-reset-tool-choice",
            InvalidInput,
            'Agent("clerk", reset_tool_choice="no")',
            'Agent("clerk", reset_tool_choice=False)',
            names=("clerk", "reset_tool_choice"),
        ),
        Case(
            "agent-context-type",
            InvalidInput,
            'Agent("clerk", context_type="Session")',
            'Agent("clerk", context_type=dict)',
            names=("clerk", "context_type"),
        ),
        Case(
            "agent-instructions-function",
            InvalidInput,
            "run(talker(instructions=lambda task, context: None), TASK)",
            'run(talker(instructions=lambda task, context: "Talk."), TASK)',
            names=("talker", "instructions", "NoneType"),
        ),
        Case(
            "tool-of-a-lambda",
            InvalidInput,
            "clerk(lambda cents: cents)",
            """
                def transfer(cents: int) -> int: "Move money."
                clerk(transfer)
            """,
            names=("lambda",),
        ),
        Case(
            "tool-approval-by-position",
            InvalidInput,
            "tool(approval=lambda *cents: True)(pay.function)",
            "tool(approval=lambda **arguments: True)(pay.function)",
            names=("pay", "approval", "cents"),
        ),
        Case(
            "scripted-text",
            InvalidInput,
            'ScriptedModel("done")',
            'ScriptedModel(["done"])',
            names=("script", "str"),
        ),
        Case(
            "resume-coroutine",
            InvalidInput,
            "resume(run_async(clerk(), TASK), clerk())",
            "run(clerk(), TASK)",
            setup="from continuations.aio import run as run_async",
            names=("data", "coroutine"),
        ),
        Case(
            "tool-is-enabled",
            InvalidInput,
            "tool(is_enabled=5)(pay.function)",
            "tool(is_enabled=False)(pay.function)",
            names=("pay", "is_enabled"),
        ),
        Case(
            "agent-tools",
            InvalidInput,
            'run(Agent("clerk", tools="pay"), TASK)',
            "run(clerk(pay), TASK)",
            names=("clerk", "tools"),
        ),
        Case(
            "agent-tools-of-one-name",
            InvalidInput,
            'run(Agent("clerk", tools=[pay, other]), TASK)',
            'other = tool(other.function, name="pay_later"); run(clerk(pay, other), TASK)',
            setup="""
                @tool(name="pay")
                def other() -> str: "Pay later."
            """,
            names=("clerk", "pay"),
        ),
        Case(
            "agent-tools-function-raises",
            InvalidInput,
            'run(Agent("clerk", tools=load_tools), TASK)',
            "ready = True; run(clerk(tools=load_tools), TASK)",
            setup="""
                ready = False
                def load_tools() -> list:
                    if not ready: raise LookupError("a secret path")
                    return [pay]
            """,
            names=("clerk", "tools", "LookupError"),
        ),
        Case(
            "agent-tool-is-none",
            InvalidInput,
            'run(Agent("clerk", tools=[5]), TASK)',
            "run(clerk(pay), TASK)",
            names=("clerk", "tools", "5"),
        ),
        Case(
            "agent-tool-is-invalid",
            InvalidInput,
            'run(Agent("clerk", tools=[transfer]), TASK)',
            """
                def transfer(cents: int) -> str: "Move money."
                run(clerk(transfer), TASK)
            """,
            setup='def transfer(cents) -> str: "Move money."',
            names=("clerk", "transfer", "cents"),
        ),
        Case(
            "agent-tool-function-fails-by-itself",
            InvalidInput,
            'run(Agent("clerk", tools=load_tools), TASK)',
            "names.pop(); run(clerk(tools=load_tools), TASK)",
            setup="""
                names = ["pay", "pay money"]
                def load_tools() -> list:
                    return [tool(pay.function, name=name) for name in names]
            """,
            names=("pay money",),
        ),
        Case(
            "agent-output-type",
            InvalidInput,
            "run(talker(output_type=5), TASK)",
            'run(talker("5", output_type=int), TASK)',
            names=("talker", "output_type"),
        ),
        Case(
            "agent-output-type-without-schema",
            InvalidInput,
            "run(talker(output_type=type(len)), TASK)",
            'run(talker("5", output_type=int), TASK)',
            names=("talker", "output_type"),
        ),
        Case(
            "agent-input-type",
            InvalidInput,
            'run(clerk(Agent("hr", input_type=5)), TASK)',
            "run(clerk(talker(input_type=int), pay), TASK)",
            names=("hr", "input_type"),
        ),
        Case(
            "agent-as-tool-name",
            InvalidInput,
            'talker().as_tool(name="ask the talker")',
            'talker().as_tool(name="ask_the_talker")',
            names=("name", "ask the talker"),
        ),
        Case(
            "root-agents-of-one-name",
            InvalidInput,
            'Runner([clerk(), clerk(book)], store="memory:")',
            'Runner([clerk(), talker()], store="memory:")',
            names=("clerk",),
        ),
    ),
)

TOOLS = Area(
    "Declaring tools",
    (
        Case(
            "tool-name",
            InvalidInput,
            'tool(name="pay money")(pay.function)',
            'tool(name="pay_money")(pay.function)',
            names=("name", "pay money"),
        ),
        Case(
            "tool-of-no-function",
            InvalidInput,
            "tool(Payment())",
            "tool(Payment().make)",
            setup="""
                class Payment:
                    __name__ = "payment"
                    def __call__(self) -> str: "Pay."
                    def make(self) -> str: "Pay."
            """,
            names=("payment",),
        ),
        Case(
            "tool-of-a-string",
            InvalidInput,
            'tool("pay")',
            'tool(name="pay")(pay.function)',
            names=("'pay'", "function", "@tool(name='pay')"),
        ),
        Case(
            "tool-unknown-option",
            InvalidInput,
            """
                class Bank:
                    @tool(approvall=True)
                    def pay(self, cents: int) -> str: "Pay."
            """,
            """
                class Bank:
                    @tool(approval=True)
                    def pay(self, cents: int) -> str: "Pay."
            """,
            names=("'approvall'", "approval"),
        ),
        Case(
            "tool-generator",
            InvalidInput,
            """
                @tool
                async def rooms(city: str) -> object:
                    "List rooms."
                    yield city
            """,
            """
                @tool
                async def rooms(city: str) -> list[str]:
                    "List rooms."
                    return [city]
            """,
            names=("rooms", "yield"),
        ),
        Case(
            "tool-approval-class",
            InvalidInput,
            "tool(approval=ApprovalPolicy)(pay.function)",
            "tool(approval=ApprovalPolicy())(pay.function)",
            names=("pay", "approval", "ApprovalPolicy"),
        ),
        Case(
            "agent-tools-one-function",
            InvalidInput,
            'Agent("clerk", tools=pay.function)',
            'Agent("clerk", tools=[pay.function])',
            names=("clerk", "tools", "pay(cents, note)"),
        ),
        Case(
            "tool-description",
            InvalidInput,
            "tool(description=5)(pay.function)",
            'tool(description="Pay.")(pay.function)',
            names=("pay", "description"),
        ),
        Case(
            "tool-version",
            InvalidInput,
            "tool(version=2)(pay.function)",
            'tool(version="2")(pay.function)',
            names=("pay", "version"),
        ),
        Case(
            "tool-read-only",
            InvalidInput,
            'tool(read_only="yes")(pay.function)',
            "tool(read_only=True)(pay.function)",
            names=("pay", "read_only"),
        ),
        Case(
            "tool-idempotent",
            InvalidInput,
            "tool(idempotent=1)(pay.function)",
            "tool(idempotent=True)(pay.function)",
            names=("pay", "idempotent"),
        ),
        Case(
            "tool-timeout",
            InvalidInput,
            "tool(timeout=0)(pay.function)",
            "tool(timeout=30)(pay.function)",
            names=("timeout",),
        ),
        Case(
            "tool-retries",
            InvalidInput,
            "tool(idempotent=True, retries=11)(pay.function)",
            "tool(idempotent=True, retries=3)(pay.function)",
            names=("pay", "retries"),
        ),
        Case(
            "tool-retries-not-repeatable",
            InvalidInput,
            "tool(retries=3)(pay.function)",
            "tool(idempotent=True, retries=3)(pay.function)",
            names=("pay", "retries", "idempotent"),
        ),
        Case(
            "tool-on-error",
            InvalidInput,
            "tool(on_error=lambda error: str(error))(pay.function)",
            'tool(on_error=lambda error, call: f"{call.tool} failed")(pay.function)',
            names=("pay", "on_error"),
        ),
        Case(
            "retries-times",
            InvalidInput,
            "Retries(0)",
            "Retries(1)",
            setup="from continuations.tools import Retries",
            names=("Retries", "times"),
        ),
        Case(
            "retries-delay",
            InvalidInput,
            "Retries(3, max_delay=3600)",
            "Retries(3, max_delay=60); sleep(3600)",
            setup="from continuations import sleep; from continuations.tools import Retries",
            names=("max_delay", "3600"),
        ),
        Case(
            "retries-on",
            InvalidInput,
            "Retries(3, on=ConnectionError)",
            "Retries(3, on=[ConnectionError, TimeoutError])",
            setup="from continuations.tools import Retries",
            names=("on", "ConnectionError"),
        ),
        Case(
            "tool-verify",
            InvalidInput,
            "tool(verify=True)(pay.function)",
            "tool(verify=lambda cents: None)(pay.function)",
            names=("pay", "verify"),
        ),
        Case(
            "tool-verify-parameters",
            InvalidInput,
            "tool(verify=lambda amount: None)(pay.function)",
            "tool(verify=lambda cents, note: None)(pay.function)",
            names=("pay", "verify", "amount", "cents"),
        ),
        Case(
            "tool-approval",
            InvalidInput,
            'tool(approval="yes")(pay.function)',
            "tool(approval=True)(pay.function)",
            names=("approval",),
        ),
        Case(
            "tool-approval-parameters",
            InvalidInput,
            "tool(approval=lambda amount: amount > 5)(pay.function)",
            "tool(approval=lambda cents: cents > 5)(pay.function)",
            names=("pay", "approval", "amount", "cents"),
        ),
        Case(
            "tool-positional-only",
            InvalidInput,
            "tool(transfer)",
            'tool(lambda cents: cents, name="x") if False else tool(pay.function)',
            setup='def transfer(cents: int, /) -> str: "Move money."',
            names=("transfer", "cents"),
        ),
        Case(
            "tool-star-parameters",
            InvalidInput,
            "tool(transfer)",
            """
                def transfer(rooms: list[str]) -> str: "Move."
                tool(transfer)
            """,
            setup='def transfer(*rooms: str) -> str: "Move."',
            names=("transfer", "rooms"),
        ),
        Case(
            "tool-double-star-parameters",
            InvalidInput,
            "tool(transfer)",
            """
                def transfer(options: dict[str, str]) -> str: "Move."
                tool(transfer)
            """,
            setup='def transfer(**options: str) -> str: "Move."',
            names=("transfer", "options"),
        ),
        Case(
            "tool-parameter-without-type",
            InvalidInput,
            "tool(transfer)",
            """
                def transfer(cents: int) -> str: "Move money."
                tool(transfer)
            """,
            setup='def transfer(cents) -> str: "Move money."',
            names=("transfer", "cents"),
        ),
        Case(
            "tool-unbound-method",
            InvalidInput,
            'Agent("clerk", tools=[Bank.transfer])',
            "tool(Bank().transfer)",
            setup="""
                class Bank:
                    def transfer(self, cents: int) -> str: "Move money."
            """,
            names=("transfer", "self"),
        ),
        Case(
            "tool-default-of-another-type",
            InvalidInput,
            "run(clerk(transfer), TASK)",
            """
                def transfer(cents: int = 500) -> str: "Move money."
                run(clerk(transfer), TASK)
            """,
            setup='def transfer(cents: int = "many") -> str: "Move money."',
            names=("transfer", "cents"),
        ),
        Case(
            "tool-unknown-type",
            InvalidInput,
            "run(clerk(transfer), TASK)",
            """
                class Amount(BaseModel): cents: int
                run(clerk(transfer), TASK)
            """,
            setup='def transfer(money: "Amount") -> str: "Move money."',
            names=("transfer", "Amount"),
        ),
        Case(
            "tool-type-without-schema",
            InvalidInput,
            "run(clerk(transfer), TASK)",
            """
                def transfer(cents: int) -> str: "Move money."
                run(clerk(transfer), TASK)
            """,
            setup='def transfer(then: type(len)) -> str: "Move money."',
            names=("transfer",),
        ),
        Case(
            "tool-type-without-json-schema",
            InvalidInput,
            "run(clerk(transfer), TASK)",
            """
                def transfer(cents: int) -> str: "Move money."
                run(clerk(transfer), TASK)
            """,
            setup="""
                from collections.abc import Callable
                def transfer(then: Callable[[], int]) -> str: "Move money."
            """,
            names=("transfer", "JSON Schema"),
        ),
        Case(
            "tool-nested-default-that-is-no-json",
            InvalidInput,
            "run(clerk(transfer), TASK)",
            """
                def transfer(cents: int) -> str: "Move money."
                run(clerk(transfer), TASK)
            """,
            setup="""
                class Order(BaseModel):
                    then: Any = len
                def transfer(order: Order) -> str: "Move money."
            """,
            names=("transfer",),
        ),
        Case(
            "tool-default-that-is-no-json",
            InvalidInput,
            "run(clerk(transfer), TASK)",
            """
                def transfer(cents: int | None = None) -> str: "Move money."
                run(clerk(transfer), TASK)
            """,
            setup='def transfer(cents: object = len) -> str: "Move money."',
            names=("transfer", "cents"),
        ),
    ),
)

_FIND = """
    schema = {"type": "object", "properties": {"room": {"type": "string"}}}
    def find(arguments): return arguments["room"]
"""
_FOUND = 'run(clerk(Tool.from_schema("find", schema, find)), TASK)'

SCHEMA_TOOLS = Area(
    "Tools with a JSON Schema",
    (
        Case(
            "schema-tool-function",
            InvalidInput,
            'Tool.from_schema("find", schema, "find")',
            _FOUND,
            setup=_FIND,
            names=("find", "function"),
        ),
        Case(
            "schema-tool-function-parameters",
            InvalidInput,
            'Tool.from_schema("find", schema, lambda room, floor: room)',
            _FOUND,
            setup=_FIND,
            names=("find", "function"),
        ),
        Case(
            "schema-tool-schema-type",
            InvalidInput,
            'Tool.from_schema("find", {"type": "array"}, find)',
            _FOUND,
            setup=_FIND,
            names=("find", "schema", "object"),
        ),
        Case(
            "schema-tool-schema-no-json",
            InvalidInput,
            'Tool.from_schema("find", {"type": "object", "required": {"room"}}, find)',
            _FOUND,
            setup=_FIND,
            names=("find", "schema"),
        ),
        Case(
            "schema-tool-invalid-schema",
            InvalidInput,
            'run(clerk(Tool.from_schema("find", {"type": "object", "required": 5}, find)), TASK)',
            _FOUND,
            setup=_FIND,
            names=("find", "schema"),
        ),
        Case(
            "schema-tool-reference",
            InvalidInput,
            'run(clerk(Tool.from_schema("find", {**schema, "$ref": "https://a.example/b"}, find)), TASK)',
            _FOUND,
            setup=_FIND,
            names=("find", "https://a.example/b"),
        ),
        Case(
            "schema-tool-default",
            InvalidInput,
            'run(clerk(Tool.from_schema("find", wrong, find)), TASK)',
            _FOUND,
            setup=f"""{_FIND}
    wrong = {{"type": "object", "properties": {{"room": {{"type": "string", "default": 5}}}}}}""",
            names=("find", "default", "room"),
        ),
    ),
)

POLICIES = Area(
    "Approval policies",
    (
        Case(
            "policy-when",
            InvalidInput,
            'ApprovalPolicy(when="always")',
            "ApprovalPolicy(when=lambda cents: cents > 5)",
            names=("when",),
        ),
        Case(
            "policy-strict",
            InvalidInput,
            'ApprovalPolicy(strict="yes")',
            "ApprovalPolicy(strict=True)",
            names=("strict",),
        ),
        Case(
            "policy-name",
            InvalidInput,
            "ApprovalPolicy(name=5)",
            'ApprovalPolicy(name="four eyes")',
            names=("name",),
        ),
        Case(
            "policy-expires-after",
            InvalidInput,
            "ApprovalPolicy(expires_after=-1)",
            "ApprovalPolicy(expires_after=timedelta(days=2))",
            names=("expires_after",),
        ),
        Case(
            "policy-valid-for",
            InvalidInput,
            "ApprovalPolicy(valid_for=0.5)",
            "ApprovalPolicy(valid_for=1)",
            names=("valid_for",),
        ),
        Case(
            "tool-on-timeout",
            InvalidInput,
            'tool(book.function, timeout=5, on_timeout="retry")',
            'tool(book.function, timeout=5, on_timeout="tell_model")',
            names=("book", "on_timeout"),
        ),
        Case(
            "policy-on-denied",
            InvalidInput,
            'ApprovalPolicy(on_denied="go on")',
            'ApprovalPolicy(on_denied="stop", on_expired="continue")',
            names=("on_denied",),
        ),
        Case(
            "policy-on-expired",
            InvalidInput,
            'ApprovalPolicy(on_expired="go on")',
            'ApprovalPolicy(on_expired="stop")',
            names=("on_expired",),
        ),
    ),
)
