"""Running a tool with effective arguments, and asking what became of a call."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from continuations.authoring.context import ToolContext
from continuations.authoring.faults import ArgumentsInvalid, ResultUnstorable
from continuations.authoring.tool import tool
from continuations.core.decisions import Answer, Approve, Deny

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CTX = ToolContext(
    run_id="r", call_id="c1", idempotency_key="key", fence=7, attempt=1, context="mine"
)


class Item(BaseModel):
    price: Decimal


@tool
def total(items: list[Item], ctx: ToolContext, factor: int = 1) -> Decimal:
    """Add up."""
    assert isinstance(ctx, ToolContext)
    return factor * sum((item.price for item in items), Decimal(0))


def run(subject: Any, written: str = "{}") -> str:
    text: str = asyncio.run(subject.invoke(subject.bind(written), CTX))
    return text


def test_a_plain_function_gets_python_values_and_its_context() -> None:
    assert '"4.4"' == run(total, '{"items":[{"price":"2.2"}],"factor":2}')


def test_a_plain_function_runs_in_a_thread_with_its_callers_context() -> None:
    tenant = contextvars.ContextVar("tenant", default="none")

    @tool
    def where() -> list[object]:
        """Tell where it runs."""
        return [tenant.get(), threading.current_thread() is threading.main_thread()]

    async def given() -> str:
        tenant.set("acme")
        return await where.invoke("{}", CTX)

    assert '["acme",false]' == asyncio.run(given())


def test_an_async_function_is_awaited() -> None:
    @tool
    async def later(word: str) -> str:
        """Wait a little."""
        await asyncio.sleep(0)
        return word

    assert "a" == run(later, '{"word":"a"}')


def test_a_plain_wrapper_of_an_async_function_is_awaited() -> None:
    async def later() -> str:
        await asyncio.sleep(0)
        return "a"

    @functools.wraps(later)
    def wrapper() -> Any:
        return later()

    assert "a" == run(tool(wrapper))


def test_an_argument_may_be_called_anything() -> None:
    @tool
    def odd(function: int, values: int, arguments: int, self_: int) -> list[int]:
        """Take names that stand on the way."""
        return [function, values, arguments, self_]

    written = '{"function":1,"values":2,"arguments":3,"self_":4}'

    assert "[1,2,3,4]" == run(odd, written)


def test_a_method_knows_its_object() -> None:
    class Bank:
        name = "b"

        def balance(self, account: str) -> str:
            return self.name + account

    assert "b1" == run(tool(Bank().balance), '{"account":"1"}')


def test_what_the_function_raises_is_raised() -> None:
    @tool
    def fail() -> None:
        msg = "no"
        raise LookupError(msg)

    with pytest.raises(LookupError, match="no"):
        run(fail)


def test_stop_iteration_does_not_hang() -> None:
    @tool
    def stop() -> int:
        empty: Iterator[int] = iter(())
        return next(empty)

    with pytest.raises(RuntimeError, match="StopIteration"):
        run(stop)


def test_a_result_that_cannot_be_stored_is_refused() -> None:
    @tool
    def bad() -> float:
        return float("nan")

    with pytest.raises(ResultUnstorable, match="result is nan"):
        run(bad)


@pytest.mark.parametrize(
    "arguments",
    [
        '{"items":[]}',
        '{"factor":1, "items":[]}',
        '{"items":[],"factor":1}',
        '{"factor":"1","items":[]}',
        "",
    ],
)
def test_what_is_not_effective_does_not_run(arguments: str) -> None:
    with pytest.raises(ArgumentsInvalid):
        asyncio.run(total.invoke(arguments, CTX))


def test_the_context_does_not_show_the_users_object() -> None:
    assert "mine" not in repr(CTX)
    assert "mine" == CTX.context


# Verifying ----------------------------------------------------------------------


def no_parameters() -> Answer:
    return Answer("done")


def some(key: str) -> Answer:
    return Answer(key)


def with_context(ctx: ToolContext, key: str) -> Answer:
    return Answer(f"{key} {ctx.idempotency_key}")


def context_by_name(ctx: Any) -> Answer:
    return Answer(ctx.fence)


def everything(**given: Any) -> Answer:
    return Answer(sorted(given))


async def later(key: str) -> Answer:
    await asyncio.sleep(0)
    return Answer(key)


@pytest.mark.parametrize(
    ("verify", "expected"),
    [
        (None, None),
        (no_parameters, Answer("done")),
        (some, Answer("k")),
        (with_context, Answer("k key")),
        (everything, Answer(["ctx", "key"])),
        (later, Answer("k")),
        (context_by_name, Answer(7)),
        (lambda: Approve(by="bank"), Approve(by="bank")),
        (Deny, Deny()),
        (lambda: None, None),
        (lambda: True, None),
        (lambda: "done", None),
        (lambda: Answer, None),
    ],
)
def test_only_a_decision_settles_a_call(
    verify: Callable[..., Any] | None, expected: object
) -> None:
    @tool(verify=verify)
    def pay(key: str, ctx: ToolContext) -> None:
        """Pay."""

    assert expected == asyncio.run(pay.verify_call('{"key":"k"}', CTX))


def test_what_verify_raises_is_raised() -> None:
    def verify() -> None:
        raise TimeoutError

    @tool(verify=verify)
    def pay() -> None:
        """Pay."""

    with pytest.raises(TimeoutError):
        asyncio.run(pay.verify_call("{}", CTX))
