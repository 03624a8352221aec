"""Errors of the state of an agent."""

from __future__ import annotations

from continuations.authoring.errors import StateInvalid
from continuations.errors import InvalidInput
from tests.errors.case import Area, Case

_CLAIM = """
from typing import Any
from pydantic import BaseModel, Field, model_serializer
from continuations import ToolContext
from continuations.authoring.arguments.typed_values import CallState
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
_DECLARE = 'Agent("clerk", state=Claim)'

STATE = Area(
    "The state of an agent",
    (
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
    ),
)
