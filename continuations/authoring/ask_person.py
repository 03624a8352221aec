"""The ready-made tool with which a model asks a person."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal, TypeAlias

from continuations.authoring.tool import tool
from continuations.authoring.tool_waits import ToolWait, ask

AnswerKind: TypeAlias = Literal["text", "yes or no", "number", "date"]
_TYPES: dict[AnswerKind, Any] = {
    "text": str,
    "yes or no": bool,
    "number": float,
    "date": date,
}


# A question has no effect that could be doubled: after a crash it is asked again. A
# person is not asked whether a person may be asked.
@tool(approval=False, read_only=True)
def ask_person(question: str, answer_type: AnswerKind = "text") -> ToolWait[Any]:
    """Ask a person a question, and get the answer.

    Use it if you need a fact or a choice that only a person can give. The answer may
    take days.

    Args:
        question: The whole question. The person sees nothing else.
        answer_type: The type of the answer.
    """
    return ask(question, _TYPES[answer_type])
