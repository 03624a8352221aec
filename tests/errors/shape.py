"""The form of a message: `<what failed>: <why>. <what to do next>.`"""

from __future__ import annotations

from collections.abc import Iterator

from tests.error_texts import faults_of_text
from tests.errors.case import Case, Observation
from tests.errors.scene import PRIVATE_TEXTS, SECRETS


def faults(case: Case, seen: Observation) -> Iterator[str]:
    """Go through everything that is wrong with the message of a case."""
    yield from faults_of_text(seen.text, is_free=case.is_list)
    for name in (*case.names, seen.run_id, seen.wait_id):
        # A key of a store has both parts of a wait's id, in another order.
        if name and not all(part in seen.text for part in name.split("@")):
            yield f"it does not name {name!r}"
    for secret in (*SECRETS, *PRIVATE_TEXTS):
        if secret in seen.text:
            yield f"it repeats {secret!r}"
