"""Properties of the tree of deltas, for every number up to five thousand."""

from __future__ import annotations

import pytest

from continuations.ledger.fenwick import base, chain

ROOTS = (1, 2, 3, 8, 17, 1000, 4999)
MAX_NUMBER = 5000


@pytest.mark.parametrize(
    ("number", "below"),
    [(1, 0), (2, 0), (3, 2), (4, 0), (5, 4), (6, 4), (7, 6), (8, 0), (12, 8)],
)
def test_base_is_the_number_minus_its_lowest_bit(number: int, below: int) -> None:
    assert below == base(number, 1)


@pytest.mark.parametrize("root", ROOTS)
def test_version_is_rebuilt_from_few_objects(root: int) -> None:
    """At most log2(n) + 1, counted from the root."""
    for number in range(root, MAX_NUMBER + 1):
        assert len(chain(number, root)) <= (number - root + 1).bit_length()


@pytest.mark.parametrize("root", ROOTS)
def test_base_of_the_next_version_is_in_the_chain(root: int) -> None:
    for number in range(root, MAX_NUMBER + 1):
        assert base(number + 1, root) in {0, *chain(number, root)}


@pytest.mark.parametrize("root", ROOTS)
def test_chain_ends_at_a_full_copy_and_not_before_its_root(root: int) -> None:
    for number in range(root, MAX_NUMBER + 1):
        numbers = chain(number, root)
        assert number == numbers[0]
        assert 0 == base(numbers[-1], root)
        assert list(numbers) == sorted(set(numbers), reverse=True)
        assert numbers[-1] >= root


@pytest.mark.parametrize("root", ROOTS)
def test_root_is_a_full_copy(root: int) -> None:
    assert (root,) == chain(root, root)


@pytest.mark.parametrize("root", ROOTS)
def test_root_is_the_first_of_its_tree(root: int) -> None:
    for number in range(root, root + 200):
        shifted = tuple(n - root + 1 for n in chain(number, root))
        assert chain(number - root + 1, 1) == shifted
