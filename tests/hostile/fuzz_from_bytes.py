"""Fuzz the readers: they accept bytes completely or raise a typed error.

Two ways to run this longer than the tests do, from the folder of the repository:

    python -m tests.hostile.fuzz_from_bytes --seconds 60 [--seed 1]
        random changes of valid bytes; needs only the development dependencies

    pip install atheris
    python -m tests.hostile.fuzz_from_bytes --atheris [corpus] [-max_total_time=600]
        the same changes, guided by coverage; libFuzzer gets all other arguments

Each failure is printed with the command that repeats it; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

from continuations import Approve, Continuation, ContinuationsError, Frame, resume
from continuations.core.changes.plan import plan
from continuations.core.messages import find_violation
from continuations.errors import FormatError, RunErased
from continuations.wire.arrivals import (
    CANCEL_REQUEST,
    EVENT,
    MESSAGE,
    OPERATOR_REQUEST,
    REVOCATION,
    SIGNAL,
    SLOT,
)
from continuations.wire.records import DECISION, WAIT
from continuations.wire.versions import (
    TOMBSTONE,
    check_state,
    decode_header,
    decode_version,
    rebuild_state,
)
from tests.hostile import sample_store
from tests.hostile.mutations import make_valid_objects, mutate

RUN = "jane-1"
OBJECT_NAME = "the bytes"
# Processor time, because other work on the machine does not count.
MAX_SECONDS = 1.0


def read_version(data: bytes) -> object:
    """Read a version and build its state."""
    version = decode_version(data, OBJECT_NAME)
    return check_state(rebuild_state(None, version.delta, OBJECT_NAME), OBJECT_NAME)


def read_continuation(data: bytes) -> object:
    """Read a continuation, and use every part of an accepted one."""
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
    """Yield a frame and all frames below it."""
    todo = [root]
    while todo:
        frame = todo.pop()
        yield frame
        todo += [call.frame for call in frame.calls if call.frame is not None]


READERS: dict[str, Callable[[bytes], object]] = {
    "continuation": read_continuation,
    "version": read_version,
    "header": lambda data: decode_header(data, OBJECT_NAME),
    "wait": lambda data: WAIT.decode(data, OBJECT_NAME, RUN),
    "decision": lambda data: DECISION.decode(data, OBJECT_NAME, RUN),
    "message": lambda data: MESSAGE.decode(data, OBJECT_NAME, RUN),
    "cancellation": lambda data: CANCEL_REQUEST.decode(data, OBJECT_NAME, RUN),
    "operator": lambda data: OPERATOR_REQUEST.decode(data, OBJECT_NAME, RUN),
    "signal": lambda data: SIGNAL.decode(data, OBJECT_NAME, RUN),
    "slot": lambda data: SLOT.decode(data, OBJECT_NAME, RUN),
    "revocation": lambda data: REVOCATION.decode(data, OBJECT_NAME, RUN),
    "event": lambda data: EVENT.decode(data, OBJECT_NAME),
    "tombstone": lambda data: TOMBSTONE.decode(data, OBJECT_NAME),
}


def read_with_all_readers(data: bytes) -> list[str]:
    """Read bytes with every reader; returns the names of those that accept them.

    Raises every error that is no `FormatError` and no `RunErased`, and `AssertionError`
    if a reader is too slow.
    """
    accepted_by: list[str] = []
    for name, read in READERS.items():
        began = time.process_time()
        with suppress(FormatError, RunErased):
            read(data)
            accepted_by.append(name)
        spent = time.process_time() - began
        assert spent < MAX_SECONDS, f"{name} took {spent:.1f} s"
    return accepted_by


def resume_from_bytes(data: bytes) -> str:
    """Resume a run from bytes with all its waits approved.

    Returns the name of the outcome's type, or of the library's error.
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
    """Return the valid objects, made once."""
    return make_valid_objects()


def trial_bytes(number: int) -> tuple[str, bytes]:
    """Return the bytes of one trial; a number gives the same bytes everywhere."""
    rng = random.Random(number)  # noqa: S311 - not for secrets
    name = rng.choice(sorted(valid_objects()))
    return name, mutate(valid_objects()[name], rng)


def run_trial(number: int) -> list[str]:
    """Run one trial; returns the readers that accept its bytes, and the outcome."""
    name, data = trial_bytes(number)
    accepted_by = read_with_all_readers(data)
    if name == "sample run" and "continuation" in accepted_by:
        accepted_by.append(resume_from_bytes(data))
    return accepted_by


def run_trials(numbers: Iterable[int]) -> int:
    """Run the trials of some numbers; returns how many failed."""
    ends: Counter[str] = Counter()
    failed = 0
    for number in numbers:
        try:
            ends.update(run_trial(number) or ["refused"])
        except Exception as error:  # noqa: BLE001 - the fuzzer reports it
            failed += 1
            _print(f"{type(error).__name__}: {str(error)[:200]}")
            _print(
                f"  repeat: python -m tests.hostile.fuzz_from_bytes --trial {number}"
            )
    _print(f"{ends.total()} results, {failed} failed: {dict(ends)}")
    return failed


def trial_numbers(seconds: float, seed: int) -> Iterator[int]:
    """Yield numbers, from a start of its own for each seed, for some seconds."""
    ends = time.monotonic() + seconds
    number = seed * 1_000_000_000
    while time.monotonic() < ends:
        number += 1
        yield number


def mutate_or_replace(data: bytes, number: int) -> bytes:
    """Return bytes with a few changes, or a changed valid object if unreadable."""
    rng = random.Random(number)  # noqa: S311 - not for secrets
    try:
        return mutate(data, rng)
    except FormatError:
        return mutate(valid_objects()[rng.choice(sorted(valid_objects()))], rng)


def run_atheris(arguments: list[str]) -> int:
    """Run libFuzzer."""
    try:
        atheris: Any = import_module("atheris")
    except ModuleNotFoundError:
        _print("--atheris needs the package atheris: pip install atheris")
        return 2

    # libFuzzer cannot compute a digest, so the changes are made here.
    def mutator(data: bytes, max_size: int, number: int) -> bytes:
        changed = mutate_or_replace(data, number)
        return changed if len(changed) <= max_size else data

    atheris.instrument_all()
    atheris.Setup(
        [sys.argv[0], "-max_len=100000", *arguments],
        read_with_all_readers,
        custom_mutator=mutator,
    )
    atheris.Fuzz()
    return 0


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run the command line."""
    if "--atheris" in sys.argv[1:]:
        return run_atheris([word for word in sys.argv[1:] if word != "--atheris"])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trial", type=int)
    options = parser.parse_args()
    if options.trial is not None:
        _print(repr(run_trial(options.trial)))
        return 0
    return min(1, run_trials(trial_numbers(options.seconds, options.seed)))


if __name__ == "__main__":
    sys.exit(main())
