"""One command on a store, in its own interpreter; prints the result as JSON.

Usage: `python -m tests.engine.run_command start r1 go`. The environment has options:

- TEST_STORE: the store's URL.
- TEST_APP: `module:function`, which returns the agents, or `none`.
- TEST_LEASE: the length of a claim in seconds.
- TEST_ATTEMPTS: `max_attempts`.
- TEST_DEPTH: `max_depth`.
- TEST_FAULT: `7 before` or `7 after`: SIGKILL at the seventh storage operation.
  `7 freeze`: SIGSTOP before it.
- TEST_COMMITS: with a fault, the store makes several changes in one operation.
- TEST_AHEAD: the clock is so many seconds ahead, and the store tells no time.
- TEST_SKEWED: the clock is so many seconds ahead, and the store tells the time.
- TEST_RENAMED: `renamed`, as JSON.
- TEST_PAUSE_AFTER: `should_pause` returns True after so many questions.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

from continuations import (
    Agent,
    Answer,
    Approve,
    ContinuationsError,
    Deny,
    Failed,
    Finished,
    Outcome,
    Queued,
    Runner,
    Suspended,
    Wait,
    open_store,
    resume,
    run,
)
from continuations.core.rows.decisions import Verdict
from continuations.engine.outcomes import SendResult
from continuations.engine.sweep import sweep_loop
from continuations.errors import RunBusy, StaleRun
from continuations.present.json_forms import event_json
from continuations.results import Decision
from continuations_storage import Store
from continuations_storage.faults import FaultPlan, Operation
from tests import scripts
from tests.clocks import OffsetClock
from tests.engine import agent_builders
from tests.sampling import RUNS_ALL_CASES
from tests.stores import StoreWithoutTime


def parse_verdict(text: str) -> Verdict:
    """Return the verdict of a JSON text like `{"approve": {"by": "kim"}}`."""
    [(kind, fields)] = json.loads(text).items()
    if kind == "answer":
        return Answer(**fields)
    return Approve(**fields) if kind == "approve" else Deny(**fields)


def wait_to_json(wait: Wait) -> dict[str, Any]:
    return {
        "id": wait.id,
        "kind": wait.kind,
        "path": list(wait.path),
        "tool": wait.tool,
        "arguments": wait.arguments,
        "note": wait.note,
        "stage": wait.stage,
        "deadline": wait.deadline and wait.deadline.isoformat(),
    }


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    state = outcome.continuation
    result: dict[str, Any] = {
        "kind": type(outcome).__name__,
        "run_id": outcome.run_id,
        "version": state.version,
        "usage": asdict(state.usage),
        "messages": state.root.messages,
        "changes": [f"{each.kind} {each.where}" for each in outcome.code_changes],
    }
    match outcome:
        case Finished():
            result["output"] = outcome.output
        case Suspended():
            result["waits"] = [wait_to_json(wait) for wait in outcome.waits]
            result["paused"] = outcome.paused
            result["reasons"] = list(outcome.reasons)
        case Failed():
            result["error"] = asdict(outcome.error)
    return result


def send_result_to_json(result: SendResult) -> dict[str, Any]:
    """Return what a message got as JSON values."""
    if isinstance(result, Queued):
        return {"kind": "Queued", "run_id": result.run_id}
    return outcome_to_json(result)


def decision_to_json(decision: Decision) -> dict[str, Any]:
    return {"decided": decision.kind, "by": decision.by, "id": decision.id}


def load_agents() -> list[Agent]:
    """Return the agents of the app that the environment names."""
    app = os.environ.get("TEST_APP", "tests.sample_app:agents")
    if app == "none":
        return []
    module, _, function = app.partition(":")
    agents: list[Agent] = getattr(importlib.import_module(module), function)()
    return agents


def open_test_store() -> Store:
    """Return the store that the environment names, with the fault that it names."""
    plain: Store = open_store(os.environ["TEST_STORE"])
    if "TEST_AHEAD" in os.environ:
        plain = StoreWithoutTime(plain)
    fault = os.environ.get("TEST_FAULT")
    if fault is None:
        return plain
    from continuations_storage.faults import FaultyStore, at, killed  # noqa: PLC0415 - rarely

    number, moment = fault.split()
    dies = killed("before" if moment == "before" else "after")
    is_frozen = moment == "freeze"
    plan = freeze_at(int(number)) if is_frozen else at(int(number), dies)
    return FaultyStore(plain, plan, commits="TEST_COMMITS" in os.environ)


def freeze_at(number: int) -> FaultPlan:
    """Return a plan that stops this process before an operation, until SIGCONT."""

    def plan(operation: Operation, /) -> None:
        if operation.number == number:
            os.kill(os.getpid(), signal.SIGSTOP)

    return plan


def erase_when_free(run_id: str) -> dict[str, Any]:
    """Erase a run as soon as no worker claims it."""
    while True:
        try:
            receipt = make_runner().erase(run_id)
        except (RunBusy, StaleRun):
            time.sleep(0.05)
        else:
            return {"keys": receipt.keys, "versions": receipt.versions}


def max_depth() -> int | None:
    """Return the limit of levels of agents that the environment names."""
    text = os.environ.get("TEST_DEPTH")
    return None if text is None else int(text)


def make_runner() -> Runner:
    lease = float(os.environ.get("TEST_LEASE", "30"))
    attempts = int(os.environ.get("TEST_ATTEMPTS", "5"))
    ahead = os.environ.get("TEST_AHEAD") or os.environ.get("TEST_SKEWED") or "0"
    return Runner(
        load_agents(),
        store=open_test_store(),
        lease=lease,
        max_attempts=attempts,
        max_depth=max_depth(),
        clock=OffsetClock(float(ahead)),
        renamed=json.loads(os.environ.get("TEST_RENAMED", "{}")),
    )


def make_should_pause() -> Callable[[], bool] | None:
    questions = os.environ.get("TEST_PAUSE_AFTER")
    return (
        None if questions is None else agent_builders.should_pause_after(int(questions))
    )


def tool_results_of_task(runner: Runner, run_id: str, task: str) -> list[str]:
    """Return the tool results in frames, each as its last version had it."""
    by_frame: dict[str, list[str]] = {}
    for number in range(1, runner.look(run_id).version + 1):
        logs = runner.look(run_id, version=number).run_state.logs
        for frame_id, log in logs.items():
            messages = [message.data for message in log.messages]
            if scripts.first_user_message(messages) == task:
                by_frame[frame_id] = [
                    str(m["content"]) for m in messages if m["role"] == "tool"
                ]
    return [result for results in by_frame.values() for result in results]


def run_command(command: str, arguments: list[str]) -> dict[str, Any]:  # noqa: C901, PLR0911, PLR0912 - one for each command
    match command, arguments:
        case "start", [run_id, text]:
            return outcome_to_json(
                make_runner().start(
                    text, run_id=run_id, should_pause=make_should_pause()
                )
            )
        case "enqueue", [run_id, text]:
            runner = make_runner()
            return outcome_to_json(runner.start(text, run_id=run_id, work=False))
        case "resume", [run_id]:
            return outcome_to_json(make_runner().resume(run_id))
        case "reopen", [run_id]:
            return outcome_to_json(make_runner().resume(run_id, reopen=True))
        case "decide", [wait_id, verdict]:
            decision = make_runner().decide(wait_id, parse_verdict(verdict))
            assert isinstance(decision, Decision)
            return decision_to_json(decision)
        case "tool-results", [run_id, task]:
            return {
                "tool_results": " ".join(
                    tool_results_of_task(make_runner(), run_id, task)
                )
            }
        case "cancel", [run_id]:
            state = make_runner().cancel(run_id, reason="Enough.", by="kim")
            return {"status": state.status}
        case "fork", [run_id, version, new_id]:
            return {"run": make_runner().fork(run_id, int(version), run_id=new_id)}
        case "rewind", [run_id, version]:
            return {"version": make_runner().rewind(run_id, int(version)).version}
        case "publish", [name, key, number, own_id]:
            published = make_runner().publish(name, int(number), key=key, id=own_id)
            return {"id": published.id, "run_ids": list(published.run_ids)}
        case "erase", [run_id]:
            return erase_when_free(run_id)
        case "events", [run_id, after]:
            found = make_runner().events(run_id, after=after, follow=True)
            return {"events": [event_json(event) for event in found]}
        case "signal", [run_id, name]:
            return {"signal": make_runner().signal(run_id, name, 1)}
        case "pause", [run_id]:
            state = make_runner().pause(run_id, reason="audit", by="kim")
            return {"status": state.status}
        case "unpause", [run_id]:
            return {"status": make_runner().unpause(run_id, by="kim").status}
        case "cancel-call", [run_id, call]:
            state = make_runner().cancel(run_id, call=call, by="kim")
            return {"waits": [wait_to_json(wait) for wait in state.waits]}
        case "sweep", []:
            swept = make_runner().sweep()
            return {
                "looked": swept.runs_checked,
                "resumed": [outcome_to_json(outcome) for outcome in swept.resumed],
                "failed": {key: type(e).__name__ for key, e in swept.errors.items()},
                "skipped": sorted(swept.skipped),
            }
        case "serve", [every]:
            # A shell that starts the tests in the background makes them ignore SIGINT.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            # Only reports of the store make it look earlier.
            with mock.patch.object(sweep_loop, "_FIRST_PAUSE", float(every)):
                make_runner().serve_forever(interval=float(every))
            return {"served": True}
        case "send", [key, text, own_id]:
            sent = make_runner().thread(key=key).send(text, by=own_id, id=own_id)
            return send_result_to_json(sent)
        case "close-thread", [key]:
            make_runner().thread(key=key).close()
            return {"closed": key}
        case "run", [text, path]:
            outcome = run(load_agents()[0], text, max_depth=max_depth())
            Path(path).write_bytes(outcome.continuation.to_bytes())
            return outcome_to_json(outcome)
        case "resume-bytes", [path, answers, onto]:
            verdicts = {
                key: parse_verdict(json.dumps(verdict))
                for key, verdict in json.loads(answers).items()
            }
            data = Path(path).read_bytes()
            outcome = resume(
                data, load_agents()[0], answers=verdicts, max_depth=max_depth()
            )
            Path(onto).write_bytes(outcome.continuation.to_bytes())
            return outcome_to_json(outcome)
        case "race", [count, *what]:
            from tests.engine import process_race  # noqa: PLC0415 - it imports this module

            return {"results": process_race.fork_racers(int(count), what)}
        case _:
            return {"raised": f"no command {command}"}


def error_to_json(error: ContinuationsError) -> dict[str, Any]:
    return {
        "raised": type(error).__name__,
        "message": str(error),
        "run_id": error.run_id,
        "wait_id": error.wait_id,
    }


def main() -> None:
    """Run the command of the command line and print its result."""
    command, *words = sys.argv[1:]
    try:
        result = run_command(command, words)
    except ContinuationsError as error:
        result = error_to_json(error)
    sys.stdout.write(json.dumps(result) + "\n")
    if not RUNS_ALL_CASES:
        # Without the end of the interpreter, a quarter of the time of a short command.
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
