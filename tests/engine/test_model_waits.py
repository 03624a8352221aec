"""A model that is down, limited or not ready suspends its frame, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, cast

import pytest

from continuations import Agent, Failed, Finished, Runner, Wait, resume, run, tool
from continuations.engine.ports import SystemIdGenerator
from continuations.errors import ModelError
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.repair import doctor
from continuations.models.interface import (
    LostReply,
    Message,
    ModelReply,
    ModelRequest,
    PendingReply,
)
from continuations.models.scripted import LaterReply, ScriptedModel, ToolCall
from continuations.prices import Usage
from tests.clocks import ManualClock
from tests.engine.shared_store import SharedStore
from tests.outcomes import expect, single_wait


class Limited:
    """A script that is refused while `limited` is set, and counts all requests.

    Attributes:
        limited: The names of the agents whose models are limited.
        retry_after: The seconds that the provider asks for.
    """

    def __init__(self, script: dict[str, list[Any]], *limited: str) -> None:
        self._script = script
        self.limited = {*limited}
        self.retry_after: float | None = None
        self.model = ScriptedModel({name: self._next(name) for name in script})

    @property
    def requests(self) -> list[str]:
        """The agents that asked, in order."""
        return [request.agent for request in self.model.requests]

    def _next(self, name: str) -> Callable[[ModelRequest], Any]:
        def reply(request: ModelRequest) -> Any:
            if name in self.limited:
                return ModelError(
                    "status 429", retryable=True, retry_after=self.retry_after
                )
            turn = sum(message.role == "assistant" for message in request.messages)
            return self._script[name][turn]

        return reply


def only_wait(outcome: object) -> Wait:
    """Return the only wait of a suspended run, which must be one for a model."""
    wait = single_wait(outcome)
    assert "model" == wait.kind
    return wait


def start(shared: SharedStore, limited: Limited, **options: Any) -> Runner:
    """Return a runner of an agent whose model is limited, after a first start."""
    agent = Agent("hr", model=limited.model)
    runner = shared.machine(agents=agent, model_retry_time=0, **options)
    only_wait(runner.start("go", run_id="r"))
    return runner


def start_limited() -> tuple[SharedStore, Limited, Runner]:
    """Start a run whose only agent has a model that is limited."""
    shared, limited = SharedStore(), Limited({"hr": ["done"]}, "hr")
    return shared, limited, start(shared, limited)


def finish(shared: SharedStore, limited: Limited, runner: Runner) -> None:
    """Let the model reply again, and the run end, after the first delay."""
    limited.limited.clear()
    shared.clock.seconds += 76
    assert isinstance(runner.resume("r"), Finished)


def seconds_to(shared: SharedStore, wait: Wait) -> float:
    """Return the seconds until the next attempt."""
    assert wait.deadline is not None
    return (wait.deadline - shared.clock.now()).total_seconds()


# Rate limits and outages ------------------------------------------------------------


def test_limited_model_suspends_the_run_with_the_time_of_the_next_attempt() -> None:
    shared, limited, runner = start_limited()

    wait = only_wait(runner.resume("r"))

    assert ("frame", "f1", ("hr",), "hr") == (
        wait.subject,
        wait.frame_id,
        wait.path,
        wait.tool,
    )
    assert 60 <= seconds_to(shared, wait) <= 75
    assert "Attempt 1 failed: status 429." == wait.note
    assert 1 == len(limited.requests)


def test_run_goes_on_when_a_sweep_finds_the_model_up_again() -> None:
    shared, limited, runner = start_limited()
    limited.limited.clear()
    shared.clock.seconds += 59
    assert () == runner.sweep().resumed

    shared.clock.seconds += 17
    [outcome] = runner.sweep().resumed

    assert isinstance(outcome, Finished)
    assert ["hr", "hr"] == limited.requests
    assert [] == shared.keys("markers/", "waits/")


def test_resume_before_the_time_asks_no_model_and_writes_nothing() -> None:
    """A decision of a sibling must not undo the back-off."""
    shared, limited, runner = start_limited()
    before = shared.keys("")

    only_wait(runner.resume("r"))

    assert before == shared.keys("")
    assert 1 == len(limited.requests)


def test_attempts_back_off_and_stay_few() -> None:
    """A day of outage costs as many requests and twice as many versions as attempts."""
    shared, limited, runner = start_limited()
    delays: list[float] = []

    for _ in range(24 * 60):
        shared.clock.seconds += 60
        waits = map(only_wait, runner.sweep().resumed)
        delays += [seconds_to(shared, wait) for wait in waits]

    assert 24 <= len(limited.requests) <= 32
    assert runner.look("r").version <= 2 * len(limited.requests)
    assert all(60 * 2**n <= delays[n - 1] <= 75 * 2**n for n in (1, 2, 3, 4, 5))
    assert all(3600 <= delay <= 4500 for delay in delays[6:])


def test_runs_of_one_outage_do_not_ask_again_at_the_same_moment() -> None:
    shared, limited = SharedStore(), Limited({"hr": ["done"]}, "hr")
    runner = shared.machine(agents=Agent("hr", model=limited.model), model_retry_time=0)

    waits = [only_wait(runner.start("go", run_id=f"r{n}")) for n in range(20)]

    assert 15 < len({seconds_to(shared, wait) for wait in waits})


@pytest.mark.parametrize(
    ("asked", "least"),
    [(None, 60), (1.0, 60), (7200.0, 7200), (1e12, 86_400), (-5.0, 60)],
)
def test_time_that_the_provider_asks_for_is_kept_up_to_a_day(
    asked: float | None, least: float
) -> None:
    shared, limited = SharedStore(), Limited({"hr": ["done"]}, "hr")
    limited.retry_after = asked
    runner = start(shared, limited)

    assert least <= seconds_to(shared, only_wait(runner.resume("r"))) <= least * 1.25


def test_success_begins_a_new_count() -> None:
    shared = SharedStore()
    fails = iter([True, True, False, True])

    def script(_: ModelRequest) -> Any:
        if next(fails):
            return ModelError("status 503", retryable=True)
        return ToolCall("missing")

    agent = Agent("hr", model=ScriptedModel(script))
    runner = shared.machine(agents=agent, model_retry_time=0)
    notes = [only_wait(runner.start("go", run_id="r")).note]
    for _ in range(2):
        shared.clock.seconds += 200
        notes.append(only_wait(runner.resume("r")).note)

    counts = [f"Attempt {count} failed: status 503." for count in (1, 2, 1)]
    assert counts == notes


def test_run_fails_after_as_many_failures_as_allowed() -> None:
    shared, limited = SharedStore(), Limited({"hr": ["done"]}, "hr")
    runner = start(shared, limited, max_model_failures=3)
    shared.clock.seconds += 100
    only_wait(runner.resume("r"))
    shared.clock.seconds += 200

    outcome = expect(runner.resume("r"), Failed)

    assert "model" == outcome.error.code
    assert "3 times in a row, the last time: status 429." in outcome.error.message
    assert [] == shared.keys("markers/", "waits/")
    assert 3 == len(limited.requests)


def test_worker_that_stops_while_the_model_is_limited_does_not_end_the_run() -> None:
    """Its request failed for less than the retry time, so it does not count."""
    shared, limited = SharedStore(), Limited({"hr": ["done"]}, "hr")
    agent = Agent("hr", model=limited.model)
    runner = shared.machine(agents=agent, model_retry_time=600, max_model_failures=1)

    outcome = runner.start(
        "go", run_id="r", should_pause=lambda: bool(limited.requests)
    )

    only_wait(outcome)
    assert 1 == len(limited.requests)
    finish(shared, limited, runner)


def _was_asked_more_often(limited: Limited, number: int) -> bool:
    return len(limited.requests) > number


def test_attempts_that_a_stopping_worker_cut_short_do_not_count() -> None:
    """Function hosts stop each worker; then one ordinary failure ends no run."""
    shared, limited = SharedStore(), Limited({"hr": ["done"]}, "hr")
    agent = Agent("hr", model=limited.model)
    stopped = shared.machine(agents=agent, model_retry_time=600, max_model_failures=3)
    ordinary = shared.machine(agents=agent, model_retry_time=0, max_model_failures=3)
    only_wait(ordinary.start("go", run_id="r"))

    for number in range(5):
        shared.clock.seconds += 8 * 3600
        asked = number + 1
        wait = only_wait(
            stopped.resume(
                "r", should_pause=partial(_was_asked_more_often, limited, asked)
            )
        )
        assert number + 2 == len(limited.requests)
        assert "The worker stopped while requests failed: status 429." == wait.note
        assert 60 <= seconds_to(shared, wait) <= 75

    shared.clock.seconds += 8 * 3600
    assert "Attempt 2 failed: status 429." == only_wait(ordinary.resume("r")).note
    shared.clock.seconds += 8 * 3600
    assert isinstance(ordinary.resume("r"), Failed)


def test_terminal_error_is_raised_as_before() -> None:
    shared = SharedStore()
    model = ScriptedModel([ModelError("status 401", status=401)])
    runner = shared.machine(agents=Agent("hr", model=model), model_retry_time=0)

    with pytest.raises(ModelError, match="401"):
        runner.start("go", run_id="r")

    assert () == runner.look("r").waits


def test_siblings_go_on_while_one_model_is_limited() -> None:
    """Parallel sub-agents and calls: only the limited one waits."""
    shared = SharedStore()
    calls: list[str] = []

    @tool
    def note() -> str:
        """Note."""
        calls.append("note")
        return "noted"

    script: dict[str, list[Any]] = {
        "boss": [
            [ToolCall("slow", {"input": "S"}), ToolCall("quick", {"input": "Q"})],
            "end",
        ],
        "slow": ["slow done"],
        "quick": [ToolCall("note"), "quick done"],
    }
    limited = Limited(script, "slow")
    slow = Agent("slow", model=limited.model)
    quick = Agent("quick", tools=[note], model=limited.model)
    boss = Agent("boss", tools=[slow, quick], model=limited.model)
    runner = shared.machine(agents=boss, model_retry_time=0)

    wait = only_wait(runner.start("go", run_id="r"))

    assert ("boss", "slow") == wait.path
    assert ["note"] == calls
    assert ["boss", "quick", "quick", "slow"] == sorted(limited.requests)
    finish(shared, limited, runner)
    assert ["boss", "boss", "quick", "quick", "slow", "slow"] == sorted(
        limited.requests
    )
    assert ["note"] == calls


def test_message_is_added_while_the_model_is_limited() -> None:
    shared, limited, runner = start_limited()
    runner.send("r", "be quick")

    only_wait(runner.resume("r"))
    assert 1 == len(limited.requests)

    finish(shared, limited, runner)
    assert ["go", "be quick"] == [
        message.content for message in limited.model.requests[-1].messages
    ]


def test_cancelled_run_asks_no_model_again() -> None:
    shared, limited, runner = start_limited()

    runner.cancel("r")

    shared.clock.seconds += 1000
    runner.sweep()
    assert 1 == len(limited.requests)
    assert [] == shared.keys("markers/", "waits/")


def test_nobody_is_notified_and_no_object_is_made() -> None:
    shared, limited = SharedStore(), Limited({"hr": ["done"]}, "hr")
    told: list[Wait] = []

    start(shared, limited, notify=told.append)

    assert ([], []) == (told, shared.keys("waits/"))
    assert 1 == len(shared.markers())


# Replies that come later ------------------------------------------------------------


def later_runner(shared: SharedStore, *script: Any) -> tuple[Runner, ScriptedModel]:
    """Return a runner of an agent with a script, after a start that suspends it."""
    model = ScriptedModel(script)
    runner = shared.machine(agents=Agent("hr", model=model), model_retry_time=0)
    only_wait(runner.start("go", run_id="r"))
    return runner, model


def test_pending_reply_is_polled_and_the_model_asked_once() -> None:
    shared = SharedStore()
    runner, model = later_runner(shared, LaterReply("done", polls=3))

    for _ in range(2):
        shared.clock.seconds += 100
        only_wait(runner.resume("r"))
    shared.clock.seconds += 100
    assert "done" == runner.resume("r").result()
    assert 1 == len(model.requests)
    assert ["reply-0-0", "reply-0-1", "reply-0-2"] == model.polls
    assert [] == shared.keys("markers/", "waits/")


def test_pending_reply_is_not_polled_before_its_time() -> None:
    shared = SharedStore()
    later = LaterReply("done", poll_after=timedelta(minutes=30))
    runner, model = later_runner(shared, later)
    wait = only_wait(runner.resume("r"))

    assert 1800 == seconds_to(shared, wait)
    assert "The provider computes the reply reply-0-0." == wait.note
    shared.clock.seconds += 1790
    assert () == runner.sweep().resumed
    assert [] == model.polls


def test_polls_of_a_day_are_few() -> None:
    shared = SharedStore()
    runner, model = later_runner(shared, LaterReply("done", polls=1000))

    for _ in range(24 * 60):
        shared.clock.seconds += 60
        runner.sweep()

    assert 1 == len(model.requests)
    assert 30 <= len(model.polls) <= 50


def test_usage_of_a_pending_reply_counts_once() -> None:
    shared = SharedStore()
    tokens = Usage(requests=1, input_tokens=100, output_tokens=20)
    reply = ModelReply(
        message=Message.from_mapping({"role": "assistant", "content": "done"}),
        usage=tokens,
    )
    runner, _ = later_runner(shared, LaterReply(reply, polls=2))
    shared.clock.seconds += 100
    only_wait(runner.resume("r"))
    assert Usage() == runner.look("r").usage
    shared.clock.seconds += 100

    outcome = expect(runner.resume("r"), Finished)

    assert tokens == outcome.usage


def test_message_waits_until_the_pending_reply_is_there() -> None:
    """The reply answers the messages that were sent, and no later one."""
    shared = SharedStore()
    runner, model = later_runner(shared, LaterReply("first"), "second")
    runner.send("r", "and more")
    only_wait(runner.resume("r"))
    shared.clock.seconds += 100

    assert "second" == runner.resume("r").result()
    assert ["go", "first", "and more"] == [
        message.content for message in model.requests[-1].messages
    ]


def test_lost_reply_is_asked_for_again_later() -> None:
    shared = SharedStore()
    asked = 0

    def script(_: ModelRequest) -> Any:
        nonlocal asked
        asked += 1
        # The second call of the script belongs to the poll.
        return LaterReply(LostReply(reason="it expired")) if asked <= 2 else "done"

    model = ScriptedModel(script)
    runner = shared.machine(agents=Agent("hr", model=model), model_retry_time=0)
    only_wait(runner.start("go", run_id="r"))
    shared.clock.seconds += 100

    wait = only_wait(runner.resume("r"))

    assert "Attempt 1 failed: the pending reply is lost: it expired." == wait.note
    shared.clock.seconds += 100
    assert isinstance(runner.resume("r"), Finished)
    assert 2 == len(model.requests)


def test_reply_stays_pending_while_the_provider_cannot_be_polled() -> None:
    shared = SharedStore()
    model = UnreachableModel([LaterReply("done")])
    runner = shared.machine(agents=Agent("hr", model=model), model_retry_time=0)
    only_wait(runner.start("go", run_id="r"))
    model.is_down = True
    shared.clock.seconds += 100
    assert "Attempt 1 failed: no connection." == only_wait(runner.resume("r")).note
    model.is_down = False
    shared.clock.seconds += 100

    assert isinstance(runner.resume("r"), Finished)
    assert 1 == len(model.requests)


class UnreachableModel(ScriptedModel):
    """A scripted model that cannot be polled while `is_down` is set."""

    is_down = False

    async def poll(self, reply_id: str, request: ModelRequest) -> Any:
        if self.is_down:
            msg = "no connection"
            raise ModelError(msg, retryable=True)
        return await super().poll(reply_id, request)


def test_cancel_while_a_reply_is_pending_polls_no_more() -> None:
    shared = SharedStore()
    runner, model = later_runner(shared, LaterReply("done"))

    runner.cancel("r")
    shared.clock.seconds += 1000
    runner.sweep()

    assert [] == model.polls
    assert "cancelled" == runner.look("r").status
    assert [] == shared.keys("markers/", "waits/")


# Waking -----------------------------------------------------------------------------


def test_wake_polls_at_the_next_resume_without_waiting_for_the_time() -> None:
    """Any process may call it; it needs no agents."""
    shared = SharedStore()
    runner, model = later_runner(shared, LaterReply("done"))

    assert 1 == shared.machine(agents=[]).wake("r", by="provider")
    assert [] == model.polls
    [outcome] = runner.sweep().resumed

    assert isinstance(outcome, Finished)
    assert 1 == len(model.polls) == len(model.requests)
    assert [] == shared.keys("markers/", "waits/")


def test_wake_twice_polls_once() -> None:
    shared = SharedStore()
    runner, model = later_runner(shared, LaterReply("done", polls=5))

    assert [1, 1] == [runner.wake("r"), runner.wake("r", by="provider")]
    only_wait(runner.resume("r"))
    only_wait(runner.resume("r"))

    assert ["reply-0-0"] == model.polls
    assert 1 == len(shared.markers())


def test_any_number_of_wakes_fails_no_run_whose_model_is_limited() -> None:
    """One attempt is made early in a period, and it counts no failure."""
    shared, limited = SharedStore(), Limited({"hr": ["done"]}, "hr")
    runner = start(shared, limited, max_model_failures=3)
    wait = only_wait(runner.resume("r"))
    ended: list[int] = []
    for _ in range(50):
        ended.append(runner.wake("r", by="kim"))
        only_wait(runner.resume("r"))

    assert [1, *[0] * 49] == ended
    assert 2 == len(limited.requests)
    again = only_wait(runner.resume("r"))
    assert wait.deadline == again.deadline
    assert "The attempt that was made early failed: " in str(again.note)

    # When the time has come, the attempt counts, and a new period begins
    shared.clock.seconds += seconds_to(shared, again) + 1
    later = only_wait(runner.sweep().resumed[0])
    assert str(later.note).startswith("Attempt 2 failed: ")
    assert [1, 0] == [runner.wake("r"), (runner.resume("r"), runner.wake("r"))[1]]
    assert 4 == len(limited.requests)
    limited.limited.clear()
    shared.clock.seconds += 7200
    assert isinstance(runner.resume("r"), Finished)


def test_wakes_poll_a_limited_provider_once_in_a_period() -> None:
    """A poll that finds no reply yet may be repeated at once; a failed one may not."""
    polls: list[str] = []

    class Late:
        name = "late"
        limited = False

        async def reply(self, _request: ModelRequest) -> PendingReply:
            return PendingReply(id="p1", poll_after=timedelta(minutes=10))

        async def poll(self, pending: str, _request: ModelRequest) -> PendingReply:
            polls.append(pending)
            if self.limited:
                message = "status 429"
                raise ModelError(message, retryable=True)
            return PendingReply(id=pending, poll_after=timedelta(minutes=10))

    shared, model = SharedStore(), Late()
    agent = Agent("hr", model=cast("Any", model))
    runner = shared.machine(agents=agent, model_retry_time=0)
    only_wait(runner.start("go", run_id="r"))
    assert [1, 1, 1] == [(runner.wake("r"), runner.resume("r"))[0] for _ in range(3)]
    assert 3 == len(polls)

    model.limited = True
    woken = [(runner.wake("r"), runner.resume("r"))[0] for _ in range(50)]

    assert [1, *[0] * 49] == woken
    assert 4 == len(polls)


def test_attempt_that_was_made_early_keeps_a_longer_time_of_the_provider() -> None:
    """The provider says when it wants the next request."""
    shared, limited, runner = start_limited()
    limited.retry_after = 600

    runner.wake("r")
    wait = only_wait(runner.resume("r"))

    assert seconds_to(shared, wait) >= 600


def test_wake_after_a_limit_is_over_lets_the_run_go_on() -> None:
    """The model is asked at once, and the next period is a new one."""
    _, limited, runner = start_limited()
    limited.limited.clear()

    assert 1 == runner.wake("r")

    assert isinstance(runner.resume("r"), Finished)


def test_wake_ends_no_wait_of_another_kind() -> None:
    shared = SharedStore()
    shared.suspend("r")

    assert 0 == shared.machine().wake("r")
    assert 1 == len(shared.machine().look("r").waits)


def test_wake_of_an_ended_run_has_no_effect() -> None:
    shared = SharedStore()
    runner, _ = later_runner(shared, LaterReply("done"))
    runner.cancel("r")

    assert 0 == runner.wake("r")
    assert [] == shared.keys("markers/")


def test_wake_while_a_sibling_works_lets_the_same_worker_poll() -> None:
    shared = SharedStore()

    @tool
    def report_ready() -> str:
        """Report what the provider reports while the run works."""
        woken.append(runner.wake("r"))
        return "reported"

    woken: list[int] = []
    script: dict[str, list[Any]] = {
        "boss": [
            [ToolCall("slow", {"input": "S"}), ToolCall("quick", {"input": "Q"})],
            "end",
        ],
        "slow": [LaterReply("slow done")],
        "quick": [ToolCall("report_ready"), "quick done"],
    }
    model = ScriptedModel(script)
    slow = Agent("slow", model=model)
    quick = Agent("quick", tools=[report_ready], model=model)
    agents = Agent("boss", tools=[slow, quick], model=model)
    runner = shared.machine(agents=agents, model_retry_time=0)

    assert isinstance(runner.start("go", run_id="r"), Finished)

    assert ([1], 1) == (woken, len(model.polls))


# Without a store ---------------------------------------------------------------------


def test_run_without_a_store_waits_for_its_model_too(clock: ManualClock) -> None:
    """The bytes have the wait; a resume before the time asks no model."""
    failing: Any = iter([ModelError("status 429", retryable=True, retry_after=900)])
    model = ScriptedModel(lambda _: next(failing, LaterReply("done")))
    agent = Agent("hr", model=model)

    outcome = run(agent, "go", clock=clock)

    for seconds, requests, polls in [(800, 1, 0), (400, 2, 0), (100, 2, 1)]:
        wait = only_wait(outcome)
        data = outcome.continuation.to_bytes()
        clock.seconds += seconds
        outcome = resume(data, agent, clock=clock)
        assert (requests, polls) == (len(model.requests), len(model.polls)), wait.note
    assert isinstance(outcome, Finished)


# Adoption and repair -----------------------------------------------------------------


def test_adopted_run_polls_the_pending_reply_of_its_source() -> None:
    shared = SharedStore()
    model = ScriptedModel([LaterReply("done")])
    agent = Agent("hr", model=model)
    source = run(agent, "go", clock=shared.clock).continuation
    runner = shared.machine(agents=agent)

    wait = only_wait(runner.adopt(source.to_bytes(), run_id="r"))

    assert wait.id != source.waits[0].id
    assert wait.digest != source.waits[0].digest
    assert wait.deadline == source.waits[0].deadline
    shared.clock.seconds += 100
    [outcome] = runner.sweep().resumed
    assert isinstance(outcome, Finished)
    assert 1 == len(model.requests) == len(model.polls)
    assert [] == shared.keys("markers/", "waits/")


def test_repaired_run_polls_its_pending_reply() -> None:
    """The id of the reply survives the loss of the version after it."""
    shared = SharedStore()
    runner, model = later_runner(shared, LaterReply("done", polls=2))
    shared.clock.seconds += 100
    only_wait(runner.resume("r"))
    newest = layout.version_key("r", runner.look("r").version)

    async def damage_and_repair() -> None:
        await shared.store.delete(newest)
        await shared.store.create(newest, b"damaged")
        now = shared.clock.now()
        ids = SystemIdGenerator()
        objects = Objects(shared.store)
        await doctor.repair(objects, "r", now=now, new_ulid=lambda: ids.new_ulid(now))

    shared.clock.seconds += 3600
    asyncio.run(damage_and_repair())
    only_wait(shared.machine(agents=Agent("hr", model=model)).resume("r"))
    shared.clock.seconds += 3600

    assert isinstance(runner.resume("r"), Finished)
    assert 1 == len(model.requests)
