"""Compaction: its options, and a history that cannot be shortened."""

from __future__ import annotations

from continuations.errors import CompactionFailed, InvalidInput
from tests.errors.case import Area, Case

_HISTORY = """
    from continuations.models.scripted import LaterReply
    told = [
        {"role": role, "content": "word " * 100}
        for role in ("user", "assistant", "user", "assistant", "user", "assistant", "user")
    ]
    def summary(text): return lambda messages: text
    def writer(*lines, **options):
        return Agent("writer", model=ScriptedModel(lines), **options)
    def made(summarize, soft=100, hard=700):
        compaction = Compaction(soft=soft, hard=hard, summarize=summarize)
        model = ScriptedModel(lambda request: "done")
        return Agent("clerk", model=model, compaction=compaction)
    def start(*args, **options):
        runner = Runner(made(*args, **options), store=store, clock=clock)
        return runner.start(told, run_id="jane-1")
    def resume_with(*args, **options):
        runner = Runner(made(*args, **options), store=store, clock=clock)
        return finished(runner.resume("jane-1"))
"""


def _option(name: str, wrong: str, right: str, *names: str) -> Case:
    """Return a case of an option of `Compaction`."""
    return Case(
        name,
        InvalidInput,
        f"Compaction({wrong})",
        f"Compaction({right})",
        names=names,
    )


COMPACTION = Area(
    "Compaction",
    (
        _option("compaction-soft", "soft=0, hard=9", "soft=1, hard=9", "soft", "0"),
        _option("compaction-hard", "soft=9, hard=8", "soft=9, hard=9", "hard", "8"),
        _option(
            "compaction-summarize",
            "soft=5, hard=9, summarize=lambda: 'x'",
            "soft=5, hard=9, summarize=lambda messages: 'x'",
            "summarize",
        ),
        _option(
            "compaction-count-tokens",
            "soft=5, hard=9, count_tokens=len('x')",
            "soft=5, hard=9, count_tokens=len",
            "count_tokens",
        ),
        Case(
            "compaction-nothing-to-replace",
            CompactionFailed,
            'start(summary("short"), hard=500)',
            'resume_with(summary("short"), hard=5000)',
            setup=_HISTORY,
            names=("clerk", "hard", "stay"),
        ),
    ),
)
