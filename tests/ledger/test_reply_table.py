"""The table that finds the version with a reply of a thread."""

from __future__ import annotations

import random

import pytest

from continuations.ledger.versions import ReplyTable, follow, nearest_reply


def grown(turns: list[tuple[int, int]]) -> dict[int, tuple[ReplyTable, int]]:
    """Return the tables of a thread by version; a turn has its versions and replies."""
    tables: dict[int, tuple[ReplyTable, int]] = {}
    table: ReplyTable = ()
    version, answered = 1, 0
    for size, replies in turns:
        version += size
        table = follow(table, answered, answered + replies, version)
        answered += replies
        tables[version] = table, answered
    return tables


def looks_for(tables: dict[int, tuple[ReplyTable, int]], number: int) -> int:
    """Follow the tables to a reply; return the number of looks, and check the end."""
    version, looks = max(tables), 0
    while True:
        table, answered = tables[version]
        found, named = nearest_reply(table, answered, number)
        assert number <= found
        looks += 1
        version = named
        if found == number:
            first = min(v for v, (_, last) in tables.items() if last >= number)
            assert first == version
            return looks


@pytest.mark.parametrize(("replies", "most"), [(16, 1), (256, 2), (3000, 3)])
def test_each_reply_is_found_with_few_looks(replies: int, most: int) -> None:
    """The sizes of the turns do not matter."""
    rng = random.Random(replies)  # noqa: S311 - the same turns in each test
    tables = grown([(rng.choice((1, 3, 40)), 1) for _ in range(replies)])
    assert most == max(looks_for(tables, n) for n in range(1, replies + 1))
    assert max(len(table) for table, _ in tables.values()) <= 16 * most + 1


def test_messages_with_one_reply_name_its_version() -> None:
    """Two merged messages have the version of their reply."""
    tables = grown([(3, 1), (3, 2), (3, 1)])
    assert [1, 1, 1, 1] == [looks_for(tables, number) for number in (1, 2, 3, 4)]


def test_replies_before_the_first_table_are_unknown() -> None:
    """A repair makes a version without a table; later replies have entries."""
    table = follow((), 20, 21, 90)
    assert (21, 90) == nearest_reply(table, 21, 21)
    for number in range(1, 21):
        assert 0 == nearest_reply(table, 21, number)[1]


def test_a_short_table_and_a_message_0_are_unknown() -> None:
    """A damaged header raises no error here."""
    assert (16, 0) == nearest_reply((7,), 40, 5)
    assert (40, 0) == nearest_reply((), 40, 40)
    assert (0, 0) == nearest_reply((), 0, 0)
