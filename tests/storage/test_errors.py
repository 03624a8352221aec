"""Errors say what failed, for which key, why, and what to do next."""

from __future__ import annotations

import pickle

import pytest

from continuations_storage import errors
from continuations_storage.retries import located_errors

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


@pytest.mark.parametrize(
    ("operation", "key", "expected"),
    [
        ("create", "runs/a", "cannot create key 'runs/a' in s3://b/p:"),
        ("read", "runs/a", "cannot read key 'runs/a' in s3://b/p:"),
        ("list", "runs/", "cannot list keys that begin with 'runs/' in s3://b/p:"),
        ("list", None, "cannot list keys in s3://b/p:"),
        ("delete", "runs/a", "cannot delete key 'runs/a' in s3://b/p:"),
    ],
)
def test_located_error_names_the_operation_and_the_place(
    operation: errors.Operation, key: str | None, expected: str
) -> None:
    """The text names the operation, the key or prefix, and the bucket."""
    with pytest.raises(errors.Denied) as raised, located_errors(operation, "s3://b/p"):
        raise errors.Denied(key, "403 AccessDenied")
    again = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 -- our own bytes

    assert str(raised.value).startswith(expected)
    assert str(raised.value) == str(again)


def test_inner_operation_of_an_error_is_kept() -> None:
    """A probe inside a create names the request that failed."""
    with (
        pytest.raises(errors.Denied, match="cannot read key 'probe/passed' in inner"),
        located_errors("create", "outer"),
        located_errors("read", "inner"),
    ):
        raise errors.Denied("probe/passed")


def test_missing_key_names_the_place() -> None:
    with pytest.raises(errors.NotFound) as raised, located_errors("read", "s3://b/p"):
        raise errors.NotFound("a")

    assert str(raised.value).startswith("key 'a' in s3://b/p does not exist.")
