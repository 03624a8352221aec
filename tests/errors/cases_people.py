"""Errors about identities, and about the texts that people read."""

from __future__ import annotations

from continuations.errors import InvalidInput
from tests.errors.case import Area, Case

IDENTITIES = Area(
    "Identities",
    (
        Case(
            "identity-name-type",
            InvalidInput,
            "Identity(5)",
            'Identity("kim")',
            names=("name",),
        ),
        Case(
            "identity-name-empty",
            InvalidInput,
            'Identity("")',
            'Identity("kim")',
            names=("name",),
        ),
        Case(
            "identity-groups-text",
            InvalidInput,
            'Identity("kim", groups="finance")',
            'Identity("kim", groups=["finance"])',
            names=("groups",),
        ),
        Case(
            "identity-groups-type",
            InvalidInput,
            'Identity("kim", groups=5)',
            'Identity("kim", groups=("finance",))',
            names=("groups",),
        ),
        Case(
            "identity-many-groups",
            InvalidInput,
            'Identity("kim", groups=[f"g{n}" for n in range(101)])',
            'Identity("kim", groups=["g1"])',
            names=("groups",),
        ),
    ),
)
