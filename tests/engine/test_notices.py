"""`notify`: called with each new wait, and with the ends of waits and runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Finished,
    Runner,
    Suspended,
    Wait,
    ask,
    escalate,
    tool,
    wait_for,
)
from continuations.core.reading import notices
from continuations.errors import AlreadyDecided, InvalidInput, ModelError
from continuations.ledger import layout
from continuations.models.interface import ModelReply, ModelRequest
from continuations.present import json_forms
from continuations.serve.notify.notifier import (
    ChildNotice,
    DecisionNotice,
    Notice,
    NotifyAll,
    RunNotice,
)
from continuations.tools import Secret, Tool
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, crashed, on
from tests import effect_log, scripts
from tests.clocks import ManualClock
from tests.crash_points import every_crash, remaining_keys
from tests.engine import agent_builders
from tests.engine.agent_builders import make_boss, root_tool_results, wait_tool
from tests.engine.payment_agent import ONE_PAY_SCRIPT, pay
from tests.outcomes import expect, single_wait
from tests.scripts import Script, call, scripted_model

DAY = timedelta(days=1)


def make_pay(**policy: Any) -> Tool[..., Any]:
    """Return a tool whose calls need an approval."""

    @tool(approval=ApprovalPolicy(**policy), idempotent=True)
    def pay(cents: int) -> str:
        """Pay an amount."""
        return f"paid {cents}"

    return pay


color = wait_tool(
    "color", lambda: ask("Which color?", within=DAY, on_deadline=Answer("red"))
)
price = wait_tool("price", lambda: wait_for("price"))


class Listener:
    """A notifier that keeps what it gets."""

    def __init__(self) -> None:
        self.opened: list[Wait] = []
        self.heard: list[Notice] = []

    def __call__(self, wait: Wait) -> None:
        """Keep an open wait."""
        self.opened.append(wait)

    def on_notice(self, notice: Notice) -> None:
        self.heard.append(notice)

    def types(self) -> list[str]:
        """Return the types of the notices, with how each wait, agent or run ended."""
        return [f"{each.type} {end_of(each)}" for each in self.heard]

    def decisions(self) -> list[DecisionNotice]:
        """Return the notices of waits that ended."""
        return [each for each in self.heard if isinstance(each, DecisionNotice)]


def end_of(notice: Notice) -> str | None:
    """Return how a wait, an agent or a run ended."""
    match notice:
        case DecisionNotice():
            return notice.kind
        case ChildNotice():
            return notice.end
        case RunNotice():
            return notice.status


@dataclass
class Office:
    """A run of an agent with one tool, on a store with a clock that tests move."""

    a_tool: Any = field(default_factory=make_pay)
    arguments: dict[str, Any] = field(default_factory=lambda: {"cents": 5})
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    has_child: bool = False

    def __post_init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock.now)
        self.listener = Listener()
        self.runner = self.process(self.listener)

    def process(self, notify: Any = None, store: Any = None) -> Runner:
        script: Any = {"go": [[call(self.a_tool.name, **self.arguments)], "end"]}
        a_tool = self.a_tool
        if self.has_child:
            a_tool = Agent("clerk", tools=[a_tool], model=scripted_model(script))
            script = {"go": [[call("clerk", input="go")], "end"]}
        return Runner(
            make_boss(script, a_tool, **self.options),
            store=store or self.store,
            clock=self.clock,
            notify=notify,
        )

    def start(self, **options: Any) -> Wait:
        return single_wait(self.runner.start("go", run_id="r", **options))

    def end_by(self, act: Act) -> list[str]:
        """Start, let people or time act, sweep, and return the types of the notices."""
        wait = self.start()
        assert ["run.suspended suspended"] == self.listener.types()
        self.listener.heard.clear()
        act(self, wait)
        for _ in range(3):
            self.clock.seconds += 61
            self.runner.sweep()
        return self.listener.types()


# How waits and runs end ---------------------------------------------------------

Act = Callable[[Office, Wait], object]
FINISHED, SUSPENDED = "run.ended finished", "run.suspended suspended"


def decide(*verdicts: Any) -> Act:
    return lambda office, wait: [
        office.runner.decide(wait.id, each) for each in verdicts
    ]


def pass_days(days: float, *verdicts: Any) -> Act:
    """Let a deadline pass, and then let people decide."""

    def act(office: Office, wait: Wait) -> None:
        office.clock.seconds += days * DAY.total_seconds()
        office.runner.sweep()
        decide(*verdicts)(office, wait)

    return act


def publish(office: Office, _wait: Wait) -> None:
    office.runner.publish("price", "12")


def rewind(office: Office, _wait: Wait) -> None:
    """Go back to the start: the wait opens again, under a new id."""
    assert len(office.listener.opened) == 1
    office.runner.rewind("r", 1, by="ann")


def fork(office: Office, wait: Wait) -> None:
    """Fork the run; the source is not changed."""
    office.runner.fork("r", run_id="f", decisions={wait.id: Deny(by="lee")})


def pause(office: Office, wait: Wait) -> None:
    """Pause the run, decide, and unpause it."""
    office.runner.pause("r", by="ann")
    decide(Approve(by="kim"))(office, wait)
    office.runner.sweep()
    office.runner.unpause("r")


TWO = {"approvers": ["kim", "lee"], "votes": 2}
LATE = {"within": DAY, "on_deadline": escalate(to=["cfo"], within=DAY)}
# The tool, what happens, and the notices after the run was suspended.
WAYS: dict[str, tuple[Any, Act, list[str]]] = {
    "approved": (make_pay(), decide(Approve()), ["wait.decided approve", FINISHED]),
    "denied": (make_pay(), decide(Deny()), ["wait.decided deny", FINISHED]),
    "answered": (color, decide(Answer("blue")), ["wait.decided answer", FINISHED]),
    "two votes": (
        make_pay(**TWO),
        decide(Approve(by="kim"), Approve(by="lee")),
        ["wait.decided approve", FINISHED],
    ),
    "one vote": (make_pay(**TWO), decide(Approve(by="kim")), []),
    "deadline": (
        make_pay(within=DAY),
        pass_days(2),
        ["wait.expired expire", FINISHED],
    ),
    "deadline that answers": (color, pass_days(2), ["wait.expired expire", FINISHED]),
    "escalated and decided": (
        make_pay(**LATE),
        pass_days(1.5, Approve(by="cfo")),
        ["wait.decided approve", FINISHED],
    ),
    "escalated and expired": (
        make_pay(**LATE),
        lambda office, wait: [pass_days(1.5)(office, wait) for _ in range(2)],
        ["wait.expired expire", FINISHED],
    ),
    "denial that stops": (
        make_pay(on_denied="stop"),
        decide(Deny()),
        ["wait.decided deny", "run.ended failed"],
    ),
    "cancelled": (
        make_pay(),
        lambda office, _: office.runner.cancel("r", by="ann"),
        ["wait.decided cancel", "run.ended cancelled"],
    ),
    "event": (price, publish, [FINISHED]),
    "rewound": (make_pay(), rewind, ["wait.decided cancel", SUSPENDED]),
    "forked": (make_pay(), fork, [SUSPENDED, "wait.decided deny", FINISHED]),
    "paused": (
        make_pay(),
        pause,
        [SUSPENDED, "wait.decided approve", SUSPENDED, FINISHED],
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_end_has_one_notice(way: str) -> None:
    """A row of the table: a wait ends in some way, and a run waits or ends."""
    a_tool, act, expected = WAYS[way]
    arguments = {"cents": 5} if a_tool.name == "pay" else {}

    assert expected == Office(a_tool, arguments).end_by(act)


def test_decision_notice_names_decider_door_and_edit() -> None:
    """It says by whom and how, and has the wait as people saw it."""
    office = Office(make_pay(**TWO))
    wait = office.start()
    office.runner.decide(wait.id, Approve(by="kim", arguments={"cents": 4}))
    office.runner.decide(wait.id, Approve(by="lee", arguments={"cents": 4}))

    [notice] = office.listener.decisions()
    assert (notice.kind, notice.by, notice.door) == ("approve", "lee", "python")
    assert (notice.edited, notice.voters) == (True, ("kim", "lee"))
    assert (notice.wait.id, notice.run_id) == (wait.id, "r")


def test_run_notice_has_status_and_open_waits_and_no_texts() -> None:
    """A run that failed says why in one word."""
    office = Office(make_pay(), options={"max_turns": 1})
    wait = office.start()
    [suspended] = office.listener.heard
    office.runner.decide(wait.id, Approve())
    office.runner.resume("r")
    ended = office.listener.heard[-1]

    assert isinstance(suspended, RunNotice)
    assert (suspended.status, suspended.waits, suspended.agent) == (
        "suspended",
        (wait,),
        "boss",
    )
    assert isinstance(ended, RunNotice)
    assert (ended.status, ended.failure_code, ended.waits) == (
        "failed",
        "max_turns",
        (),
    )
    assert "end" not in repr(ended).replace("run.ended", "")


@pytest.mark.parametrize("verdict", [Approve(), Deny(by="lee")])
def test_child_that_ends_has_a_notice(verdict: Any) -> None:
    """The notice names the agent and its call. The root agent has no such notice."""
    office = Office(has_child=True)
    wait = office.start()
    office.runner.decide(wait.id, verdict)
    office.runner.resume("r")

    [child] = [each for each in office.listener.heard if isinstance(each, ChildNotice)]
    assert (child.run_id, child.agent, child.path) == ("r", "clerk", ("boss", "clerk"))
    assert (child.call, child.end) == ("c3", "returned")
    assert 2 < child.version <= office.runner.look("r").version
    types = [each.type for each in office.listener.heard]
    assert ["run.suspended", "wait.decided", "child.ended", "run.ended"] == types


def test_children_at_the_same_time_have_one_notice_each() -> None:
    """Also those that reply at once, and those that their run's end ends."""
    calls = [call("clerk", input="go"), call("clerk", input="go")]
    clerk = Agent("clerk", model=scripted_model({"go": ["done"]}))
    listener = Listener()
    runner = Runner(
        make_boss({"go": [calls, "end"]}, clerk), store="memory:", notify=listener
    )
    assert isinstance(runner.start("go", run_id="r"), Finished)

    assert ["child.ended returned"] * 2 + [FINISHED] == listener.types()
    assert 3 == len({each.id for each in listener.heard})

    office = Office(has_child=True)
    office.start()
    office.runner.cancel("r", by="ann")
    office.runner.sweep()
    ended = ["wait.decided cancel", "child.ended cancelled", "run.ended cancelled"]
    assert [SUSPENDED, *ended] == office.listener.types()


def test_secret_arguments_are_masked_in_each_notice() -> None:
    """In the values and in their texts; the reason of a decision is not an argument."""

    @tool(approval=True)
    def login(user: str, password: Annotated[str, Secret()]) -> str:
        """Log in."""
        return f"{user} {password}"

    office = Office(login, {"user": "kim", "password": "PLANTED"})
    wait = office.start()
    office.process().decide(wait.id, Approve(by="kim"))
    office.runner.resume("r")

    assert ["run.suspended", "wait.decided", "run.ended"] == [
        each.type for each in office.listener.heard
    ]
    for notice in office.listener.heard:
        form = json_forms.notice_json(notice, with_arguments=True)
        assert "PLANTED" not in f"{notice!r} {form}"
        assert isinstance(notice, RunNotice) or "[secret]" in f"{form}"


def test_thread_that_rests_has_no_notice() -> None:
    """A reply is no end and no suspension."""
    office = Office()
    thread = office.runner.thread(key="t")
    thread.send("go", id="m1")
    [wait] = office.listener.opened
    office.runner.decide(wait.id, Approve())
    office.runner.sweep()

    assert [SUSPENDED, "wait.decided approve"] == office.listener.types()


# How often ----------------------------------------------------------------------


def test_another_process_repeats_a_decision_with_the_same_id() -> None:
    """The decider sends it at once, and then the worker that takes the decision in."""
    office, other = Office(), Listener()
    wait = office.start()

    office.process(other).decide(wait.id, Approve(by="kim"))
    at_once = other.decisions()
    office.runner.resume("r")

    assert at_once == office.listener.decisions() == other.decisions()


def test_decider_without_a_listener_leaves_it_to_the_worker() -> None:
    """Such a decision reads and writes nothing more."""
    office = Office()
    wait = office.start()
    office.process().decide(wait.id, Approve(by="kim"))
    assert [] == office.listener.decisions()

    office.runner.resume("r")
    [notice] = office.listener.decisions()
    assert notice.by == "kim"


def test_votes_that_do_not_end_the_wait_have_no_notice() -> None:
    """The same runner sends the notice of a repeated decision once."""
    office = Office(make_pay(**TWO))
    wait = office.start()
    for by in ("kim", "lee", "lee"):
        office.runner.decide(wait.id, Approve(by=by))

    assert len(office.listener.decisions()) == 1


ALL_ENDS = ["wait.decided", "child.ended", "run.ended"]


@pytest.mark.parametrize("verb", ["decide", "resume"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_process_that_dies_loses_no_notice(verb: str, moment: Any) -> None:
    """At each operation of the decision, or of the worker."""
    for point in every_crash(moment, more_than=2, step=1):
        office = Office(has_child=True)
        wait = office.start()
        office.listener.heard.clear()
        if verb == "resume":
            office.process().decide(wait.id, Approve(by="kim"))
        with point.process(office.store) as dying:
            process = office.process(office.listener, dying)
            if verb == "decide":
                process.decide(wait.id, Approve(by="kim"))
            else:
                process.resume("r")
        office.process().decide(wait.id, Approve(by="kim"))
        if point.number % 2:
            office.clock.seconds += 61
            office.process(office.listener).resume("r")
        for _ in range(4):
            office.clock.seconds += 61
            office.process(office.listener).sweep()
        sent = office.listener.heard
        ids = {(each.type, each.id) for each in sent if each.type != "run.suspended"}
        assert sorted(ALL_ENDS) == sorted(kind for kind, _ in ids), point
        assert [] == remaining_keys(office.store)


def test_notices_of_a_dead_worker_are_sent_after_later_versions() -> None:
    """They are sent although another process wrote later versions since."""
    died_released = 0
    for point in every_crash("after", more_than=4, step=1):
        office = Office()
        script = {"go": [[call("pay", cents=1)], [call("pay", cents=2)], "end"]}
        agent = make_boss(script, office.a_tool)
        store, clock = office.store, office.clock
        first = Runner(agent, store=store, clock=clock).start("go", run_id="r")
        assert isinstance(first, Suspended)
        Runner([], store=store).decide(first.waits[0].id, Approve())
        with point.process(store) as dying:
            Runner(agent, store=dying, clock=clock, notify=office.listener).resume("r")
        state = office.process().look("r")
        died_released += (released := state.status == "suspended" and state.version > 2)
        clock.seconds += 61
        silent = Runner(agent, store=store, clock=clock)
        silent.decide(single_wait(silent.resume("r")).id, Approve())
        assert isinstance(silent.resume("r"), Finished)
        for _ in range(3):
            clock.seconds += 61
            Runner(agent, store=store, clock=clock, notify=office.listener).sweep()
        decided = {each.wait.id for each in office.listener.decisions()}
        assert not released or first.waits[0].id in decided, point
        assert [] == remaining_keys(store)
    assert died_released > 2


def test_a_worker_that_takes_over_sends_the_notices_of_the_dead_one() -> None:
    """Also if that one had no listener, and without a sweep."""
    taken_over = 0
    for point in every_crash("after", more_than=4, step=1):
        office = Office(has_child=True)
        wait = office.start()
        office.process().decide(wait.id, Approve(by="kim"))
        office.listener.heard.clear()
        with point.process(office.store) as dying:
            office.process(None, dying).resume("r")
        state = office.process().look("r")
        if state.status != "running" or state.waits:
            continue
        taken_over += 1
        office.clock.seconds += 61
        assert isinstance(office.process(office.listener).resume("r"), Finished)
        assert ALL_ENDS == [each.type for each in office.listener.heard]
    assert taken_over > 1


def test_notice_comes_after_its_version_and_its_decision() -> None:
    """The store has the facts of a notice when the listener gets it."""
    office, seen = Office(has_child=True), list[str]()

    class Reader(Listener):
        def on_notice(self, notice: Notice) -> None:
            reader = office.process()
            if isinstance(notice, DecisionNotice):
                with pytest.raises(AlreadyDecided):
                    reader.wait(notice.wait.id)
            else:
                assert reader.look("r").version >= notice.version
                if isinstance(notice, RunNotice):
                    assert reader.look("r").status == notice.status
            seen.append(notice.type)

    runner = office.process(Reader())
    runner.decide(single_wait(runner.start("go", run_id="r")).id, Approve())
    runner.resume("r")

    assert ["run.suspended", *ALL_ENDS] == seen


# What a notice costs ------------------------------------------------------------


@pytest.mark.parametrize("has_child", [False, True])
def test_a_listener_adds_no_request_to_a_cycle(*, has_child: bool) -> None:
    """Decisions and versions are known to the worker; only an expiry is read."""
    requests = dict[str, list[str]]()
    for name, notify in [("none", None), ("listener", Listener())]:
        office = Office(make_pay(within=DAY), has_child=has_child)
        store = FaultyStore(office.store)
        runner = office.process(notify, store)
        for run_id, days in [("r1", 0), ("r2", 2)]:
            outcome = expect(runner.start("go", run_id=run_id), Suspended)
            if not days:
                runner.decide(outcome.waits[0].id, Approve(by="kim"))
            office.clock.seconds += days * DAY.total_seconds()
            runner.resume(run_id)
        requests[name] = [each.verb for each in store.operations]
    known, read = requests.values()
    assert len(read) == len(known) + 1


def test_listener_that_raises_costs_only_its_notice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The decision and the run go on, the log says it, and the worker tries again."""
    office, heard = Office(), list[str]()

    class Broken(Listener):
        def on_notice(self, notice: Notice) -> None:
            heard.append(notice.type)
            raise SystemExit

    runner = office.process(Broken())
    wait = office.start()
    runner.decide(wait.id, Approve())

    assert isinstance(runner.resume("r"), Finished)
    assert heard == ["wait.decided", "wait.decided", "run.ended"]
    assert 3 == sum("on_notice raised" in each.message for each in caplog.records)


@pytest.mark.parametrize("damaged", [0, 2])
def test_notices_that_cannot_be_made_stop_no_run(
    damaged: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of ours is logged; a version that cannot be read hides older notices."""
    office = Office()
    wait = office.start()
    office.process().decide(wait.id, Approve())
    if damaged:
        crashing = FaultyStore(office.store, on("delete", crashed("before")))
        with suppress(Crash):
            office.process(None, crashing).resume("r")
        key = layout.version_key("r", damaged)
        body = asyncio.run(office.store.read(key))
        asyncio.run(office.store.delete(key))
        asyncio.run(office.store.create(key, body[:-1] + b"x"))
    else:
        monkeypatch.setattr(notices, "notices_between", {}.popitem)
    office.listener.heard.clear()
    office.clock.seconds += 61
    office.process(office.listener).resume("r")
    office.process(office.listener).sweep()

    assert "finished" == office.process().look("r").status
    assert ([FINISHED] if damaged else []) == office.listener.types()
    assert "not sent" in caplog.text


def test_slow_listener_delays_a_decision_by_a_second_at_most() -> None:
    """The notice goes on beside. The worker does not rely on it, and sends its own."""
    office, gate = Office(), threading.Event()

    class Slow(Listener):
        begun = 0

        def on_notice(self, notice: Notice) -> None:
            self.begun += 1
            if self.begun == 1:
                gate.wait(60)
            super().on_notice(notice)

    slow = Slow()
    wait = office.start()
    runner = office.process(slow)
    before = time.monotonic()
    runner.decide(wait.id, Approve(by="kim"))
    assert 0.9 < time.monotonic() - before < 50
    assert [] == slow.types()
    assert isinstance(runner.resume("r"), Finished)
    assert ["wait.decided approve", FINISHED] == slow.types()

    gate.set()
    for _ in range(6000):
        if len(slow.heard) > 2:
            break
        time.sleep(0.01)
    assert slow.heard[0] == slow.heard[2]


def test_notices_of_many_children_are_sent_some_at_a_time() -> None:
    """A plain function needs a thread for each."""
    now, most, lock = 0, 0, threading.Lock()

    class Counting(Listener):
        def on_notice(self, notice: Notice) -> None:
            nonlocal now, most
            with lock:
                now += 1
                most = max(most, now)
            time.sleep(0.005)
            super().on_notice(notice)
            with lock:
                now -= 1

    listener = Counting()
    clerk = Agent("clerk", model=scripted_model({"go": ["done"]}))
    calls = [call("clerk", input="go") for _ in range(50)]
    boss = make_boss({"go": [calls, "end"]}, clerk)
    runner = Runner(boss, store="memory:", notify=listener)
    assert isinstance(runner.start("go"), Finished)
    assert 51 == len(listener.heard)
    assert 1 < most <= 20


async def test_decision_in_a_loop_that_closes_is_recorded() -> None:
    """A cancelled notice changes nothing: the worker sends it."""
    office = Office()
    store, clock = office.store, office.clock

    class Hanging:
        async def __call__(self, wait: Wait) -> None:
            """Accept."""

        async def on_notice(self, notice: Notice) -> None:
            """Hang."""
            del notice
            await asyncio.Event().wait()

    outcome = await AsyncRunner(
        make_boss({"go": [[call("pay", cents=1)], "end"]}, office.a_tool),
        store=store,
        clock=clock,
    ).start("go", run_id="r")
    assert isinstance(outcome, Suspended)
    runner = AsyncRunner([], store=store, clock=clock, notify=Hanging())
    deciding = asyncio.create_task(runner.decide(outcome.waits[0].id, Deny()))
    await asyncio.sleep(0.2)
    deciding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deciding
    with pytest.raises(AlreadyDecided):
        await runner.wait(outcome.waits[0].id)


def test_notify_without_the_method_stays_valid() -> None:
    """A function, and several of them; an attribute that is no method is refused."""
    opened = list[Wait]()
    listener = Listener()
    office = Office()
    office.runner = office.process(NotifyAll(opened.append, listener))
    wait = office.start()
    office.runner.decide(wait.id, Approve())

    assert [wait] == opened == listener.opened
    assert "wait.decided approve" == listener.types()[-1]
    assert NotifyAll(opened.append).on_notice is None

    listener.on_notice = "later"  # type: ignore[method-assign, assignment]
    with pytest.raises(InvalidInput, match="on_notice must be a method"):
        office.process(listener)


# New waits --------------------------------------------------------------------


def recording_notifier(wait_ids: list[str]) -> Callable[[Wait], None]:
    def notify(wait: Wait) -> None:
        wait_ids.append(wait.id)

    return notify


def blocking_notifier(gate: threading.Event) -> Callable[[Wait], None]:
    """Return a notifier that hangs until a gate opens."""

    def notify(_wait: Wait) -> None:
        gate.wait(60)

    return notify


def test_notify_comes_once_the_wait_is_durable_and_can_be_decided() -> None:
    """A decision that arrives at once is used at once."""
    store = MemoryStore()
    notified: list[str] = []

    def notify(wait: Wait) -> None:
        # Another process, with the store alone
        other = Runner([], store=store)
        assert other.wait(wait.id) == wait
        assert [wait.id] == [summary.id for summary in other.waiting()]
        assert "suspended" == other.look(wait.run_id).status
        other.decide(wait.id, Approve(by="kim"))
        notified.append(wait.id)

    runner = Runner(
        agent_builders.make_boss(ONE_PAY_SCRIPT, pay), store=store, notify=notify
    )
    outcome = runner.start("go", run_id="r")

    # Then the caller did not even get a suspension
    assert isinstance(outcome, Finished)
    assert (1, ["pay "]) == (len(notified), effect_log.names())


def test_async_notifier_is_awaited(store: MemoryStore) -> None:
    """`notify` may be a coroutine function."""

    async def notify(wait: Wait) -> None:
        await AsyncRunner([], store=store).decide(wait.id, Deny(reason="At once."))

    runner = Runner(
        agent_builders.make_boss(ONE_PAY_SCRIPT, pay), store=store, notify=notify
    )

    assert "At once." in root_tool_results(runner.start("go"))[0]
    assert [] == effect_log.effects()


@pytest.mark.parametrize(
    "error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError]
)
def test_a_notifier_that_raises_loses_nothing(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """The waits are stored, the errors are logged, and every wait is notified."""
    notified: list[str] = []

    def notify(wait: Wait) -> None:
        notified.append(wait.id)
        raise error

    script: Script = {"go": [[call("pay"), call("pay")], "end"]}
    runner = agent_builders.make_runner(script, pay, notify=notify)
    outcome = expect(runner.start("go", run_id="r"), Suspended)

    waits = {wait.id for wait in outcome.waits}
    assert waits == set(notified) == {summary.id for summary in runner.waiting()}
    assert 2 == sum("notify raised" in record.message for record in caplog.records)


def test_notifier_is_called_once_per_wait() -> None:
    """Also over partial resumes."""
    notified: list[str] = []
    script: Script = {"go": [[call("pay"), call("pay")], [call("pay")], "end"]}
    runner = agent_builders.make_runner(
        script, pay, notify=recording_notifier(notified)
    )

    outcome = runner.start("go", run_id="r")
    while isinstance(outcome, Suspended):
        runner.decide(outcome.waits[0].id, Approve())
        outcome = runner.resume("r")

    assert 3 == len(notified) == len(set(notified)) == len(effect_log.names())


def test_open_wait_is_notified_again_on_request() -> None:
    """`notify` tells of the same wait each time, and never of a decided one."""
    told: list[Wait] = []
    runner = agent_builders.make_runner(ONE_PAY_SCRIPT, pay, notify=told.append)
    wait = single_wait(runner.start("go", run_id="r"))

    runner.notify(wait.id)
    runner.notify(wait.id)

    assert [wait] * 3 == told
    runner.decide(wait.id, Deny(by="kim"))
    with pytest.raises(AlreadyDecided):
        runner.notify(wait.id)
    assert (3, []) == (len(told), effect_log.effects())


def test_notifier_is_called_although_a_sibling_model_fails() -> None:
    """A run that stops for its model has notified the waits that it leaves."""
    script: Script = {
        "go": [[call("a", input="A"), call("b", input="B")], "end"],
        "A": [[call("pay")], "A end"],
        "B": [ModelError("down")],
    }
    model = scripts.scripted_model(script)
    children = [Agent(name, tools=[pay], model=model) for name in "ab"]
    notified: list[str] = []
    runner = Runner(
        Agent("boss", tools=children, model=model),
        store=MemoryStore(),
        notify=recording_notifier(notified),
    )

    for _ in range(2):
        with pytest.raises(ModelError):
            runner.start("go", run_id="r")

    assert [summary.id for summary in runner.waiting()] == notified
    assert 1 == len(notified)


def test_a_slow_notify_does_not_stop_another_run() -> None:
    """It delays only its own run."""
    gate = threading.Event()
    slow = agent_builders.make_runner(
        ONE_PAY_SCRIPT, pay, notify=blocking_notifier(gate)
    )
    thread = threading.Thread(target=lambda: slow.start("go"))
    thread.start()
    try:
        before = time.monotonic()
        assert isinstance(
            agent_builders.make_runner({"go": ["end"]}).start("go"), Finished
        )
        assert time.monotonic() - before < 30
    finally:
        gate.set()
        thread.join(60)
    assert [] == effect_log.effects()


async def test_timeout_of_start_while_a_sibling_waits_notifies() -> None:
    """A time limit cancels `start()`; the wait of another agent is published."""
    clock, notified = ManualClock(), list[str]()
    store = MemoryStore(clock.now)

    class Slow:
        name = "slow"

        async def reply(self, request: ModelRequest) -> ModelReply:
            """Never reply."""
            del request
            waiting.set()
            await asyncio.Event().wait()
            raise AssertionError

    script = {
        "go": [[call("a", input="A"), call("b", input="B")], "end"],
        "A": [[call("pay")], "A end"],
    }
    model = scripts.scripted_model(script)
    children = [Agent("a", tools=[pay], model=model), Agent("b", model=Slow())]
    boss = Agent("boss", tools=children, model=model)

    waiting = asyncio.Event()
    runner = AsyncRunner(
        boss, store=store, clock=clock, notify=recording_notifier(notified)
    )
    starting = asyncio.create_task(runner.start("go", run_id="r1"))
    await waiting.wait()
    for _ in range(6000):
        if (await runner.look("r1")).waits:
            break
        await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    [wait] = (await runner.look("r1")).waits
    assert [wait.id] == notified
    assert [wait.id] == [each.id async for each in runner.waiting()]
