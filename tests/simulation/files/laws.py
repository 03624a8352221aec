"""The laws of attachments."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from continuations.core.attachment_parts import Attachment
from continuations.core.rows.attachments import attachments_of, attachments_of_run
from continuations.ledger import layout
from continuations.ledger.repair import run_files
from tests.simulation.evidence import Evidence, RunHistory
from tests.simulation.files.actors import LIMIT_BYTES
from tests.simulation.protocol.laws_of_runs import posted_messages


def no_message_lacks_its_attachment(evidence: Evidence) -> str | None:
    """An attachment exists before a version or an inbox names it, and it stays."""
    for history in evidence.runs.values():
        if not history.versions:
            continue
        run = history.versions[0].state.run
        for place, at, named in _named(evidence, history):
            for each in named:
                key = run_files.key_of(run.id, run.run_nonce, each)
                created = evidence.created.get(key)
                if not created or created[0].at > at:
                    return f"{place} names {key}, which was not created before"
                if key in evidence.deleted:
                    return f"{place} names {key}, which was deleted"
    return None


def _named(
    evidence: Evidence, history: RunHistory
) -> Iterator[tuple[str, float, Iterable[Attachment]]]:
    """Yield the attachments that objects of a run name, and when they began to."""
    seen: set[str] = set()
    for version in history.versions:
        named = attachments_of_run(version.state)
        new = [each for each in named if each.digest not in seen]
        seen.update(each.digest for each in new)
        yield f"version {version.number} of {history.run_id}", version.at, new
    for message in posted_messages(evidence, history):
        key = layout.numbered_key(layout.MESSAGE, history.run_id, message.number)
        yield key, evidence.created[key][0].at, attachments_of([message.message])


def attachments_are_kept_once_within_the_limit(evidence: Evidence) -> str | None:
    """Each digest has one object. Each adder keeps the limit by its own count.

    It counts what was stored when it listed the attachments, and what it added since.
    """
    for run_id in evidence.runs:
        # A fork that lost to an equal one had a nonce, and attachments, of its own.
        sizes: dict[str, dict[str, int]] = {}
        made: dict[str, list[tuple[float, str, str]]] = {}
        for key, changes in evidence.created.items():
            is_own = key.startswith(run_files.files_prefix(run_id))
            parsed = run_files.parse_file_key(key) if is_own else None
            if parsed is not None:
                prefix = run_files.nonce_prefix(run_id, parsed.nonce)
                sizes.setdefault(prefix, {})[key] = parsed.size
                create = (changes[0].at, changes[0].process, key)
                made.setdefault(prefix, []).append(create)
        for prefix, creates in made.items():
            broken = _broken_limit(evidence, prefix, sizes[prefix], creates)
            if broken is not None:
                return broken
    return None


def _broken_limit(
    evidence: Evidence,
    prefix: str,
    sizes: dict[str, int],
    made: list[tuple[float, str, str]],
) -> str | None:
    names = [key.rpartition("-")[0] for key in sizes]
    if len(set(names)) < len(names):
        return f"{prefix} has an attachment twice"
    for at, process, key in made:
        listed_at = _last_listing(evidence, prefix, process, at)
        counted = sum(
            sizes[other]
            for other_at, other_process, other in made
            if other_at < listed_at or (other_process == process and other_at <= at)
        )
        if counted > LIMIT_BYTES:
            return f"{process} created {key} beside {counted} bytes"
    return None


def _last_listing(evidence: Evidence, prefix: str, process: str, at: float) -> float:
    """Return when a process listed the attachments of a run; else the given time.

    Two calls that return at the same time may both list them. Both then count from the
    listing that has its reply first.
    """
    log, listed_at = evidence.environment.log, None
    end = bisect_left(log, at, key=lambda line: line[0])
    for line in reversed(log[:end]):
        if line[1] == process and str(line[-1]).startswith(prefix):
            if line[2] == "keys":
                listed_at = float(line[0])
            elif listed_at is not None:
                break
    return at if listed_at is None else listed_at


def models_get_the_bytes_of_attachments(evidence: Evidence) -> str | None:
    """A request contains the bytes of each attachment that its messages name."""
    return next(iter(evidence.environment.wrong_files), None)
