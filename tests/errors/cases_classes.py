"""Agents as classes."""

from __future__ import annotations

from continuations.errors import InvalidInput
from tests.errors.case import Area, Case

_GUIDE = """
    class Guide(Agent):
        @task
        def tell(self, topic: int) -> str:
            "Tell something."
            raise NotImplementedError
"""

CLASSES = Area(
    "Agents as classes",
    (
        Case(
            "agent-approval-changed",
            InvalidInput,
            'Agent("clerk", tools=[book]).approval = True',
            'Agent("clerk", tools=[book], approval=True)',
            names=("clerk", "approval"),
        ),
        Case(
            "agent-copied",
            InvalidInput,
            'copy(Agent("clerk"))',
            'Agent("clerk")',
            setup="from copy import copy",
            names=("clerk",),
        ),
        Case(
            "tool-method-without-object",
            InvalidInput,
            'Agent("clerk", tools=[Bank.transfer])',
            'Agent("clerk", tools=[Bank().transfer])',
            setup="""
                class Bank:
                    @tool
                    def transfer(self, cents: int) -> str:
                        "Move money."
                        return "moved"
            """,
            names=("clerk", "transfer"),
        ),
        Case(
            "task-of-no-agent",
            InvalidInput,
            "Bank().weigh",
            "Guide().tell",
            setup=_GUIDE
            + """
    class Bank:
        weigh = task(Guide.tell.function)
""",
            names=("Bank",),
        ),
        Case(
            "task-async",
            InvalidInput,
            """
                @task
                async def tell(self, topic: int) -> str: "Tell."
            """,
            """
                @task
                def tell(self, topic: int) -> str: "Tell."
            """,
            names=("tell",),
        ),
        Case(
            "task-no-method",
            InvalidInput,
            """
                @task
                def tell(topic: int) -> str: "Tell."
            """,
            _GUIDE,
            names=("tell", "self"),
        ),
        Case(
            "task-without-parameters",
            InvalidInput,
            """
                @task
                def tell(self) -> str: "Tell."
            """,
            """
                @task
                def tell(self, topic: str) -> str: "Tell."
            """,
            names=("tell",),
        ),
        Case(
            "task-without-result",
            InvalidInput,
            """
                @task
                def tell(self, topic: str): "Tell."
            """,
            """
                @task
                def tell(self, topic: str) -> str: "Tell."
            """,
            names=("tell",),
        ),
        Case(
            "task-annotation",
            InvalidInput,
            "Guide().tell",
            """
                Plan = dict[str, int]
                Guide().tell
            """,
            setup="""
                class Guide(Agent):
                    @task
                    def tell(self, topic: "Plan") -> str: "Tell."
            """,
            names=("tell", "topic"),
        ),
        Case(
            "task-called",
            InvalidInput,
            "Guide().tell(5)",
            "Guide().tell.input(5)",
            setup=_GUIDE,
            names=("guide_tell",),
        ),
        Case(
            "task-arguments-without-json",
            InvalidInput,
            "Guide().tell.input(object())",
            "Guide().tell.input(5)",
            setup=_GUIDE,
            names=("guide_tell",),
        ),
    ),
)
