"""Fixtures: empty stores, and versions that do not carry the bytes of their base."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from continuations.ledger import versions
from continuations.ledger.objects import Objects
from continuations_storage import MemoryStore
from tests.ledger.runs import make_objects


@pytest.fixture
def objects() -> Objects:
    """Return the objects of an empty store."""
    return make_objects()


@pytest.fixture
def inner() -> MemoryStore:
    """Return an empty store, for a store around it."""
    return MemoryStore()


@pytest.fixture(scope="module")
def no_carried_bytes() -> Iterator[None]:
    """Let no version carry the bytes of its base, so that a load reads the chain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "MAX_CARRIED_BYTES", 0)
        yield
