"""Long histories of one run, made by dice that always fall the same way."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core import messages as said
from continuations.core.frames import Log
from continuations.core.table import ROOT
from tests.ledger.runs import a_table, a_wait, proposed, said_more

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.core.table import Table


def history(seed: int, length: int) -> Iterator[Table]:
    """Go through states of a run, each a random change of the one before."""
    dice = random.Random(seed)  # noqa: S311 - a story, not a secret
    table = a_table()
    for step in range(length):
        yield table
        change = dice.choice(
            (_told, _told, _called, _closed, _waits, _rewritten, _noted)
        )
        table = change(table, step, dice)


def _told(table: Table, step: int, dice: random.Random) -> Table:
    for _ in range(dice.randrange(3)):
        table = said_more(table, f"message {step} {dice.random()}")
    return table


def _called(table: Table, step: int, dice: random.Random) -> Table:
    for number in range(dice.randrange(1, 4)):
        table = proposed(table, f"c{100_000 + 10 * step + number}")
    return _with_room(table)


def _closed(table: Table, _: int, dice: random.Random) -> Table:
    """Drop a call, and its wait if it had one."""
    if not table.calls:
        return table
    gone = dice.choice(list(table.calls))
    frame = table.frames[ROOT]
    return replace(
        table,
        calls={key: row for key, row in table.calls.items() if key != gone},
        waits={k: row for k, row in table.waits.items() if row.call_id != gone},
        frames={
            ROOT: replace(frame, open=tuple(key for key in frame.open if key != gone))
        },
    )


def _waits(table: Table, step: int, _: random.Random) -> Table:
    """Add a call that waits, to those that are there."""
    wait = a_wait(200_000 + step)
    other = a_table(wait)
    frame = table.frames[ROOT]
    return _with_room(
        replace(
            table,
            calls={**table.calls, **other.calls},
            waits={**table.waits, wait.id: wait},
            frames={ROOT: replace(frame, open=(*frame.open, wait.call_id))},
        )
    )


def _rewritten(table: Table, step: int, dice: random.Random) -> Table:
    """Begin the log anew: some of the old messages, then another history."""
    old = table.logs[ROOT].messages
    keep = dice.randrange(len(old) + 1)
    log = Log(300_000 + step, (*old[:keep], said.user(f"rewritten at {step}")))
    return _with_room(replace(table, logs={ROOT: log}))


def _noted(table: Table, step: int, _: random.Random) -> Table:
    return replace(table, manifest=f'{{"agents":{{"hr":{step}}}}}')


def _with_room(table: Table) -> Table:
    return replace(table, run=replace(table.run, next_id=1_000_000))
