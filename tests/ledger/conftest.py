"""Fixtures: runs whose versions do not carry the bytes of their base."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from continuations.ledger import versions


@pytest.fixture(scope="module")
def no_carried_bytes() -> Iterator[None]:
    """Let no version carry the bytes of its base, so that a load reads the chain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "MAX_CARRIED_BYTES", 0)
        yield
