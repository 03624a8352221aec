"""Fixtures: runs of both trees, new ones and those that began with format 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from continuations.ledger import versions
from continuations.ledger.fenwick import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", params=["from_zero", "from_one"])
def first_tree(request: pytest.FixtureRequest) -> Iterator[Tree]:
    """Return the tree of every run that the tests of the module start.

    The tests run once for each tree. No version carries the bytes of its base.
    """
    tree = Tree(1, from_zero=request.param == "from_zero")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "FIRST_TREE", tree)
        patch.setattr(versions, "MAX_CARRIED_BYTES", 0)
        yield tree
