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
from continuations.core.transcript import find_violation
from continuations.wire.records import (
    decode_cancel_request,
    decode_decision,
    decode_inbox_message,
    decode_wait,
)
from continuations.wire.versions import (
    check_state,
    decode_header,
    decode_version,
    rebuild_state,
)
from tests.hostile import sample_store
from tests.hostile.mutations import make_valid_objects, mutate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from continuations import Frame

RUN = "jane-1"
OBJECT_NAME = "the bytes"
# Processor time: how busy the machine is otherwise says nothing of us.
MAX_SECONDS = 1.0


def read_version(data: bytes) -> object:
    """Read a version and build its table."""
    found = decode_version(data, OBJECT_NAME)
    return check_state(rebuild_state(None, found.delta, OBJECT_NAME), OBJECT_NAME)


def read_continuation(data: bytes) -> object:
    """Read a continuation, and do all that can be done with one that was taken."""
    state = Continuation.from_bytes(data)
    assert Continuation.from_bytes(state.to_bytes()) == state
    assert data not in repr(state).encode()
    state.to_json()
    plan(state.run_state)
    for wait in state.waits:
        assert isinstance(wait.arguments, dict)
        assert wait.schema is not None
    for frame in all_frames(state.root):
        find_violation(state.run_state.logs[frame.id].messages)
        assert len(frame.messages) == len(state.run_state.logs[frame.id].messages)
        for call in frame.calls:
            assert (call.tool, call.arguments, call.state) is not None
    return state


def all_frames(root: Frame) -> Iterator[Frame]:
    """Go through a frame and all below it."""
    todo = [root]
    while todo:
        frame = todo.pop()
        yield frame
        todo += [call.frame for call in frame.calls if call.frame is not None]


READERS: dict[str, Callable[[bytes], object]] = {
    "continuation": read_continuation,
    "version": read_version,
    "header": lambda data: decode_header(data, OBJECT_NAME),
    "wait": lambda data: decode_wait(data, OBJECT_NAME, RUN),
    "decision": lambda data: decode_decision(data, OBJECT_NAME, RUN),
    "letter": lambda data: decode_inbox_message(data, OBJECT_NAME, RUN),
    "cancellation": lambda data: decode_cancel_request(data, OBJECT_NAME, RUN),
}


def read_with_all_readers(data: bytes) -> list[str]:
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
        assert spent < MAX_SECONDS, f"{name} took {spent:.1f} s"
    return taken


def resume_from_bytes(data: bytes) -> str:
    """Resume a run of such bytes, all its waits approved; returns how it went.

    Whatever they say, the outcome is one, or an error of ours.
    """
    try:
        state = Continuation.from_bytes(data)
        answers = {wait.id: Approve(by="kim") for wait in state.waits}
        return type(
            resume(state, sample_store.sample_agent(), answers=answers)
        ).__name__
    except ContinuationsError as error:
        return type(error).__name__


@cache
def valid_objects() -> dict[str, bytes]:
    """Return the seeds, made once."""
    return make_valid_objects()


def trial_bytes(number: int) -> tuple[str, bytes]:
    """Return the bytes of one trial, the same for a number in every process."""
    dice = random.Random(number)  # noqa: S311 - to be repeated, not to be secret
    name = dice.choice(sorted(valid_objects()))
    return name, mutate(valid_objects()[name], dice)


def run_trial(number: int) -> list[str]:
    """Do one trial; returns what took the bytes, and how a run of them went."""
    name, data = trial_bytes(number)
    taken = read_with_all_readers(data)
    if name == "shop" and "continuation" in taken:
        taken.append(resume_from_bytes(data))
    return taken


def run_trials(numbers: Iterable[int]) -> int:
    """Do trials of these numbers; returns how many failed."""
    went: Counter[str] = Counter()
    failed = 0
    for number in numbers:
        try:
            went.update(run_trial(number) or ["refused"])
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            failed += 1
            _say(f"{type(error).__name__}: {str(error)[:200]}")
            _say(f"  again: python -m tests.hostile.fuzz_from_bytes --trial {number}")
    _say(f"{went.total()} ends of trials, {failed} failed: {dict(went)}")
    return failed


def trial_numbers(seconds: float, seed: int) -> Iterator[int]:
    """Count up, from a place for each seed, until the time is over."""
    ends = time.monotonic() + seconds
    number = seed * 1_000_000_000
    while time.monotonic() < ends:
        number += 1
        yield number


def mutate_or_replace(data: bytes, number: int) -> bytes:
    """Return bytes with a few changes under a right digest, if they can be opened."""
    dice = random.Random(number)  # noqa: S311 - to be repeated, not to be secret
    try:
        return mutate(data, dice)
    except FormatError:
        return mutate(valid_objects()[dice.choice(sorted(valid_objects()))], dice)


def run_atheris(arguments: list[str]) -> int:
    """Hand over to libFuzzer."""
    try:
        atheris: Any = import_module("atheris")
    except ModuleNotFoundError:
        _say("--atheris needs it: pip install atheris (it is no dependency of ours)")
        return 2

    # Chance does not find a digest: so ours are the changes, its is the choice.
    def mutator(data: bytes, most: int, number: int) -> bytes:
        made = mutate_or_replace(data, number)
        return made if len(made) <= most else data

    atheris.instrument_all()
    atheris.Setup(
        [sys.argv[0], "-max_len=100000", *arguments],
        read_with_all_readers,
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
        return run_atheris([word for word in sys.argv[1:] if word != "--atheris"])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trial", type=int)
    given = parser.parse_args()
    if given.trial is not None:
        _say(repr(run_trial(given.trial)))
        return 0
    return min(1, run_trials(trial_numbers(given.seconds, given.seed)))


if __name__ == "__main__":
    sys.exit(main())
