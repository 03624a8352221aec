"""What must be true after a crash: kept at each death, compared at the end.

Nothing here believes what a call returned. Effects and turns are lines in files that
outlive every process; versions are the bytes in the store.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from continuations import Runner, RunNotFound
from continuations.core.calls import CLOSED_STATES
from continuations.core.run import ENDED_STATUSES
from tests import effect_log, scripts
from tests.torture.agents import RUN, conversation_digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.core.calls import CallRow
    from continuations.core.state import RunState
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
    """Return the lines of the model's ledger."""
    return effect_log.read_lines(workspace.folder / "turns")


def record_crash_state(actor: ProcessActor) -> None:
    """Note what stands at this moment: it must stand for ever."""
    place = actor.workspace
    asked, finished = _committed(actor.decider_runner())
    memory = {
        "objects": digests(place, *PERMANENT_PREFIXES),
        "turns": sorted(asked),
        "finished": sorted(finished),
        "effects": len(place.run_files.effects()),
        "asked": len(model_turns(place)),
        "unkept": sorted(_uncommitted_turns(actor)),
    }
    place.write_value("deaths", [*place.read_value("deaths", []), memory])


def _states(runner: Runner) -> Iterator[RunState]:
    try:
        newest = runner.look(RUN).version
    except RunNotFound:
        return
    for number in range(1, newest + 1):
        yield runner.look(RUN, version=number).run_state


def _committed(runner: Runner) -> tuple[set[str], set[str]]:
    """Return the turns whose reply is kept, and the calls that have finished."""
    asked: set[str] = set()
    known: set[str] = set()
    still: set[str] = set()
    for state in _states(runner):
        for log in state.logs.values():
            messages = [message.data for message in log.messages]
            task, count = (
                scripts.first_user_message(messages),
                scripts.turn_count(messages),
            )
            asked |= {f"{task} {turn}" for turn in range(count)}
        known |= state.calls.keys()
        still = {row.id for row in state.calls.values() if not _is_closed(row)}
    return asked, known - still


def _uncommitted_turns(actor: ProcessActor) -> Iterator[str]:
    """Say which turns were asked about what no version keeps (R-A8).

    What was sent to a model must be durable by then, but for results that may be
    had again: calls that are read-only or idempotent.
    """
    kept = {
        conversation_digest([message.data for message in log.messages])
        for state in _states(actor.decider_runner())
        for log in state.logs.values()
    }
    for line in model_turns(actor.workspace):
        task, turn = line["task"], line["turn"]
        told = json.dumps(actor.scenario.script[task][:turn][-1:])
        repeatable = any(f'"{name}"' in told for name in REPEATABLE)
        if line["digest"] not in kept and not repeatable:
            yield f"{task} {turn}"


def _is_closed(row: CallRow) -> bool:
    return isinstance(row.state, CLOSED_STATES)


def find_violations(actor: ProcessActor, expected: Workspace) -> Iterator[str]:
    """Say everything that is not as it must be, of a run that should have ended."""
    place = actor.workspace
    state = actor.decider_runner().look(RUN)
    if state.status != actor.scenario.final_status:
        yield f"it is {state.status}: {state.failure}"
    yield from _effect_violations(actor)
    yield from _repeats_after_a_crash(place)
    if not actor.scenario.conversation_varies:
        yield from _changed_conversations(place, expected)
    yield from _version_violations(actor, expected)
    yield from _changes_after_the_end(actor)
    yield from _leftover_keys(actor)


def _effect_violations(actor: ProcessActor) -> Iterator[str]:
    done, story = actor.workspace.run_files.effect_names(), actor.scenario
    counts = Counter(done)
    for what in counts.keys() - set(story.effects):
        yield f"foreign effect: {what}"
    for what in set(story.effects) - counts.keys():
        if story.final_status == "finished":
            yield f"missing effect: {what}"
    for what, count in counts.items():
        repeatable = what.startswith(REPEATABLE)
        if count > 1 and not repeatable:
            yield f"double effect: {what}"
        lines = [
            line
            for line in actor.workspace.run_files.effects()
            if _effect_label(line) == what
        ]
        keys = {(line["key"], line["call"]) for line in lines}
        if repeatable and len(keys) > 1:
            yield f"double effect: {what}, under two keys"
        fences = [line["fence"] for line in lines]
        if sorted(set(fences)) != fences:
            yield f"fences of {what} do not grow: {fences}"


def _effect_label(line: dict[str, Any]) -> str:
    return f"{line['tool']} {line['what']}"


def _repeats_after_a_crash(workspace: Workspace) -> Iterator[str]:
    """What was kept before a death happened in no later life; nothing twice in one."""
    deaths = workspace.read_value("deaths", [])
    effects, asked = workspace.run_files.effects(), model_turns(workspace)
    for place_of, death in enumerate(deaths):
        for turn in death["unkept"]:
            yield f"turn was asked about what was not kept: {turn}"
        last = place_of + 1 == len(deaths)
        until = None if last else deaths[place_of + 1]["asked"]
        for line in effects[death["effects"] :]:
            if line["call"] in death["finished"]:
                yield f"finished call ran again: {_effect_label(line)}"
        life = [f"{line['task']} {line['turn']}" for line in asked[death["asked"] :]]
        for turn in set(life) & set(death["turns"]):
            yield f"turn was asked again: {turn}"
        mine = asked[death["asked"] : until]
        for turn, count in Counter(f"{x['task']} {x['turn']}" for x in mine).items():
            if count > 1:
                yield f"turn was asked {count} times in one life: {turn}"
        now = digests(workspace, *PERMANENT_PREFIXES)
        for key, body in death["objects"].items():
            if now.get(key) != body:
                yield f"object changed or went: {key}"


def _changed_conversations(workspace: Workspace, expected: Workspace) -> Iterator[str]:
    """Promise 1: the same messages reach the model."""
    told = {(x["task"], x["turn"]): x["digest"] for x in model_turns(expected)}
    for line in model_turns(workspace):
        key = line["task"], line["turn"]
        if told.get(key, line["digest"]) != line["digest"]:
            yield f"another conversation was sent for {key}"


def _version_violations(actor: ProcessActor, expected: Workspace) -> Iterator[str]:
    count = sum(1 for _ in _states(actor.decider_runner()))
    keys = actor.workspace.run_files.keys(f"runs/{RUN}/v/")
    if len(keys) != count:
        yield f"{len(keys)} objects for {count} versions"
    mine, others = (
        {
            key: d
            for key, d in digests(place, "runs/", "waits/").items()
            if OTHER_RUN in key
        }
        for place in (actor.workspace, expected)
    )
    if mine != others:
        yield "another run was touched"


def _changes_after_the_end(actor: ProcessActor) -> Iterator[str]:
    """Resuming a run that has ended does nothing."""
    before = actor.workspace.run_files.objects(), actor.workspace.line_count()
    actor.start_or_resume("resume")
    actor.start_or_resume("start")
    ended = actor.decider_runner().cancel(RUN).status
    if (actor.workspace.run_files.objects(), actor.workspace.line_count()) != before:
        yield "resuming an ended run did something"
    if ended not in ENDED_STATUSES:
        yield f"an ended run became {ended}"


def _leftover_keys(actor: ProcessActor) -> Iterator[str]:
    actor.sweep_leftovers()
    left = [
        key
        for key in actor.workspace.run_files.keys("markers/", "waits/")
        if key.endswith(f"@{RUN}")
    ]
    if left:
        yield f"left over: {left}"
