"""Errors of the state of an agent."""

from __future__ import annotations

from continuations.authoring.errors import StateInvalid
from continuations.errors import AgentChanged, InvalidInput
from tests.errors.case import Area, Case

_CLAIM = """
from typing import Any
from pydantic import BaseModel, Field, model_serializer
from continuations import ToolContext
from continuations.authoring.typed_values import CallState
class Claim(BaseModel):
    total: int = Field(default=0, le=1000)
    thing: Any = None
def context(writes_state=True):
    spec = Agent("clerk", state=Claim).state_spec
    held = CallState(spec, "spend", "", may_write=writes_state)
    return ToolContext(
        run_id="r1", call_id="c1", idempotency_key="k", fence=1, attempt=1,
        call_state=held,
    )
ctx = context()
"""
_STORED = (
    _CLAIM
    + """
from continuations.models.scripted import ToolCall
class Other(BaseModel):
    total: list[int] = []
@tool(writes_state=True)
def spend(cents: int, ctx: ToolContext) -> str:
    "Spend."
    ctx.update(total=cents)
    return "spent"
def spender(type_):
    model = ScriptedModel([[ToolCall("spend", {"cents": 5})], "one", "two", "three"])
    return Agent("spender", tools=[spend], model=model, state=type_)
Runner(spender(Claim), store=store, clock=clock).thread(key="k").send("Spend 5.")
"""
)
_DECLARE = 'Agent("clerk", state=Claim)'

STATE = Area(
    "The state of an agent",
    (
        Case(
            "state-no-class",
            InvalidInput,
            'Agent("clerk", state=dict)',
            _DECLARE,
            setup=_CLAIM,
            names=("clerk", "state"),
        ),
        Case(
            "state-of-instructions",
            InvalidInput,
            'Agent("clerk", instructions=lambda state: "Be brief.")',
            'Agent("clerk", instructions=lambda state: "Be brief.", state=Claim)',
            setup=_CLAIM,
            names=("clerk", "instructions", "state="),
        ),
        Case(
            "state-required-field",
            InvalidInput,
            'Agent("clerk", state=Bad)',
            _DECLARE,
            setup=_CLAIM + "class Bad(BaseModel):\n    total: int\n",
            names=("clerk", "state", "Bad"),
        ),
        Case(
            "state-default-without-json",
            InvalidInput,
            'Agent("clerk", state=Bad)',
            _DECLARE,
            setup=_CLAIM + "class Bad(BaseModel):\n    thing: Any = object()\n",
            names=("clerk", "state", "Bad"),
        ),
        Case(
            "state-alias",
            InvalidInput,
            'Agent("clerk", state=Bad)',
            _DECLARE,
            setup=_CLAIM
            + "class Bad(BaseModel):\n    total: int = Field(default=0, alias='t')\n",
            names=("clerk", "state", "total"),
        ),
        Case(
            "state-no-object",
            InvalidInput,
            'Agent("clerk", state=Bad)',
            _DECLARE,
            setup=_CLAIM + "class Bad(BaseModel):\n    total: int = 0\n"
            "    @model_serializer\n    def dump(self) -> str:\n        return 'x'\n",
            names=("clerk", "state", "Bad"),
        ),
        Case(
            "state-writer-without-state",
            InvalidInput,
            'Agent("clerk", tools=[spend])',
            'Agent("clerk", tools=[spend], state=Claim)',
            setup=_STORED,
            names=("clerk", "spend", "state"),
        ),
        Case(
            "state-tool-option",
            InvalidInput,
            'tool(writes_state="yes")(spend)',
            "tool(writes_state=True)(spend)",
            setup='def spend() -> None:\n    "Spend."\n',
            names=("writes_state",),
        ),
        Case(
            "state-missing",
            InvalidInput,
            "replace(ctx, call_state=None).state",
            "ctx.state",
            setup=_CLAIM + "from dataclasses import replace\n",
            names=("ctx.state", "state="),
        ),
        Case(
            "state-not-declared-writer",
            InvalidInput,
            "context(writes_state=False).update(total=1)",
            "context(writes_state=True).update(total=1)",
            setup=_CLAIM,
            names=("ctx.update", "spend", "writes_state=True"),
        ),
        Case(
            "state-call-has-ended",
            InvalidInput,
            "ctx.call_state.take_patch(); ctx.update(total=1)",
            "context().update(total=1)",
            setup=_CLAIM,
            names=("ctx.update", "spend"),
        ),
        Case(
            "state-unknown-field",
            InvalidInput,
            "ctx.update(totla=1)",
            "ctx.update(total=1)",
            setup=_CLAIM,
            names=("totla", "total"),
        ),
        Case(
            "state-value-without-json",
            InvalidInput,
            "ctx.update(thing=object())",
            "ctx.update(thing='x')",
            setup=_CLAIM,
            names=("ctx.update", "Claim"),
        ),
        Case(
            "state-value-changes-in-json",
            InvalidInput,
            "ctx.update(thing={1, 2})",
            "ctx.update(thing=[1, 2])",
            setup=_CLAIM,
            names=("ctx.update", "Claim.thing"),
        ),
        Case(
            "state-value-does-not-fit",
            StateInvalid,
            "ctx.update(total=5000)",
            "ctx.update(total=500)",
            setup=_CLAIM,
            names=("total",),
            is_list=True,
        ),
        Case(
            "state-validator-raises",
            StateInvalid,
            'ctx.update(thing="never")',
            'ctx.update(thing="ever")',
            setup=_CLAIM.replace(
                "def context",
                """    @model_validator(mode="after")
    def check(self):
        return {"never": 1 / 0} if self.thing == "never" else self
def context""",
            ).replace("model_serializer", "model_serializer, model_validator"),
            names=("state", "ZeroDivisionError"),
            is_list=True,
        ),
        Case(
            "state-of-a-thread-without-one",
            InvalidInput,
            "Runner(talker(), store=store).thread(key='k').state",
            "Runner(talker(state=Claim), store=store).thread(key='k').state",
            setup=_CLAIM,
            names=("talker", "state="),
        ),
        Case(
            "state-of-another-type",
            AgentChanged,
            "Runner(spender(Other), store=store).thread(key='k').send('More?')",
            "Runner(spender(Claim), store=store).thread(key='k').send('More?')",
            setup=_STORED,
            names=("spender", "Other", "total"),
        ),
    ),
)
