"""The facts below the title of a run: agent, requester, time, cost, labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.present.counted import counted
from continuations.serve.pages.time_words import length_text, moment_text
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.run import RunRow
    from continuations.core.usage import Usage
    from continuations.serve.pages.working_time import WorkingTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A fact about a run: words, then the value.

    Attributes:
        words: The meaning of the value.
        value: The value.
        source: The run and version that the value names, for a link; or `None`.
    """

    words: str
    value: str
    source: tuple[str, str] | None = None


def run_facts(
    run: RunRow, time: WorkingTime, now: datetime, first_version: int
) -> tuple[Fact, ...]:
    """Return the facts below the title of a run.

    Args:
        run: The row of the run.
        time: Its time axis.
        now: The time of the report.
        first_version: Number of the first version that the time axis covers.
    """
    asked = moment_text(run.created_at, now)
    facts = [Fact(words="agent", value=run.agent)]
    if run.requester is not None:
        facts.append(Fact(words="asked for by", value=f"{run.requester}, {asked}"))
    else:
        facts.append(Fact(words="started", value=asked))
    if run.forked_from is not None:
        run_id, _, version = run.forked_from.rpartition("@")
        value = f"{run_id}, version {version}"
        facts.append(Fact(words="fork of", value=value, source=(run_id, version)))
    processes = "1 process" if time.workers == 1 else f"{time.workers} processes"
    worked = f"{length_text(time.worked)} in {processes}"
    if first_version > 1:
        worked += f" since version {first_version}"
    facts.append(Fact(words="worked", value=worked))
    if time.slept:
        facts.append(Fact(words="asleep", value=length_text(time.slept)))
    facts.append(Fact(words="model", value=usage_text(run.usage)))
    facts += [
        Fact(words="label", value=f"{name}={value}") for name, value in run.labels
    ]
    return tuple(facts)


def usage_text(usage: Usage) -> str:
    """Return a usage: `14 requests, 21,460 tokens`."""
    requests = counted(usage.requests, "request")
    text = f"{requests}, {counted(usage.total_tokens, 'token')}"
    if usage.currency and usage.cost is not None:
        text += f", {usage.cost:f} {usage.currency}"
    return text
