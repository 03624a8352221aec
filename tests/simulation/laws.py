"""The laws: functions of the evidence of one schedule.

A law returns None if the schedule keeps it, or a sentence about what is wrong. Each
public function of a module `laws*.py` that has this signature is a law.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import TypeAlias, cast

from tests.simulation.evidence import Evidence

Law: TypeAlias = "Callable[[Evidence], str | None]"
_SIGNATURE = {"evidence": "Evidence", "return": "str | None"}


def _declared_laws() -> Iterator[FunctionType]:
    """Yield the laws of `protocol`, and then those of each family."""
    files = Path(__file__).parent.glob("*/laws*.py")
    for file in sorted(files, key=lambda each: (each.parent.name != "protocol", each)):
        module = import_module(f"tests.simulation.{file.parent.name}.{file.stem}")
        for name, value in vars(module).items():
            if (
                isinstance(value, FunctionType)
                and value.__module__ == module.__name__
                and value.__annotations__ == _SIGNATURE
                and not name.startswith("_")
            ):
                yield value


def _by_name() -> dict[str, Law]:
    found: dict[str, Law] = {}
    for law in _declared_laws():
        assert law.__name__ not in found, f"two laws have the name {law.__name__}"
        found[law.__name__] = cast("Law", law)
    return found


LAWS = _by_name()


def broken_laws(evidence: Evidence) -> dict[str, str]:
    """Return the names of the laws that a schedule broke, each with its sentence."""
    sentences = ((name, law(evidence)) for name, law in LAWS.items())
    return {name: sentence for name, sentence in sentences if sentence is not None}
