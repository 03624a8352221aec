"""Agents as classes: options in the body, tools as methods, tasks for the model."""

from __future__ import annotations

import copy
from abc import ABC
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

import pytest

from continuations import Agent, Answer, ApprovalPolicy, Finished, run, task, tool
from continuations.core.model_protocol import OutputSchema
from continuations.errors import InvalidInput
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Tool

T = TypeVar("T")


def is_much(cents: int) -> bool:
    """Tell whether a person is asked."""
    return cents > 50


class SupportDesk(Agent):
    """You answer questions.

    Be brief.
    """

    model = "gpt-5-mini"
    max_turns = 7
    settings = MappingProxyType({"temperature": 0})
    approval = ApprovalPolicy(when=is_much)

    @tool
    def refund(self, cents: int) -> str:
        """Pay money back."""
        return f"{self.name} paid {cents}"


class NightDesk(SupportDesk):
    """You answer at night."""

    max_turns = 3

    @tool
    def wake(self, cents: int = 9) -> str:
        """Wake a person; the agent's condition reads `cents`."""
        return f"awake for {cents}"


def test_body_of_a_class_declares_options() -> None:
    desk = SupportDesk()
    assert "support_desk" == desk.name
    assert "You answer questions.\n\nBe brief." == desk.instructions
    assert ("gpt-5-mini", 7) == (desk.model, desk.max_turns)
    assert {"temperature": 0} == desk.settings
    assert ["refund"] == list(desk.tools_by_name)
    assert desk.tools_by_name["refund"].approval is not None


def test_passed_option_wins_over_the_body() -> None:
    """Also a value that is the default of all agents."""
    desk = SupportDesk("desk", max_turns=100, instructions="", approval=False)
    assert ("desk", 100, "") == (desk.name, desk.max_turns, desk.instructions)
    assert desk.tools_by_name["refund"].approval is None


def test_class_inherits_options_and_tools() -> None:
    night = NightDesk()
    assert ("night_desk", 3, "gpt-5-mini") == (night.name, night.max_turns, night.model)
    assert "You answer at night." == night.instructions
    assert ["refund", "wake"] == list(night.tools_by_name)
    assert 7 == SupportDesk().max_turns


def test_class_without_docstring_has_the_instructions_of_its_parent() -> None:
    class Other(SupportDesk):
        name = "other"

    assert ("other", SupportDesk().instructions) == (Other().name, Other().instructions)
    assert "" == Agent("plain").instructions


@pytest.mark.parametrize(
    ("cls_name", "name"),
    [("HTTPServer", "http_server"), ("Desk", "desk"), ("Desk2Go", "desk2_go")],
)
def test_name_of_a_class_becomes_lower_case(cls_name: str, name: str) -> None:
    assert name == type(cls_name, (Agent,), {})().name


def test_each_object_has_its_own_tools() -> None:
    first, second = SupportDesk("first"), SupportDesk("second")
    assert "first paid 5" == first.refund(5)
    assert "second paid 6" == second.refund(6)
    assert isinstance(first.refund, Tool)
    assert first.refund is first.refund


def test_functions_of_the_body_may_be_methods() -> None:
    """A function that takes `self` is bound; another one stays as it is."""

    class Claims(Agent):
        limit = 5
        model = ScriptedModel([[ToolCall("pay", {"cents": 9})], "done"])

        def instructions(self, task_: Any, context: Any) -> str:
            return f"{self.name} {task_} {context}"

        def suspend(self, _progress: Any) -> bool:
            return False

        def _paid(self, cents: int) -> Answer:
            return Answer(f"{self.limit} {cents}")

        @tool(
            verify=_paid,
            approval=is_much,
            summary="Pay {cents}",
            is_enabled=lambda context: context == "shop",
        )
        def pay(self, cents: int) -> str:
            """Pay."""
            return f"paid {cents} below {self.limit}"

    claims = Claims()
    verify = claims.pay.verify
    assert verify is not None
    assert Answer("5 3") == verify(cents=3)
    outcome = run(claims, "go", context="shop")
    assert isinstance(outcome, Finished)
    messages = outcome.continuation.root.messages
    assert "claims go shop" == messages[0]["content"]
    assert "paid 9 below 5" == messages[3]["content"]


def test_method_of_any_object_can_be_a_tool() -> None:
    @dataclass
    class Item:
        name: str

    class Shop:
        __slots__ = ("name",)

        @tool
        def sell(self, item: Item) -> str:
            """Sell something."""
            return item.name

    shop = Shop()
    assert "Item" in shop.sell.parameters["$defs"]
    assert ["sell"] == list(Agent("clerk", tools=[shop.sell]).tools_by_name)


def test_task_is_an_agent_with_the_tools_of_its_class() -> None:
    class Judge(SupportDesk):
        """You judge."""

        @task
        def weigh(self, text: str, words: list[str] = []) -> list[int]:  # noqa: B006 - it is copied
            """Weigh a text.

            Count it.
            """
            raise NotImplementedError

    judge = Judge()
    weigh = judge.weigh
    assert weigh is judge.weigh
    assert "judge_weigh" == weigh.name
    assert "You judge.\n\nWeigh a text.\n\nCount it." == weigh.instructions
    assert "Weigh a text." == weigh.description
    assert ["refund"] == list(weigh.tools_by_name)
    assert (7, "gpt-5-mini") == (weigh.max_turns, weigh.model)
    assert list[int] == weigh.output_type
    assert isinstance(weigh.output_schema, OutputSchema)
    schema = weigh.as_tool().parameters
    assert ["text"] == schema["required"]
    assert '{"text":"a","words":["b"]}' == weigh.input("a", words=["b"])
    assert '{"text":"a","words":[]}' == weigh.input("a")


def test_task_of_dynamic_instructions_has_both_texts() -> None:
    class Guide(Agent):
        model = ScriptedModel(["fine"])

        async def instructions(self, _task: Any, context: Any) -> str:
            return f"For {context}."

        @task
        def tell(self, topic: str) -> str:
            """Tell something."""
            raise NotImplementedError

    guide = Guide()
    outcome = run(guide.tell, guide.tell.input("cats"), context="kim")
    assert isinstance(outcome, Finished)
    first, second = outcome.continuation.root.messages[:2]
    assert "For kim.\n\nTell something." == first["content"]
    assert '{"topic":"cats"}' == second["content"]
    assert "fine" == outcome.output


def test_arguments_of_a_task_are_checked() -> None:
    class Guide(Agent):
        @task
        def tell(self, topic: int) -> str:
            """Tell something."""
            raise NotImplementedError

    wrong: Any = "cats"
    with pytest.raises(InvalidInput, match=r"task guide_tell: the arguments"):
        Guide().tell.input(wrong)


def test_task_whose_body_would_do_something_warns() -> None:
    """A method that reads a parameter, or calls something, looks as if it ran."""
    with pytest.warns(UserWarning, match="Guide.tell has a body, and it never runs"):

        class Guide(Agent):
            @task
            def tell(self, topic: str) -> str:
                """Tell something."""
                return "I tell: " + topic

    assert "guide_tell" == Guide().tell.name


def test_task_reads_its_arguments_like_the_call_of_a_model() -> None:
    @dataclass
    class Topic:
        name: str

    class Guide(Agent):
        @task
        def tell(self, topic: Topic, words: int = 5) -> str:
            """Tell something."""
            raise NotImplementedError

    tell: Any = Guide().tell
    assert '{"topic":{"name":"cats"},"words":5}' == tell.input({"name": "cats"})
    fault = r"guide_tell: the arguments do not fit its parameters: words: .*integer"
    with pytest.raises(InvalidInput, match=fault):
        tell.input(Topic("cats"), words="many")
    with pytest.raises(InvalidInput, match=r"'topic'. Pass its parameters: topic, wo"):
        tell.input(words=3)


def test_override_may_call_the_method_of_its_parent() -> None:
    class Careful(SupportDesk):
        @tool
        def refund(self, cents: int) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
            """Pay money back with care."""
            return "carefully: " + SupportDesk.refund(self, cents)

    assert "carefully: careful paid 5" == Careful().refund(5)


def test_attribute_that_was_set_before_the_agent_is_made_wins_over_the_body() -> None:
    class Quiet(SupportDesk):
        def __init__(self, turns: int) -> None:
            self.max_turns = turns
            self.name = f"quiet_{turns}"
            super().__init__()

    quiet = Quiet(2)
    assert (2, "quiet_2", "gpt-5-mini") == (quiet.max_turns, quiet.name, quiet.model)
    assert 3 == Quiet(3).max_turns


def test_dataclass_is_an_agent_if_it_makes_one() -> None:
    @dataclass
    class Shop(Agent):
        """You sell."""

        city: str
        model: Any = "gpt-5-mini"

        def __post_init__(self) -> None:
            super().__init__()

    shop = Shop("Bern", model="gpt-5")
    assert ("Bern", "gpt-5", "shop") == (shop.city, shop.model, shop.name)


def test_helpers_and_attributes_of_a_body_have_any_other_name() -> None:
    class Desk(Agent):
        opened_at = 9
        _mode = "fast"

        @dataclass
        class State:
            total: int = 0

        state = State

        def approve(self) -> bool:
            return self.opened_at == 9

    assert Desk().approve()
    assert {} == Desk().tools_by_name


def test_class_may_have_parents_of_other_kinds() -> None:
    """Their metaclasses add names to the body."""

    class Named(Protocol):
        shop: str

    class Desk(Agent[int], Named, ABC, Generic[T]):
        shop = "books"

    assert ("desk", "books") == (Desk().name, Desk().shop)


def test_parent_that_two_classes_share_is_no_second_tool() -> None:
    class Left(SupportDesk):
        pass

    class Right(SupportDesk):
        @tool
        def refund(self, cents: int) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
            """Pay money back on the right."""
            return f"right {cents}"

    class Both(Left, Right):
        pass

    assert "right 5" == Both().refund(5)


def test_tool_that_overrides_one_without_approval_asks() -> None:
    """Also if the tool of the parent was read before, as `super()` does."""

    class Careful(SupportDesk):
        approval: Any = None

        def __init__(self) -> None:
            self.unchecked = super().refund
            super().__init__()

        @tool(approval=True)
        def refund(self, cents: int) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
            """Pay money back after an approval."""
            return f"paid {cents} with care"

    desk = Careful()
    assert desk.refund is not desk.unchecked
    assert desk.tools_by_name["refund"].approval is not None


def make_payment(*, approval: bool) -> Any:
    """Return a tool for the body of a class."""

    @tool(approval=approval)
    def pay(self: Any, cents: int) -> str:
        """Pay."""
        return f"{self} {cents}"

    return pay


def test_tools_of_one_function_name_are_different() -> None:
    class Bank:
        small = make_payment(approval=False)
        large = make_payment(approval=True)

    bank = Bank()
    assert bank.large.approval is not None
    assert bank.small.approval is None


def test_tools_of_a_copy_belong_to_the_copy() -> None:
    class Bank:
        account = "A"

        @tool
        def pay(self, cents: int) -> str:
            """Pay."""
            return f"{self.account} {cents}"

    bank = Bank()
    assert "A 5" == bank.pay(5)
    other = copy.copy(bank)
    other.account = "B"
    assert "B 5" == other.pay(5)
    assert "A 5" == bank.pay(5)


def test_task_of_a_parent_and_of_its_child_are_different() -> None:
    class Parent(Agent):
        @task
        def plan(self, brief: str) -> str:
            """Plan."""
            raise NotImplementedError

    class Child(Parent):
        def __init__(self) -> None:
            super().__init__()
            self.old = super().plan

        @task
        def plan(self, brief: str) -> str:
            """Plan with care."""
            raise NotImplementedError

    child = Child()
    assert "Plan." == child.old.instructions
    assert "Plan with care." == child.plan.instructions


def test_overriding_tool_may_declare_the_class_of_its_parent_as_self() -> None:
    """For pyright; the annotation is no parameter for the model."""

    class Parent(Agent):
        @tool
        def look(self, order: str) -> str:
            """Look."""
            return f"parent {order}"

    class Child(Parent):
        @tool
        def look(self: Parent, order: str) -> str:
            """Look twice."""
            return f"{self.name} {order}"

    child = Child()
    assert "child A" == child.look("A")
    (made,) = child.tools_by_name.values()
    assert ("Look twice.", ["order"]) == (
        made.description,
        list(made.parameters["properties"]),
    )
