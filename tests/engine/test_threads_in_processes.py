"""Threads in real processes: races of senders, kills, and a year between messages."""

from __future__ import annotations

from typing import Any

from continuations import Runner
from tests.engine.thread_agents import CLERK_ASKS
from tests.run_environment import RunEnvironment

APP = "tests.engine.thread_agents:agents"
KEY = "customer 42"


def send(environment: RunEnvironment, text: str, own_id: str, **more: Any) -> Any:
    """Send a message in another process."""
    return environment.run("send", KEY, text, own_id, app=APP, **more)


def said(environment: RunEnvironment) -> list[dict[str, Any]]:
    """Return the messages of users and the replies, without the calls of tools."""
    messages = Runner([], store=environment.store).look(thread_id(environment))
    chat = [m for m in messages.root.messages if m["role"] in ("user", "assistant")]
    return [each for each in chat if each["content"]]


def thread_id(environment: RunEnvironment) -> str:
    """Return the id of the only run."""
    [summary] = Runner([], store=environment.store).runs()
    return summary.run_id


def test_each_racing_sender_gets_its_own_reply(environment: RunEnvironment) -> None:
    """Six processes make the thread and send to it at the same time."""
    texts = [f"message {number}" for number in range(6)]
    processes = [
        environment.spawn("send", KEY, text, text, app=APP, lease=2) for text in texts
    ]
    results = [process.wait_for_result() for process in processes]

    for text, result in zip(texts, results, strict=True):
        assert "Replied" == result["kind"]
        assert result["output"].endswith(f": {text}")
    users = [each["content"] for each in said(environment) if each["role"] == "user"]
    assert sorted(texts) == sorted(users)
    assert 2 * len(texts) == len(said(environment))


def test_a_payment_below_a_thread_survives_kills(environment: RunEnvironment) -> None:
    """Asked in one process, approved in another, paid once in a third."""
    held = send(environment, f"{CLERK_ASKS}rent", "m1")
    assert "Suspended" == held["kind"]
    [wait] = held["waits"]
    assert ["support", "clerk", "pay"] == wait["path"]
    assert "Queued" == send(environment, "And?", "m2")["kind"]
    environment.approve(wait)
    dying = environment.spawn(
        "send", KEY, f"{CLERK_ASKS}rent", "m1", app=APP, lease=1, fault="9 before"
    )
    dying.wait()
    assert [] == environment.effect_names()

    first = send(environment, f"{CLERK_ASKS}rent", "m1", lease=1)
    second = send(environment, "And?", "m2", lease=1)

    assert "done: done: paid rent" == first["output"]
    assert "2: And?" == second["output"]
    assert ["pay rent"] == environment.effect_names()


def test_a_worker_answers_while_a_sender_waits(environment: RunEnvironment) -> None:
    """The sender follows the thread of another process until its reply is there."""
    send(environment, "one", "m1")
    holder = environment.spawn(
        "send", KEY, "two", "m2", app=APP, lease=1, fault="12 after"
    )
    waiting = environment.spawn("send", KEY, "three", "m3", app=APP, lease=1)
    holder.wait()

    assert waiting.wait_for_result()["output"].endswith(": three")
    assert send(environment, "two", "m2")["output"].endswith(": two")
