"""A tool runs with effective arguments, and `verify` finds out what a call did."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from continuations.authoring.context import ToolContext
from continuations.authoring.errors import ArgumentsInvalid, ResultNotSerializable
from continuations.authoring.tool.tool import tool
from continuations.core.rows.decisions import Answer, Approve, Deny

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


def invoke(tool_under_test: Any, raw_arguments: str = "{}") -> str:
    text: str = asyncio.run(
        tool_under_test.invoke(tool_under_test.effective_arguments(raw_arguments), CTX)
    )
    return text


def test_sync_function_gets_python_values_and_tool_context() -> None:
    assert '"4.4"' == invoke(total, '{"items":[{"price":"2.2"}],"factor":2}')


async def test_sync_function_runs_in_a_thread_with_the_callers_context() -> None:
    tenant = contextvars.ContextVar("tenant", default="none")

    @tool
    def where() -> list[object]:
        """Return the place where the tool runs."""
        return [tenant.get(), threading.current_thread() is threading.main_thread()]

    tenant.set("acme")
    result = await where.invoke("{}", CTX)
    assert isinstance(result, str)
    assert '["acme",false]' == result


def test_async_function_is_awaited() -> None:
    @tool
    async def later(word: str) -> str:
        """Wait a little."""
        await asyncio.sleep(0)
        return word

    assert "a" == invoke(later, '{"word":"a"}')


def test_plain_wrapper_of_an_async_function_is_awaited() -> None:
    async def later() -> str:
        await asyncio.sleep(0)
        return "a"

    @functools.wraps(later)
    def wrapper() -> Any:
        return later()

    assert "a" == invoke(tool(wrapper))


def test_argument_may_have_a_reserved_name() -> None:
    @tool
    def odd(function: int, values: int, arguments: int, self_: int) -> list[int]:
        """Take names that the implementation uses too."""
        return [function, values, arguments, self_]

    raw_arguments = '{"function":1,"values":2,"arguments":3,"self_":4}'

    assert "[1,2,3,4]" == invoke(odd, raw_arguments)


def test_bound_method_keeps_its_object() -> None:
    class Bank:
        name = "b"

        def balance(self, account: str) -> str:
            return self.name + account

    assert "b1" == invoke(tool(Bank().balance), '{"account":"1"}')


def test_exception_of_the_function_is_propagated() -> None:
    @tool
    def fail() -> None:
        msg = "no"
        raise LookupError(msg)

    with pytest.raises(LookupError, match="no"):
        invoke(fail)


def test_stop_iteration_does_not_hang() -> None:
    @tool
    def stop() -> int:
        empty: Iterator[int] = iter(())
        return next(empty)

    with pytest.raises(RuntimeError, match="StopIteration"):
        invoke(stop)


def test_result_without_a_json_form_is_refused() -> None:
    @tool
    def bad() -> float:
        return float("nan")

    with pytest.raises(ResultNotSerializable, match="result is nan"):
        invoke(bad)


@pytest.mark.parametrize(
    "arguments_json",
    [
        '{"items":[]}',
        '{"factor":1, "items":[]}',
        '{"items":[],"factor":1}',
        '{"factor":"1","items":[]}',
        "",
    ],
)
def test_arguments_that_are_not_effective_do_not_run(arguments_json: str) -> None:
    with pytest.raises(ArgumentsInvalid):
        asyncio.run(total.invoke(arguments_json, CTX))


def test_repr_of_the_context_hides_the_application_object() -> None:
    assert "mine" not in repr(CTX)
    assert "mine" == CTX.context


# Verifying --------------------------------------------------------------------


def no_parameters() -> Answer:
    return Answer("done")


def with_argument(key: str) -> Answer:
    return Answer(key)


def with_context(ctx: ToolContext, key: str) -> Answer:
    return Answer(f"{key} {ctx.idempotency_key}")


def context_by_name(ctx: Any) -> Answer:
    return Answer(ctx.fence)


def with_all_arguments(**arguments: Any) -> Answer:
    return Answer(sorted(arguments))


async def verify_async(key: str) -> Answer:
    await asyncio.sleep(0)
    return Answer(key)


@pytest.mark.parametrize(
    ("verify", "expected"),
    [
        (None, None),
        (no_parameters, Answer("done")),
        (with_argument, Answer("k")),
        (with_context, Answer("k key")),
        (with_all_arguments, Answer(["ctx", "key"])),
        (verify_async, Answer("k")),
        (context_by_name, Answer(7)),
        (lambda: Approve(by="bank"), Approve(by="bank")),
        (Deny, Deny()),
        (lambda: None, None),
        (lambda: True, None),
        (lambda: "done", None),
        (lambda: Answer, None),
    ],
)
def test_verify_returns_a_decision_or_none(
    verify: Callable[..., Any] | None, expected: object
) -> None:
    @tool(verify=verify)
    def pay(key: str, ctx: ToolContext) -> None:
        """Pay."""

    assert expected == asyncio.run(pay.verify_call('{"key":"k"}', CTX))


def test_exception_of_verify_is_propagated() -> None:
    def verify() -> None:
        raise TimeoutError

    @tool(verify=verify)
    def pay() -> None:
        """Pay."""

    with pytest.raises(TimeoutError):
        asyncio.run(pay.verify_call("{}", CTX))
