"""The ids of the runs of threads.

    t-{slug of the agent}-{32 digits of the digest of agent and key}-{generation}

The key itself is stored in the run. A thread that has ended begins again as the next
generation: another run of the same agent and key.
"""

from __future__ import annotations

import hashlib
import re

_MAX_SLUG_CHARS = 60
_DIGEST_DIGITS = 32
_MAX_DIGITS = 18
_THREAD_ID = re.compile(r"t-[a-z0-9-]*-[0-9a-f]{32}-[1-9][0-9]*\Z")
_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")


def is_thread_id(run_id: str) -> bool:
    """Return whether an id has the form that only runs of threads have."""
    return _THREAD_ID.match(run_id) is not None


def thread_run_id(agent: str, key: str, generation: int) -> str:
    """Return the id of the run of a thread."""
    digest = hashlib.sha256()
    for text in (agent, key):
        data = text.encode("utf-8", "surrogatepass")
        # With their lengths, no two pairs of texts are the same bytes.
        digest.update(b"%d:" % len(data))
        digest.update(data)
    slug = _NOT_IN_SLUG.sub("-", agent.lower()).strip("-")[:_MAX_SLUG_CHARS]
    return f"t-{slug}-{digest.hexdigest()[:_DIGEST_DIGITS]}-{generation}"


def is_generation(run_id: object, agent: str, key: str) -> bool:
    """Return whether an id is that of a run of a thread, of any generation."""
    if not isinstance(run_id, str) or not is_thread_id(run_id):
        return False
    generation = run_id.rpartition("-")[2]
    return run_id == thread_run_id(agent, key, int(generation[:_MAX_DIGITS]))
