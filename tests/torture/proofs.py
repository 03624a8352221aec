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
from continuations.core.calls import CLOSED
from continuations.core.run import ENDED
from tests.engine import ledgers, scripts
from tests.torture.tree import RUN, digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.core.calls import CallRow
    from continuations.core.table import Table
    from tests.torture.people import People
    from tests.torture.places import Place

REPEATABLE = ("read", "push")
FOR_EVER = (f"runs/{RUN}/v/", f"runs/{RUN}/in/")
OTHERS = f"{RUN}.2"


def digests(place: Place, *prefixes: str) -> dict[str, str]:
    """Return the digest of each object under some prefixes."""
    return {
        key: hashlib.sha256(body).hexdigest()
        for key, body in place.world.objects().items()
        if key.startswith(prefixes)
    }


def turns(place: Place) -> list[dict[str, Any]]:
    """Return the lines of the model's ledger."""
    return ledgers.lines(place.folder / "turns")


def remember(people: People) -> None:
    """Note what stands at this moment: it must stand for ever."""
    place = people.place
    asked, finished = _durable(people.person())
    memory = {
        "objects": digests(place, *FOR_EVER),
        "turns": sorted(asked),
        "finished": sorted(finished),
        "effects": len(place.world.effects()),
        "asked": len(turns(place)),
        "unkept": sorted(_unkept(people)),
    }
    place.keep("deaths", [*place.kept("deaths", []), memory])


def _tables(runner: Runner) -> Iterator[Table]:
    try:
        newest = runner.look(RUN).version
    except RunNotFound:
        return
    for number in range(1, newest + 1):
        yield runner.look(RUN, version=number).table


def _durable(runner: Runner) -> tuple[set[str], set[str]]:
    """Return the turns whose reply is kept, and the calls that have finished."""
    asked: set[str] = set()
    known: set[str] = set()
    still: set[str] = set()
    for table in _tables(runner):
        for log in table.logs.values():
            messages = [message.data for message in log.messages]
            task, count = scripts.task_of(messages), scripts.turn_of(messages)
            asked |= {f"{task} {turn}" for turn in range(count)}
        known |= table.calls.keys()
        still = {row.id for row in table.calls.values() if not _is_closed(row)}
    return asked, known - still


def _unkept(people: People) -> Iterator[str]:
    """Say which turns were asked about what no version keeps (R-A8).

    What was sent to a model must be durable by then, but for results that may be
    had again: calls that are read-only or idempotent.
    """
    kept = {
        digest([message.data for message in log.messages])
        for table in _tables(people.person())
        for log in table.logs.values()
    }
    for line in turns(people.place):
        task, turn = line["task"], line["turn"]
        told = json.dumps(people.story.script[task][:turn][-1:])
        repeatable = any(f'"{name}"' in told for name in REPEATABLE)
        if line["digest"] not in kept and not repeatable:
            yield f"{task} {turn}"


def _is_closed(row: CallRow) -> bool:
    return isinstance(row.state, CLOSED)


def wrongs(people: People, golden: Place) -> Iterator[str]:
    """Say everything that is not as it must be, of a run that should have ended."""
    place = people.place
    state = people.person().look(RUN)
    if state.status != people.story.ends:
        yield f"it is {state.status}: {state.failure}"
    yield from _effects(people)
    yield from _lives(place)
    if not people.story.varies:
        yield from _sent(place, golden)
    yield from _versions(people, golden)
    yield from _same_end(people)
    yield from _left_over(people)


def _effects(people: People) -> Iterator[str]:
    done, story = people.place.world.done(), people.story
    counts = Counter(done)
    for what in counts.keys() - set(story.effects):
        yield f"foreign effect: {what}"
    for what in set(story.effects) - counts.keys():
        if story.ends == "finished":
            yield f"missing effect: {what}"
    for what, count in counts.items():
        repeatable = what.startswith(REPEATABLE)
        if count > 1 and not repeatable:
            yield f"double effect: {what}"
        lines = [line for line in people.place.world.effects() if _short(line) == what]
        keys = {(line["key"], line["call"]) for line in lines}
        if repeatable and len(keys) > 1:
            yield f"double effect: {what}, under two keys"
        fences = [line["fence"] for line in lines]
        if sorted(set(fences)) != fences:
            yield f"fences of {what} do not grow: {fences}"


def _short(line: dict[str, Any]) -> str:
    return f"{line['tool']} {line['what']}"


def _lives(place: Place) -> Iterator[str]:
    """What was kept before a death happened in no later life; nothing twice in one."""
    deaths = place.kept("deaths", [])
    effects, asked = place.world.effects(), turns(place)
    for place_of, death in enumerate(deaths):
        for turn in death["unkept"]:
            yield f"turn was asked about what was not kept: {turn}"
        last = place_of + 1 == len(deaths)
        until = None if last else deaths[place_of + 1]["asked"]
        for line in effects[death["effects"] :]:
            if line["call"] in death["finished"]:
                yield f"finished call ran again: {_short(line)}"
        life = [f"{line['task']} {line['turn']}" for line in asked[death["asked"] :]]
        for turn in set(life) & set(death["turns"]):
            yield f"turn was asked again: {turn}"
        mine = asked[death["asked"] : until]
        for turn, count in Counter(f"{x['task']} {x['turn']}" for x in mine).items():
            if count > 1:
                yield f"turn was asked {count} times in one life: {turn}"
        now = digests(place, *FOR_EVER)
        for key, body in death["objects"].items():
            if now.get(key) != body:
                yield f"object changed or went: {key}"


def _sent(place: Place, golden: Place) -> Iterator[str]:
    """Promise 1: the same messages reach the model."""
    told = {(x["task"], x["turn"]): x["digest"] for x in turns(golden)}
    for line in turns(place):
        key = line["task"], line["turn"]
        if told.get(key, line["digest"]) != line["digest"]:
            yield f"another conversation was sent for {key}"


def _versions(people: People, golden: Place) -> Iterator[str]:
    count = sum(1 for _ in _tables(people.person()))
    keys = people.place.world.keys(f"runs/{RUN}/v/")
    if len(keys) != count:
        yield f"{len(keys)} objects for {count} versions"
    mine, others = (
        {
            key: d
            for key, d in digests(place, "runs/", "waits/").items()
            if OTHERS in key
        }
        for place in (people.place, golden)
    )
    if mine != others:
        yield "another run was touched"


def _same_end(people: People) -> Iterator[str]:
    """Resuming a run that has ended does nothing."""
    before = people.place.world.objects(), people.place.lines()
    people.move("resume")
    people.move("start")
    ended = people.person().cancel(RUN).status
    if (people.place.world.objects(), people.place.lines()) != before:
        yield "resuming an ended run did something"
    if ended not in ENDED:
        yield f"an ended run became {ended}"


def _left_over(people: People) -> Iterator[str]:
    people.clean()
    left = [
        key
        for key in people.place.world.keys("markers/", "waits/")
        if key.endswith(f"@{RUN}")
    ]
    if left:
        yield f"left over: {left}"
