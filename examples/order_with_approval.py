"""An order and its agent in one transaction of Postgres.

    export DATABASE_URL=postgresql://localhost/shop
    continuations migrate --store $DATABASE_URL
    python examples/order_with_approval.py

The order and the run that handles it are committed together. So are the decision of the
clerk and the new state of the order. After a crash there is no order without its run,
and no paid order without a recorded approval.
"""

import os
from typing import Any

import psycopg

from continuations import Agent, Approve, Runner, tool
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ScriptedReply, ToolCall

DATABASE_URL = os.environ["DATABASE_URL"]


@tool(approval=True)
def ship(order: int) -> str:
    """Ship the goods of an order."""
    with psycopg.connect(DATABASE_URL) as connection:
        connection.execute("UPDATE orders SET state = 'shipped' WHERE id = %s", [order])
    return f"Order {order} is on its way."


def scripted_reply(request: ModelRequest) -> ScriptedReply:
    """Return the model's next message, so that the example needs no API key."""
    last = request.messages[-1]
    if last.role != "user":
        return "It is on its way."
    return ToolCall("ship", {"order": int(str(last.content).rpartition(" ")[2])})


shop = Agent("shop", tools=[ship], model=ScriptedModel(scripted_reply))
runner = Runner(shop, store=DATABASE_URL)


def place_order(connection: psycopg.Connection[Any], goods: str) -> int:
    """Store an order and its run; neither exists before the commit."""
    [order] = connection.execute(
        "INSERT INTO orders (goods, state) VALUES (%s, 'new') RETURNING id", [goods]
    ).fetchone() or [0]
    runner.start(
        f"Ship {goods}, order {order}",
        run_id=f"order-{order}",
        work=False,
        connection=connection,
    )
    return int(order)


def approve(connection: psycopg.Connection[Any], order: int, clerk: str) -> None:
    """Record the approval, and who gave it in the application's own table."""
    [wait] = runner.look(f"order-{order}").waits
    runner.decide(wait.id, Approve(by=clerk), connection=connection)
    connection.execute("UPDATE orders SET state = 'paid' WHERE id = %s", [order])


def main() -> None:
    """Place an order, lose one, approve, and let a worker go on."""
    with psycopg.connect(DATABASE_URL) as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS orders (id serial, goods text, state text)"
        )
    with psycopg.connect(DATABASE_URL) as connection:
        order = place_order(connection, "a lamp")
    with psycopg.connect(DATABASE_URL) as connection:
        lost = place_order(connection, "a chair")
        connection.rollback()
    print(f"placed order {order}; order {lost} was rolled back with its run")

    runner.sweep()  # a worker of your own does this all the time
    with psycopg.connect(DATABASE_URL) as connection:
        approve(connection, order, "kim")
    runner.sweep()

    print(runner.look(f"order-{order}").status)
    with psycopg.connect(DATABASE_URL) as connection:
        print(connection.execute("SELECT id, goods, state FROM orders").fetchall())


if __name__ == "__main__":
    main()
