"""The checks after a crash: facts are recorded at each death, compared at the end.

No check relies on what a call returned. Effects and turns are lines in files that
outlive every process; versions are the bytes in the store.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from continuations import Runner
from continuations.core.rows.calls import CLOSED_STATES, CallRow
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import RunState
from continuations.errors import RunNotFound
from tests import effect_log, scripts
from tests.torture.agents import RUN, conversation_digest
from tests.torture.process_actor import ProcessActor
from tests.torture.workspace import Workspace

REPEATABLE = ("read", "push")
PERMANENT_PREFIXES = (f"runs/{RUN}/v/", f"runs/{RUN}/in/")
OTHER_RUN = f"{RUN}.2"


def digests(workspace: Workspace, *prefixes: str) -> dict[str, str]:
    """Return the digest of each object under some prefixes."""
    return {
        key: hashlib.sha256(body).hexdigest()
        for key, body in workspace.run_files.objects().items()
        if key.startswith(prefixes)
    }


def model_turns(workspace: Workspace) -> list[dict[str, Any]]:
    """Return the recorded turns of the model."""
    return effect_log.read_lines(workspace.folder / "turns")


def record_crash_state(actor: ProcessActor) -> None:
    """Record what is committed now: it must never change."""
    workspace = actor.workspace
    turns, finished = _committed(actor.decider_runner())
    facts = {
        "objects": digests(workspace, *PERMANENT_PREFIXES),
        "turns": sorted(turns),
        "finished": sorted(finished),
        "effects": len(workspace.run_files.effects()),
        "turn_count": len(model_turns(workspace)),
        "uncommitted": sorted(_uncommitted_turns(actor)),
    }
    deaths = workspace.read_value("deaths", [])
    workspace.write_value("deaths", [*deaths, facts])


def _states(runner: Runner) -> Iterator[RunState]:
    try:
        newest = runner.look(RUN).version
    except RunNotFound:
        return
    for number in range(1, newest + 1):
        yield runner.look(RUN, version=number).run_state


def _committed(runner: Runner) -> tuple[set[str], set[str]]:
    """Return the turns whose reply is committed, and the calls that have finished."""
    turns: set[str] = set()
    call_ids: set[str] = set()
    unfinished: set[str] = set()
    for state in _states(runner):
        for log in state.logs.values():
            messages = [message.data for message in log.messages]
            task, count = (
                scripts.first_user_message(messages),
                scripts.turn_count(messages),
            )
            turns |= {f"{task} {turn}" for turn in range(count)}
        call_ids |= state.calls.keys()
        unfinished = {row.id for row in state.calls.values() if not _is_closed(row)}
    return turns, call_ids - unfinished


def _uncommitted_turns(actor: ProcessActor) -> Iterator[str]:
    """Yield the turns whose request holds messages that no version has.

    Every message must be durable before a model reads it. The only exceptions are
    results of calls that may be repeated: read-only and idempotent ones.
    """
    committed = {
        conversation_digest([message.data for message in log.messages])
        for state in _states(actor.decider_runner())
        for log in state.logs.values()
    }
    for line in model_turns(actor.workspace):
        task, turn = line["task"], line["turn"]
        calls = json.dumps(actor.scenario.script[task][:turn][-1:])
        repeatable = any(f'"{name}"' in calls for name in REPEATABLE)
        if line["digest"] not in committed and not repeatable:
            yield f"{task} {turn}"


def _is_closed(row: CallRow) -> bool:
    return isinstance(row.state, CLOSED_STATES)


def find_violations(actor: ProcessActor, expected: Workspace) -> Iterator[str]:
    """Yield every violation of a run that should have ended."""
    workspace = actor.workspace
    state = actor.decider_runner().look(RUN)
    if state.status != actor.scenario.final_status:
        yield f"the run is {state.status}: {state.failure}"
    if state.status == "finished" and state.output != _output(expected):
        yield f"the run ended with {state.output!r}, not with {_output(expected)!r}"
    yield from _effect_violations(actor)
    yield from _repeats_after_a_crash(workspace)
    if not actor.scenario.conversation_varies:
        yield from _changed_conversations(workspace, expected)
    yield from _version_violations(actor, expected)
    yield from _changes_after_the_end(actor)
    yield from _leftover_keys(actor)


def _output(workspace: Workspace) -> Any:
    """Return the result of the run in a workspace, or `None`."""
    runner = Runner([], store=workspace.open_store(), clock=workspace.clock)
    return runner.look(RUN).output


def _effect_violations(actor: ProcessActor) -> Iterator[str]:
    names, scenario = actor.workspace.run_files.effect_names(), actor.scenario
    counts = Counter(names)
    for name in counts.keys() - set(scenario.effects):
        yield f"unexpected effect: {name}"
    for name in set(scenario.effects) - counts.keys():
        if scenario.final_status == "finished":
            yield f"missing effect: {name}"
    for name, count in counts.items():
        repeatable = name.startswith(REPEATABLE)
        if count > 1 and not repeatable:
            yield f"duplicate effect: {name}"
        lines = [
            line
            for line in actor.workspace.run_files.effects()
            if _effect_label(line) == name
        ]
        keys = {(line["key"], line["call"]) for line in lines}
        if repeatable and len(keys) > 1:
            yield f"duplicate effect: {name}, with two idempotency keys"
        fences = [line["fence"] for line in lines]
        if sorted(set(fences)) != fences:
            yield f"fences of {name} do not grow: {fences}"


def _effect_label(line: dict[str, Any]) -> str:
    return f"{line['tool']} {line['what']}"


def _repeats_after_a_crash(workspace: Workspace) -> Iterator[str]:
    """Yield what a later process repeated, and what one process did twice."""
    deaths = workspace.read_value("deaths", [])
    effects, turns = workspace.run_files.effects(), model_turns(workspace)
    for number, death in enumerate(deaths, 1):
        for turn in death["uncommitted"]:
            yield f"turn was asked with messages that were not committed: {turn}"
        until = None if number == len(deaths) else deaths[number]["turn_count"]
        for line in effects[death["effects"] :]:
            if line["call"] in death["finished"]:
                yield f"finished call ran again: {_effect_label(line)}"
        later = [f"{x['task']} {x['turn']}" for x in turns[death["turn_count"] :]]
        for turn in set(later) & set(death["turns"]):
            yield f"turn was asked again: {turn}"
        own = turns[death["turn_count"] : until]
        for turn, count in Counter(f"{x['task']} {x['turn']}" for x in own).items():
            if count > 1:
                yield f"turn was asked {count} times by one process: {turn}"
        now = digests(workspace, *PERMANENT_PREFIXES)
        for key, body in death["objects"].items():
            if now.get(key) != body:
                yield f"object was changed or deleted: {key}"


def _changed_conversations(workspace: Workspace, expected: Workspace) -> Iterator[str]:
    """Yield the turns in which the model got other messages than without a crash."""
    digests_of_turns = {
        (x["task"], x["turn"]): x["digest"] for x in model_turns(expected)
    }
    for line in model_turns(workspace):
        key = line["task"], line["turn"]
        if digests_of_turns.get(key, line["digest"]) != line["digest"]:
            yield f"the model got another conversation for {key}"


def _version_violations(actor: ProcessActor, expected: Workspace) -> Iterator[str]:
    count = sum(1 for _ in _states(actor.decider_runner()))
    keys = actor.workspace.run_files.keys(f"runs/{RUN}/v/")
    if len(keys) != count:
        yield f"{len(keys)} objects for {count} versions"
    actual, before = (
        {
            key: d
            for key, d in digests(place, "runs/", "waits/").items()
            if OTHER_RUN in key
        }
        for place in (actor.workspace, expected)
    )
    if actual != before:
        yield "another run was changed"


def _changes_after_the_end(actor: ProcessActor) -> Iterator[str]:
    """Yield what an operation on an ended run changed."""
    before = actor.workspace.run_files.objects(), actor.workspace.line_count()
    actor.start_or_resume("resume")
    actor.start_or_resume("start")
    ended = actor.decider_runner().cancel(RUN).status
    if (actor.workspace.run_files.objects(), actor.workspace.line_count()) != before:
        yield "resuming an ended run changed something"
    if ended not in ENDED_STATUSES:
        yield f"an ended run became {ended}"


def _leftover_keys(actor: ProcessActor) -> Iterator[str]:
    actor.sweep_leftovers()
    keys = [
        key
        for key in actor.workspace.run_files.keys("markers/", "waits/")
        if key.endswith(f"@{RUN}")
    ]
    if keys:
        yield f"keys that were not deleted: {keys}"
