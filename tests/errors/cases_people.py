"""Errors about identities, and about the texts that people read."""

from __future__ import annotations

from continuations.errors import DecisionRefused, InvalidInput
from tests.errors.case import Area, Case

IDENTITIES = Area(
    "Identities",
    (
        Case(
            "identity-name-type",
            InvalidInput,
            "Identity(5)",
            'Identity("kim")',
            names=("name",),
        ),
        Case(
            "identity-name-empty",
            InvalidInput,
            'Identity("")',
            'Identity("kim")',
            names=("name",),
        ),
        Case(
            "identity-name-hidden",
            InvalidInput,
            'Identity("kim\\u200b")',
            'Identity("kim")',
            names=("name", "U+200B"),
        ),
        Case(
            "identity-groups-text",
            InvalidInput,
            'Identity("kim", groups="finance")',
            'Identity("kim", groups=["finance"])',
            names=("groups",),
        ),
        Case(
            "identity-groups-type",
            InvalidInput,
            'Identity("kim", groups=5)',
            'Identity("kim", groups=("finance",))',
            names=("groups",),
        ),
        Case(
            "identity-many-groups",
            InvalidInput,
            'Identity("kim", groups=[f"g{n}" for n in range(101)])',
            'Identity("kim", groups=["g1"])',
            names=("groups",),
        ),
    ),
)

_PAYING = """
    from typing import Annotated
    def pay(cents: int, pin: str) -> str: return "paid"
    schema = {"type": "object", "properties": {"cents": {"type": "integer"}}}
"""


def _summary(name: str, wrong: str, right: str, *names: str) -> Case:
    return Case(
        f"summary-{name}",
        InvalidInput,
        f'tool(description="Pay.", summary={wrong})(pay)',
        f'tool(description="Pay.", summary={right})(pay)',
        setup=_PAYING,
        names=("pay", "summary", *names),
    )


DISPLAYS = Area(
    "Words for people",
    (
        _summary("type", "5", '"Pay {cents} to Jane"', "int"),
        _summary("template", '"Pay {"', '"Pay {cents}"'),
        _summary("empty", '" "', '"Pay"', "500 characters"),
        _summary("lines", '"Pay\\nnow"', '"Pay now"', "one line"),
        _summary("index", '"Pay {cents[0]}"', '"Pay {cents}"', "cents[0]"),
        _summary("format", '"Pay {cents:.2f}"', '"Pay {cents:money/100}"', "money/100"),
        _summary("name", '"Pay {cent}"', '"Pay {cents}"', "cent"),
        _summary("unreadable", '"Pay {pin:money/100}"', '"Pay {pin}"', "pin", "money"),
        Case(
            "summary-async",
            InvalidInput,
            """
                async def title(cents): return "Pay"
                tool(description="Pay.", summary=title)(pay)
            """,
            """
                def title(cents): return "Pay"
                tool(description="Pay.", summary=title)(pay)
            """,
            setup=_PAYING,
            names=("pay", "summary"),
        ),
        Case(
            "summary-nested-name",
            InvalidInput,
            'tool(description="Pay.", summary="Pay with {card.number}")(pay)',
            'tool(description="Pay.", summary="Pay with {card.owner}")(pay)',
            setup="""
    class Card(BaseModel): owner: str
    def pay(card: Card) -> str: return "paid"
""",
            names=("summary", "number", "owner"),
        ),
        Case(
            "summary-secret",
            InvalidInput,
            'Tool.from_schema("pay", schema, str, summary="{cents}", readings=readings)',
            'Tool.from_schema("pay", schema, str, summary="Pay", readings=readings)',
            setup=f'{_PAYING}    readings = {{"cents": Secret()}}',
            names=("summary", "cents", "Secret"),
        ),
        Case(
            "schema-tool-readings",
            InvalidInput,
            'Tool.from_schema("pay", schema, str, readings={"cent": Secret()})',
            """
                readings = {"cents": Money("EUR", 100)}
                Tool.from_schema("pay", schema, str, readings=readings)
            """,
            setup=_PAYING,
            names=("readings",),
        ),
        Case(
            "money-currency",
            InvalidInput,
            'Money("euro")',
            'Money("EUR", 100)',
            names=("currency",),
        ),
        Case(
            "money-units",
            InvalidInput,
            'Money("EUR", 7)',
            'Money("EUR", 100)',
            names=("units",),
        ),
        Case(
            "reading-class",
            InvalidInput,
            """
                def enter(pin: Annotated[str, Secret]) -> str: return pin
                tool(enter, description="Enter.").secrets
            """,
            """
                def enter(pin: Annotated[str, Secret()]) -> str: return pin
                tool(enter, description="Enter.").secrets
            """,
            setup=_PAYING,
            names=("pin", "Secret()"),
        ),
        Case(
            "reading-in-a-type-that-contains-itself",
            InvalidInput,
            """
                def grow(tree: Tree) -> str: return "grown"
                tool(grow, description="Grow.").secrets
            """,
            """
                def grow(tree: Annotated[Tree, Secret()]) -> str: return "grown"
                tool(grow, description="Grow.").secrets
            """,
            setup=f"""{_PAYING}
    class Tree(BaseModel):
        value: Annotated[str, Secret()]
        inner: "list[Tree]"
""",
            names=("tree", "Tree", "Secret()"),
        ),
        Case(
            "edit-of-a-secret",
            DecisionRefused,
            'runner.decide(wait.id, Approve(arguments={"pin": "5"}))',
            'runner.decide(wait.id, Approve(arguments={"pin": "[secret]"}))',
            setup="""
    from typing import Annotated
    def enter(pin: Annotated[str, Secret()]) -> str: return pin
    entering = tool(enter, description="Enter.", approval=True)
    agent = clerk(entering, script=[ToolCall("enter", {"pin": "1234"}), "done"])
    runner = Runner(agent, store=store, clock=clock)
    wait = start("jane-1", runner)
""",
            names=("secret",),
        ),
    ),
)
