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


def _fails(name: str, writer: str, *names: str, good: str = 'summary("short")') -> Case:
    """Return a case in which a summary fails, and the run goes on with another."""
    return Case(
        name,
        CompactionFailed,
        f"start({writer})",
        f"resume_with({good})",
        setup=_HISTORY,
        names=("clerk", "hard", *names),
    )


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
        Case(
            "agent-compaction",
            InvalidInput,
            'Agent("clerk", compaction=5000)',
            'Agent("clerk", compaction=Compaction(soft=5000, hard=9000))',
            names=("clerk", "compaction", "5000"),
        ),
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
        _fails("compaction-function-raises", "lambda messages: 1 / 0", "ZeroDivision"),
        _fails("compaction-no-text", "summary(5)", "int"),
        _fails("compaction-long-summary", 'summary("word " * 1000)', "not shorter"),
        _fails("compaction-summary-above-hard", 'summary("word " * 250)', "too long"),
        _fails("compaction-model-refuses", 'writer(ValueError("no"))', "ValueError"),
        _fails("compaction-model-replies-later", 'writer(LaterReply("x"))', "later"),
        _fails("compaction-model-calls", 'writer(ToolCall("pay"))', "without a text"),
        _fails(
            "compaction-summary-cut-off",
            """writer(ModelReply(message=ScriptedModel(["x"]) and __import__(
                "continuations.core.messages").core.messages.Message.from_mapping(
                {"role": "assistant", "content": "x"}), finish_reason="length"))""",
            "length",
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
