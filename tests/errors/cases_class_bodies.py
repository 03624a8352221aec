"""Bodies of agent classes: names that would not have the effect they seem to have."""

from __future__ import annotations

from continuations.errors import InvalidInput
from tests.errors.case import Area, Case

_CLERK = """
    class Clerk(Agent):
        model = "gpt-5-mini"

        @tool
        def pay(self, cents: int) -> str:
            "Pay."
            return "paid"
"""
_CASHIER = """
    class Cashier(Agent):
        @tool(approval=True)
        def pay(self, cents: int) -> str:
            "Pay after an approval."
            return "paid"
"""

CLASS_BODIES = Area(
    "Bodies of agent classes",
    (
        Case(
            "class-option-misspelled",
            InvalidInput,
            """
                class Clerk(Agent):
                    approvall = True
            """,
            """
                class Clerk(Agent):
                    approval = True
                    _approvall = "an attribute of my own"
            """,
            names=("Clerk", "approvall", "approval", "_approvall"),
        ),
        Case(
            "class-tool-named-as-option",
            InvalidInput,
            """
                class Clerk(Agent):
                    @tool
                    def settings(self, room: str) -> str: "Read the settings of a room."
            """,
            """
                class Clerk(Agent):
                    @tool(name="settings")
                    def room_settings(self, room: str) -> str: "Read the settings."
            """,
            names=("Clerk", "settings"),
        ),
        Case(
            "class-option-is-a-property",
            InvalidInput,
            """
                class Clerk(Agent):
                    @property
                    def settings(self) -> dict[str, float]: return {"temperature": 0}
            """,
            """
                class Clerk(Agent):
                    def __init__(self) -> None:
                        super().__init__(settings={"temperature": 0})
                Clerk()
            """,
            names=("Clerk", "settings", "super().__init__(settings=...)"),
        ),
        Case(
            "class-attribute-of-agents",
            InvalidInput,
            """
                class Clerk(Agent):
                    get_tool = "hammer"
            """,
            """
                class Clerk(Agent):
                    best_tool = "hammer"
            """,
            names=("Clerk", "get_tool"),
        ),
        Case(
            "class-override-without-tool",
            InvalidInput,
            """
                class Night(Clerk):
                    def pay(self, cents: int) -> str: return "later"
            """,
            """
                class Night(Clerk):
                    @tool
                    def pay(self, cents: int) -> str:
                        "Pay later."
                        return "later"

                class Still(Clerk):
                    pay = None

                assert not Still().tools_by_name
            """,
            setup=_CLERK,
            names=("Night", "pay", "Clerk", "@tool"),
        ),
        Case(
            "class-behind-agent",
            InvalidInput,
            """
                class Clerk(Agent, Payer): pass
            """,
            """
                class Clerk(Payer, Agent): pass
                assert "pay" in Clerk().tools_by_name
            """,
            setup="""
                class Payer:
                    @tool
                    def pay(self, cents: int) -> str: "Pay."
            """,
            names=("Clerk", "Payer", "pay"),
        ),
        Case(
            "class-two-parents-with-one-tool",
            InvalidInput,
            "class Both(Clerk, Cashier): pass",
            """
                class Both(Clerk, Cashier):
                    pay = Cashier.pay

                assert Both().tools_by_name["pay"].approval is not None
            """,
            setup=_CLERK + _CASHIER,
            names=("Both", "Clerk", "Cashier", "pay"),
        ),
        Case(
            "class-tool-without-self",
            InvalidInput,
            """
                class Clerk(Agent):
                    @tool
                    def pay(cents: int) -> str: "Pay."

                Clerk()
            """,
            """
                class Clerk(Agent):
                    @tool
                    def pay(self, cents: int) -> str: "Pay."

                class Other(Agent):
                    @tool
                    def pay(cents: int) -> str: "Pay."
                    tools = [pay]

                assert "pay" in Clerk().tools_by_name
                assert "pay" in Other().tools_by_name
            """,
            names=("Clerk", "pay", "self"),
        ),
        Case(
            "class-without-super-init",
            InvalidInput,
            """
                class Shop(Clerk):
                    def __init__(self, name): self.shop = name

                run(Shop("books"), "go")
            """,
            """
                class Shop(Clerk):
                    def __init__(self, name):
                        self.shop = name
                        super().__init__()

                Runner(Shop("books"), store="memory:")
            """,
            setup=_CLERK,
            names=("Shop", "super().__init__()"),
        ),
        Case(
            "class-among-tools",
            InvalidInput,
            'Agent("boss", tools=[Clerk])',
            'Agent("boss", tools=[Clerk()])',
            setup=_CLERK,
            names=("boss", "tools", "Clerk"),
        ),
        Case(
            "tools-changed",
            InvalidInput,
            "Clerk().tools = [book]",
            "Clerk(tools=[book])",
            setup=_CLERK,
            names=("clerk", "tools"),
        ),
        Case(
            "task-of-a-tool",
            InvalidInput,
            """
                @task
                @tool
                def plan(self, brief: str) -> str: "Plan."
            """,
            """
                @task
                def plan(self, brief: str) -> str: "Plan."
            """,
            names=("@task",),
        ),
        Case(
            "tool-of-a-task",
            InvalidInput,
            """
                @tool
                @task
                def plan(self, brief: str) -> str: "Plan."
            """,
            """
                @task
                def plan(self, brief: str) -> str: "Plan."
            """,
            names=("@tool",),
        ),
        Case(
            "task-generator",
            InvalidInput,
            """
                class Planner(Agent):
                    @task
                    def plan(self, brief: str) -> list[str]:
                        "Plan."
                        yield brief
            """,
            """
                class Planner(Agent):
                    @task
                    def plan(self, brief: str) -> list[str]:
                        "Plan."
                        raise NotImplementedError
            """,
            names=("plan", "yield"),
        ),
    ),
)
