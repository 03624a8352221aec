"""AWS's order on Lambda durable functions: validate, reserve, wait for a payment.

    python examples/ported/order.py                # all steps, in memory

    python examples/ported/order.py FOLDER start
    python examples/ported/order.py FOLDER sweep

    python examples/ported/order.py FOLDER approve
    python examples/ported/order.py FOLDER sweep

With a folder, each step is a process. Wait ten seconds before the first `sweep`, or run
`cancel` within them. `reject` may stand in place of `approve`.
"""

import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from continuations import (
    Agent,
    Answer,
    Flow,
    Outcome,
    Runner,
    Suspended,
    ToolContext,
    external,
    tool,
    wait_for,
    workflow,
)
from continuations.errors import CallError
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel
from continuations.testing import FrozenClock, memory_store
from continuations.tools import ToolWait

RUN_ID = "order-7"

# The ported program -------------------------------------------------------------------

PROCESSING_DELAY = timedelta(seconds=10)
PAYMENT_TIMEOUT = timedelta(minutes=5)
Undo = tuple[str, Callable[[], Awaitable[None]]]  # an action and what makes its call


class Order(BaseModel):
    """An order of a customer."""

    order_id: str
    customer_id: str
    amount: int


class PaymentAnswer(BaseModel):
    """The data that the payment approver sends back."""

    approved: bool
    reason: str | None = None


class Compensation(BaseModel):
    """An effect that was undone, or could not be undone."""

    action: str
    success: bool


class OrderResult(BaseModel):
    """The end of an order."""

    status: str
    order_id: str
    message: str
    received: str
    completed: str
    validation: str
    reservation_id: str | None = None
    compensations: list[Compensation] = []


class PaymentRejectedError(Exception):
    """The payment was not approved."""


def scripted_reply(request: ModelRequest) -> str:
    """Return the reply of the model, so that the example runs without an API key."""
    text = str(request.messages[-1].content)
    print("model: validate an order")
    return "INVALID: a field is empty" if "''" in text else "VALID"


validator = Agent(
    "validator",
    instructions="Answer VALID if no field of the order is empty, else INVALID: why.",
    model=ScriptedModel(scripted_reply),
)


@tool(idempotent=True, retries=9)
def reserve_inventory(order: Order) -> str:
    """Reserve the goods of an order; return the id of the reservation."""
    print(f"reserved {order.order_id}")
    return f"RSV-{order.order_id}"


@tool
def release_inventory(reservation_id: str) -> None:
    """Release a reservation."""
    print(f"released {reservation_id}")


@tool
def request_payment(ctx: ToolContext, order: Order) -> ToolWait[PaymentAnswer]:
    """Ask for the approval of a payment."""
    print(f"payment of {order.amount} cents waits: {ctx.wait_id}")
    return external("payment approval", PaymentAnswer, within=PAYMENT_TIMEOUT)


@workflow(tools=[request_payment])
async def payment(flow: Flow, order: Order) -> PaymentAnswer:
    """Wait until a payment is approved, rejected, or too late."""
    try:
        return await flow.call(request_payment, order)
    except CallError:
        return PaymentAnswer(approved=False, reason="no approval in time")


@workflow(tools=[reserve_inventory, release_inventory], agents=[validator, payment])
async def process_order(flow: Flow, order: Order) -> OrderResult:
    """Process an order; undo its effects if the payment fails."""
    received = flow.now().isoformat()
    validation = ""

    def end(status: str, message: str, **more: Any) -> OrderResult:
        return OrderResult(
            status=status,
            order_id=order.order_id or "unknown",
            message=message,
            received=received,
            completed=flow.now().isoformat(),
            validation=validation,
            **more,
        )

    try:
        validation = await flow.call(validator, repr(order))
    except CallError as error:
        return end("PROCESSING_FAILED", f"not validated: {error}")
    if validation != "VALID":
        return end("VALIDATION_FAILED", validation)

    if await wait_for(
        "cancel", bool, within=PROCESSING_DELAY, on_deadline=Answer(value=False)
    ):
        return end("CANCELLED", "cancelled before the payment")

    compensations: list[Undo] = []
    try:
        reservation = await flow.call(reserve_inventory, order)
        compensations.append(
            ("release-inventory", lambda: flow.call(release_inventory, reservation))
        )
        paid = await flow.call(payment, order)
        if not paid.approved:
            raise PaymentRejectedError(paid.reason or "rejected")  # noqa: TRY301 - as in the original
    except (CallError, PaymentRejectedError) as error:
        actions: list[Compensation] = []
        for action, undo in reversed(compensations):
            try:
                await undo()
                actions.append(Compensation(action=action, success=True))
            except CallError:
                actions.append(Compensation(action=action, success=False))
        return end("PAYMENT_FAILED", str(error), compensations=actions)
    return end("PAYMENT_COMPLETED", "paid", reservation_id=reservation)


# The steps ----------------------------------------------------------------------------


def print_outcome(outcome: Outcome) -> None:
    """Print the result, or the kinds of the waits."""
    if isinstance(outcome, Suspended):
        print(f"waits for: {', '.join(wait.kind for wait in outcome.waits)}")
    else:
        result = outcome.result()
        print(f"{result.status}: {result.message}")


def run_step(runner: Runner, step: str) -> None:
    """Run one step."""
    match step:
        case "start":
            order = Order(order_id="A-17", customer_id="ada", amount=4200)
            print_outcome(runner.start(process_order.bind(order), run_id=RUN_ID))
        case "cancel":
            runner.signal(RUN_ID, "cancel", data=True, by="ada")
        case "approve" | "reject":
            [wait] = runner.waiting(kinds=["external"])
            answer = Answer({"approved": step == "approve"}, by="kim")
            runner.decide(wait.id, answer)
        case "sweep":
            for outcome in runner.sweep().resumed:
                print_outcome(outcome)
        case _:
            sys.exit(__doc__)


def run_all_steps() -> None:
    """Move a clock over the time in which the customer may cancel."""
    clock = FrozenClock()
    runner = Runner(process_order, store=memory_store(clock), clock=clock)
    run_step(runner, "start")
    clock.advance(seconds=11)
    for step in ("sweep", "approve", "sweep"):
        run_step(runner, step)


def main() -> None:
    """Run one step in a folder, or all steps in memory."""
    match sys.argv[1:]:
        case []:
            run_all_steps()
        case [folder, step]:
            run_step(Runner(process_order, store=f"sqlite:{folder}/runs.db"), step)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
