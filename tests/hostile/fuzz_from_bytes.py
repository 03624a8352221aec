"""Bytes that somebody made: every reader refuses them by type, or takes them whole.

Two ways to run it longer than the tests do, from the folder of the repository:

    python -m tests.hostile.fuzz_from_bytes --seconds 60 [--seed 1]
        good bytes changed by dice; needs nothing but the development dependencies

    pip install atheris
    python -m tests.hostile.fuzz_from_bytes --atheris [corpus] [-max_total_time=600]
        the same changes, guided by coverage; the rest of the line goes to libFuzzer

What is found is printed with a line that makes it again, and the program ends with 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from continuations import Approve, Continuation, ContinuationsError, FormatError, resume
from continuations.core.plan import plan
from continuations.core.transcript import fault
from continuations.wire.records import (
    decode_cancellation,
    decode_decision,
    decode_letter,
    decode_wait,
)
from continuations.wire.versions import (
    checked,
    decode_header,
    decode_version,
    rebuilt,
)
from tests.hostile import shop
from tests.hostile.mutations import mutated, seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from continuations import Frame

RUN = "jane-1"
NAME = "the bytes"
# Processor time: how busy the machine is otherwise says nothing of us.
MOST_SECONDS = 1.0


def version(data: bytes) -> object:
    """Read a version and build its table."""
    found = decode_version(data, NAME)
    return checked(rebuilt(None, found.delta, NAME), NAME)


def continuation(data: bytes) -> object:
    """Read a continuation, and do all that can be done with one that was taken."""
    state = Continuation.from_bytes(data)
    assert Continuation.from_bytes(state.to_bytes()) == state
    assert data not in repr(state).encode()
    state.to_json()
    plan(state.table)
    for wait in state.waits:
        assert isinstance(wait.arguments, dict)
        assert wait.schema is not None
    for frame in frames(state.root):
        fault(state.table.logs[frame.id].messages)
        assert len(frame.messages) == len(state.table.logs[frame.id].messages)
        for call in frame.calls:
            assert (call.tool, call.arguments, call.state) is not None
    return state


def frames(root: Frame) -> Iterator[Frame]:
    """Go through a frame and all below it."""
    todo = [root]
    while todo:
        frame = todo.pop()
        yield frame
        todo += [call.frame for call in frame.calls if call.frame is not None]


READERS: dict[str, Callable[[bytes], object]] = {
    "continuation": continuation,
    "version": version,
    "header": lambda data: decode_header(data, NAME),
    "wait": lambda data: decode_wait(data, NAME, RUN),
    "decision": lambda data: decode_decision(data, NAME, RUN),
    "letter": lambda data: decode_letter(data, NAME, RUN),
    "cancellation": lambda data: decode_cancellation(data, NAME, RUN),
}


def read_by_all(data: bytes) -> list[str]:
    """Give bytes to every reader; returns the names of those that took them.

    Raises whatever a reader raises that is no `FormatError`, and `AssertionError` for
    one that took too long.
    """
    taken: list[str] = []
    for name, read in READERS.items():
        began = time.process_time()
        with suppress(FormatError):
            read(data)
            taken.append(name)
        spent = time.process_time() - began
        assert spent < MOST_SECONDS, f"{name} took {spent:.1f} s"
    return taken


def gone_on_with(data: bytes) -> str:
    """Resume a run of such bytes, all its waits approved; returns how it went.

    Whatever they say, the outcome is one, or an error of ours.
    """
    try:
        state = Continuation.from_bytes(data)
        answers = {wait.id: Approve(by="kim") for wait in state.waits}
        return type(resume(state, shop.agent(), answers=answers)).__name__
    except ContinuationsError as error:
        return type(error).__name__


@cache
def good() -> dict[str, bytes]:
    """Return the seeds, made once."""
    return seeds()


def trial(number: int) -> tuple[str, bytes]:
    """Return the bytes of one trial, the same for a number in every process."""
    dice = random.Random(number)  # noqa: S311 - to be repeated, not to be secret
    name = dice.choice(sorted(good()))
    return name, mutated(good()[name], dice)


def tried(number: int) -> list[str]:
    """Do one trial; returns what took the bytes, and how a run of them went."""
    name, data = trial(number)
    taken = read_by_all(data)
    if name == "shop" and "continuation" in taken:
        taken.append(gone_on_with(data))
    return taken


def loop(numbers: Iterable[int]) -> int:
    """Do trials of these numbers; returns how many failed."""
    went: Counter[str] = Counter()
    failed = 0
    for number in numbers:
        try:
            went.update(tried(number) or ["refused"])
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            failed += 1
            _say(f"{type(error).__name__}: {str(error)[:200]}")
            _say(f"  again: python -m tests.hostile.fuzz_from_bytes --trial {number}")
    _say(f"{went.total()} ends of trials, {failed} failed: {dict(went)}")
    return failed


def until(seconds: float, seed: int) -> Iterator[int]:
    """Count up, from a place for each seed, until the time is over."""
    ends = time.monotonic() + seconds
    number = seed * 1_000_000_000
    while time.monotonic() < ends:
        number += 1
        yield number


def changed(data: bytes, number: int) -> bytes:
    """Return bytes with a few changes under a right digest, if they can be opened."""
    dice = random.Random(number)  # noqa: S311 - to be repeated, not to be secret
    try:
        return mutated(data, dice)
    except FormatError:
        return mutated(good()[dice.choice(sorted(good()))], dice)


def with_atheris(arguments: list[str]) -> int:
    """Hand over to libFuzzer."""
    try:
        atheris: Any = import_module("atheris")
    except ModuleNotFoundError:
        _say("--atheris needs it: pip install atheris (it is no dependency of ours)")
        return 2

    # Chance does not find a digest: so ours are the changes, its is the choice.
    def mutator(data: bytes, most: int, number: int) -> bytes:
        made = changed(data, number)
        return made if len(made) <= most else data

    atheris.instrument_all()
    atheris.Setup(
        [sys.argv[0], "-max_len=100000", *arguments],
        read_by_all,
        custom_mutator=mutator,
    )
    atheris.Fuzz()
    return 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Do what the command line says."""
    if "--atheris" in sys.argv[1:]:
        return with_atheris([word for word in sys.argv[1:] if word != "--atheris"])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trial", type=int)
    given = parser.parse_args()
    if given.trial is not None:
        _say(repr(tried(given.trial)))
        return 0
    return min(1, loop(until(given.seconds, given.seed)))


if __name__ == "__main__":
    sys.exit(main())
