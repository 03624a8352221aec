"""How a copy treats each kind of key, in one table (docs/object-layout.md)."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from continuations.value_class import dataclass


class Part(Enum):
    """When a kind of key is copied.

    Attributes:
        HISTORY: With its run, while a guard hides the run.
        MARKER: Then, still behind the guard. A marker precedes what it guards.
        LISTING: After the guard is gone: it lets people and publishers find the run.
        SHARED: After all runs, only in a copy of the whole store.
        SHARED_MARKER: Before the shared object that it guards.
        NEVER: Each store has its own.
    """

    HISTORY = "history"
    MARKER = "marker"
    LISTING = "listing"
    SHARED = "shared"
    SHARED_MARKER = "shared marker"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class KeyRule:
    """One kind of key.

    Attributes:
        pattern: Matches the keys; the group `run` is the run that a key belongs to.
        part: When the keys are copied.
        is_record: Whether the body has the envelope of `wire`, with a digest.
        may_differ: Whether the two stores may have different bodies. The copy then
            leaves that of the target alone.
    """

    pattern: re.Pattern[str]
    part: Part
    is_record: bool = True
    may_differ: bool = False


# The words of the layouts below. Any other one stands for text without - / and @.
_WORDS = {
    "{wait_kind}-{ulid}": "[a-z_]+-[0-9a-z]{26}",
    "{run}": "(?P<run>[A-Za-z0-9][A-Za-z0-9._-]{0,199})",
    "{task}": "(?P<run>[A-Za-z0-9][A-Za-z0-9._-]{0,199})",
    "{9999999999 - n}": "[0-9]{10}",
    "{number}": "[0-9]{10}",
    "{until}": "[0-9]{13}u?",
    "{due}": "[0-9]{13}",
    "{day}": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "{topic}": "[0-9a-f]{32}",
    "{digest}": "[0-9a-f]{64}",
    "{name}={value}": "[^/=]+=[^/]*",
}
_ANY = re.compile(r"\{[^0-9{}]+\}")


def _rules(
    part: Part, *layouts: str, is_record: bool = True, may_differ: bool = False
) -> dict[str, KeyRule]:
    """Return the rules of the keys with these layouts."""
    rules: dict[str, KeyRule] = {}
    for layout in layouts:
        text = layout
        for word, expression in _WORDS.items():
            text = text.replace(word, expression)
        pattern = re.compile(_ANY.sub("[^-/@]+", text) + r"\Z")
        rules[layout] = KeyRule(pattern, part, is_record, may_differ)
    return rules


KEY_RULES: dict[str, KeyRule] = {
    **_rules(
        Part.HISTORY,
        "runs/{run}/v/{9999999999 - n}",
        "runs/{run}/in/d-{wait_kind}-{ulid}",
        "runs/{run}/in/e-{number}",
        "runs/{run}/in/f-{wait_kind}-{ulid}-{number}",
        "runs/{run}/in/g-{number}",
        "runs/{run}/in/h-{digest}",
        "runs/{run}/in/i-{digest}",
        "runs/{run}/in/m-{number}",
        "runs/{run}/in/o-{number}",
        "runs/{run}/in/stop",
        "runs/{run}/x/{nonce}-{digest}-{size}",
    ),
    # A note for people: a worker of the target may have made its own.
    **_rules(Part.HISTORY, "runs/{run}/y/{number}", may_differ=True),
    **_rules(
        Part.MARKER,
        "markers/{due}-{reason}-{target}-{suffix}@{run}",
        is_record=False,
    ),
    **_rules(
        Part.LISTING,
        "waits/{wait_kind}-{ulid}@{run}",
        "events/{topic}/w-{wait_kind}-{ulid}@{run}",
    ),
    **_rules(
        Part.LISTING,
        "index/live/{run}",
        "index/ended/{day}/{run}",
        "index/erased/{day}/{run}",
        "index/label/{name}={value}/{run}",
        is_record=False,
    ),
    # Other programs read these two, and their writers replace them.
    **_rules(
        Part.LISTING,
        "a2a/{task}/{digest of client}/{digest of id}",
        "slack/{channel}/{wait_kind}-{ulid}@{run}/{notice}",
        is_record=False,
        may_differ=True,
    ),
    **_rules(
        Part.SHARED,
        "events/{topic}/e-{ulid}",
        "events/{topic}/i-{random part of ulid}",
    ),
    **_rules(
        Part.SHARED_MARKER, "markers/{due}-{reason}-{ulid}-{topic}", is_record=False
    ),
    **_rules(
        Part.NEVER,
        "runs/{run}/v/-{until}",
        "runs/{run}/z",
        "probe/passed",
        "probe/{ulid}",
        is_record=False,
    ),
}
"""The rules by the layout of the keys, as docs/object-layout.md lists them."""

# The prefixes of the keys of runs that are not under `runs/`.
PREFIXES_BESIDE = ("waits/", "events/", "markers/", "index/", "a2a/", "slack/")


class ClassifiedKey(NamedTuple):
    """A key with its rule, and its run; `None` if it belongs to no run."""

    rule: KeyRule
    run_id: str | None


def classify(key: str) -> ClassifiedKey | None:
    """Return the rule of a key; `None` if this library did not write the key."""
    for rule in KEY_RULES.values():
        match = rule.pattern.match(key)
        if match is not None:
            return ClassifiedKey(rule, match.groupdict().get("run"))
    return None
