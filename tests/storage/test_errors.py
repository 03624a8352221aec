"""Errors say what failed, for which key, why, and what to do next."""

from __future__ import annotations

import pickle

import pytest

from continuations_storage import errors

ERRORS_WITH_KEY = [
    errors.AlreadyExists,
    errors.Damaged,
    errors.Denied,
    errors.Inconclusive,
    errors.InvalidKey,
    errors.NotFound,
    errors.Throttled,
    errors.Unavailable,
    errors.Unsafe,
]


@pytest.mark.parametrize("error", ERRORS_WITH_KEY)
def test_error_text_has_key_cause_and_next_step(
    error: type[errors.StorageError],
) -> None:
    raised = error("runs/a/1", "because")

    assert "runs/a/1" == raised.key
    for part in ("'runs/a/1'", raised.summary, "(because)", raised.next_step):
        assert part in str(raised)
    assert raised.next_step


def test_error_without_a_key_names_the_store() -> None:
    raised = errors.Throttled()

    assert raised.key is None
    assert str(raised).startswith("store: the store asked for fewer requests")


@pytest.mark.parametrize("error", [*ERRORS_WITH_KEY, errors.Unsupported])
def test_error_survives_pickling(error: type[errors.StorageError]) -> None:
    raised = error("runs/a/1", "because")
    again = pickle.loads(pickle.dumps(raised))  # noqa: S301 -- our own bytes

    assert (error, "runs/a/1", str(raised)) == (type(again), again.key, str(again))


def test_every_error_is_a_storage_error() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), errors.StorageError)
