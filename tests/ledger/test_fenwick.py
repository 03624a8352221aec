"""Properties of the tree of deltas, for every number up to five thousand."""

from __future__ import annotations

import pytest

from continuations.ledger.loaded_version import Tree

ROOTS = (1, 2, 3, 8, 17, 1000, 4999)
MAX_NUMBER = 5000
TREES = [Tree(root) for root in ROOTS]


@pytest.mark.parametrize(
    ("number", "below"),
    [(1, 0), (2, 1), (3, 1), (4, 3), (5, 1), (6, 5), (7, 5), (8, 7), (9, 1), (13, 9)],
)
def test_base_counts_from_zero(number: int, below: int) -> None:
    """Position p is based on position p - lowbit(p), and version 1 has position 0."""
    assert below == Tree(1).base(number)


@pytest.mark.parametrize("root", ROOTS)
def test_only_the_root_is_a_full_copy(root: int) -> None:
    tree = Tree(root)

    assert [root] == [n for n in range(root, MAX_NUMBER + 1) if tree.base(n) == 0]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_version_is_rebuilt_from_few_objects(tree: Tree) -> None:
    """At most log2(n) + 1, counted from the root."""
    for number in range(tree.root, MAX_NUMBER + 1):
        most = (number - tree.root + 1).bit_length()
        assert len(tree.chain(number)) <= most


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_base_of_the_next_version_is_in_the_chain(tree: Tree) -> None:
    for number in range(tree.root, MAX_NUMBER + 1):
        assert tree.base(number + 1) in {0, *tree.chain(number)}


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_chain_ends_at_a_full_copy_and_not_before_its_root(tree: Tree) -> None:
    for number in range(tree.root, MAX_NUMBER + 1):
        numbers = tree.chain(number)
        assert number == numbers[0]
        assert 0 == tree.base(numbers[-1])
        assert list(numbers) == sorted(set(numbers), reverse=True)
        assert numbers[-1] >= tree.root


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_root_is_a_full_copy(tree: Tree) -> None:
    assert (tree.root,) == tree.chain(tree.root)


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_root_is_the_first_of_its_tree(tree: Tree) -> None:
    first = Tree(1)
    for number in range(tree.root, tree.root + 200):
        shifted = tuple(n - tree.root + 1 for n in tree.chain(number))
        assert first.chain(number - tree.root + 1) == shifted
