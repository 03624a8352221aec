"""Senders of one thread in real processes, which are killed or frozen at any point."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from continuations import Answer, Approve, ContinuationsError, Replied, Runner
from continuations.errors import AlreadyDecided
from tests.engine.thread_agents import CLERK_ASKS, support
from tests.torture import child_processes
from tests.torture.crash_points import LEASE_EXPIRED_SECONDS, MOMENTS
from tests.torture.workspace import CrashPoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from continuations.engine.outcomes import SendResult
    from continuations_storage import Store
    from tests.torture.process_actor import ProcessActor
    from tests.torture.race_round import Round

KEY = "customer 42"
TEXTS = ["one", "two", f"{CLERK_ASKS}rent", "note four", "five"]
MAX_ROUNDS = 30


def thread_runner(race_round: Round, store: Store) -> Runner:
    """Return a runner with the agent of the thread."""
    return Runner(support(), store=store, clock=race_round.workspace.clock)


def send_once(race_round: Round, store: Store, text: str) -> SendResult[Any]:
    """Send a message under its own id."""
    return thread_runner(race_round, store).thread(key=KEY).send(text, id=text)


def senders_of_a_thread(race_round: Round) -> Iterator[str]:
    """Senders die or freeze; a repeat gets the one reply to each message."""
    children: dict[int, bool] = {}
    for text in TEXTS:
        freezes = race_round.rng.random() < 1 / 3
        number = race_round.rng.randint(1, 40)
        point = CrashPoint("operation", number, race_round.rng.choice(MOMENTS))
        child = child_processes.fork(sender(race_round, text, point, freeze=freezes))
        children[child] = freezes
    yield from wait_for_senders(race_round, children)
    race_round.run_in_child(lambda actor: repeat_all(race_round, actor))
    yield from race_round.workspace.read_value("violations", ["nothing was checked"])


def sender(
    race_round: Round, text: str, point: CrashPoint, *, freeze: bool
) -> Callable[[], None]:
    """Return what a sender does until it dies or freezes."""

    def send() -> None:
        store = race_round.workspace.enter(point, freeze=freeze)
        # Another process may take the thread over, or has no reply yet.
        with suppress(ContinuationsError):
            send_once(race_round, store, text)

    return send


def wait_for_senders(race_round: Round, children: dict[int, bool]) -> Iterator[str]:
    """Wait for each sender; frozen ones wake when their claims have expired."""
    frozen: list[int] = []
    for child in children:
        code = child_processes.wait_for_exit(child, or_stopped=True)
        race_round.workspace.clock.offset_seconds += LEASE_EXPIRED_SECONDS
        if code == child_processes.FROZEN:
            frozen.append(child)
        elif code not in (0, child_processes.KILLED):
            yield f"a sender exited with {code}"
    for child in frozen:
        code = child_processes.continue_child(child)
        if code:
            yield f"a sender woke and exited with {code}"


def repeat_all(race_round: Round, actor: ProcessActor) -> None:
    """Send every message again until each has its reply, and check the thread."""
    missing = list(TEXTS)
    for _ in range(MAX_ROUNDS):
        race_round.workspace.clock.offset_seconds += LEASE_EXPIRED_SECONDS
        results = {text: send_once(race_round, actor.store, text) for text in missing}
        missing = [x for x in missing if not isinstance(results[x], Replied)]
        if not missing:
            break
        decide_all(race_round, actor)
    race_round.workspace.store_violations(thread_violations(race_round, actor, missing))


def decide_all(race_round: Round, actor: ProcessActor) -> None:
    """Approve what waits; say the truth about unknown outcomes."""
    decider = Runner([], store=actor.store, clock=race_round.workspace.clock)
    names = race_round.workspace.run_files.effect_names()
    for summary in decider.waiting():
        wait = decider.wait(summary.id)
        what = wait.arguments["what"]
        happened = wait.kind == "unknown" and f"{wait.tool} {what}" in names
        done = {"pay": f"paid {what}", "note": f"noted {what}"}
        verdict = Answer(done[wait.tool]) if happened else Approve(by="kim")
        with suppress(AlreadyDecided):
            decider.decide(wait.id, verdict)


def thread_violations(
    race_round: Round, actor: ProcessActor, missing: list[str]
) -> Iterator[str]:
    """Yield every message that is lost or doubled, and every doubled effect."""
    if missing:
        yield f"messages without a reply: {missing}"
    runner = thread_runner(race_round, actor.store)
    messages = [m for m in runner.thread(key=KEY).messages() if m["content"]]
    users = [str(m["content"]) for m in messages if m["role"] == "user"]
    replies = [str(m["content"]) for m in messages if m["role"] == "assistant"]
    if Counter(users) != Counter(TEXTS):
        yield f"the thread has the messages {users}"
    if len(replies) != len(TEXTS):
        yield f"the thread has the replies {replies}"
    for text in TEXTS:
        again = send_once(race_round, actor.store, text)
        if not isinstance(again, Replied) or again.output not in replies:
            yield f"a repeat of {text!r} got {again}"
    effects = Counter(race_round.workspace.run_files.effect_names())
    if effects != Counter(["pay rent", "note four"]):
        yield f"duplicate or missing effect: {dict(effects)}"
