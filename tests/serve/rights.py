"""The rights of people in tests: the option `can` of a console or an HTTP API."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from continuations import Identity

Can: TypeAlias = Callable[[Identity, str, str | None], bool]


def only(*acts: str, runs: Collection[str] = ()) -> Can:
    """Allow some acts, by default with each run."""

    def can(_: Identity, act: str, run: str | None) -> bool:
        return act in acts and (not runs or run in runs)

    return can


def all_but(act: str) -> Can:
    """Allow each act but one."""

    def can(_: Identity, asked: str, __: str | None) -> bool:
        return asked != act

    return can


def in_runs(*runs: str) -> Can:
    """Allow each act, with some runs."""

    def can(_: Identity, __: str, run: str | None) -> bool:
        return run in runs

    return can
