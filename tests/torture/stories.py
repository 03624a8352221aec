"""The table of scenarios: what happens in which process, and what it must come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from continuations import Answer, Approve, Deny
from tests.torture.places import Point

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations import Wait
    from continuations.core.decisions import Verdict
    from tests.engine.scripts import Line

    Judge: TypeAlias = "Callable[[Wait, bool], Verdict]"

Verb = Literal["start", "resume", "decide", "cancel", "send"]
End = Literal["finished", "failed", "cancelled"]
PAST = {
    "act": "acted",
    "pay": "paid",
    "read": "read",
    "push": "pushed",
    "book": "booked",
    "rush": "rushed",
}


@dataclass(frozen=True, slots=True)
class Step:
    """What one process does; `dies` and `down` belong to the story itself.

    `count` is how many waits are decided, `later` how many seconds after the step
    before it is; with `down` no model answers.
    """

    verb: Verb
    count: int = 99
    later: float = 1
    dies: Point | None = None
    down: bool = False


def truth(wait: Wait, happened: bool) -> Verdict:
    """Say yes; of a call that was cut off, say what the ledger says."""
    if wait.kind == "unknown" and happened:
        return Answer(f"{PAST[wait.tool]} {wait.arguments['what']}", by="kim")
    return Approve(by="kim")


def edit(wait: Wait, happened: bool) -> Verdict:
    """Say yes to something else."""
    if wait.kind == "unknown":
        return truth(wait, happened)
    return Approve(by="kim", arguments={**wait.arguments, "what": "less"})


def deny(wait: Wait, happened: bool) -> Verdict:
    """Say no to what asks, and leave alone what was cut off."""
    if wait.kind == "unknown" and happened:
        return truth(wait, happened)
    return Deny(by="kim", reason="Not today.")


def deny_only_pay(wait: Wait, happened: bool) -> Verdict:
    """Say no to paying, the truth of everything else."""
    return deny(wait, happened) if wait.tool == "pay" else truth(wait, happened)


def deny_the_first(wait: Wait, happened: bool) -> Verdict:
    """Leave alone what was cut off first, tell the truth of what is cut off later."""
    return (deny if wait.arguments["what"] == "1" else truth)(wait, happened)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A run from its start to its end, step by step.

    `effects` are all that may happen, each once; in a run that is cancelled or fails
    some may be missing. `by` is the call with which people move the run on. In a
    story that `varies` the conversation depends on when the process died.
    """

    name: str
    script: dict[str, list[Line]]
    steps: tuple[Step, ...]
    effects: tuple[str, ...]
    judge: Judge = truth
    ends: End = "finished"
    by: Literal["resume", "start"] = "resume"
    instead: Literal["decide", "cancel", "wait"] = "decide"
    sends: bool = False
    varies: bool = False
    parallel: bool = False


START, DECIDE, RESUME = Step("start"), Step("decide"), Step("resume")
LATER = Step("resume", later=60)
DEEP: dict[str, list[Line]] = {
    "go": [[["left", {"input": "A"}], ["push", {"what": "1"}]], "all"],
    "A": [[["clerk", {"input": "C"}], ["act", {"what": "2"}]], "A done"],
    "C": [[["pay", {"what": "3"}], ["read", {"what": "4"}]], "C done"],
}
WIDE: dict[str, list[Line]] = {
    "go": [
        [
            ["pay", {"what": "1"}],
            ["pay", {"what": "2"}],
            ["left", {"input": "A"}],
            ["right", {"input": "B"}],
        ],
        "all",
    ],
    "A": [[["pay", {"what": "3"}], ["clerk", {"input": "C"}]], "A done"],
    "B": [[["pay", {"what": "4"}]], "B done"],
    "C": [[["pay", {"what": "5"}]], "C done"],
}
PAID: dict[str, list[Line]] = {
    "go": [[["act", {"what": "1"}]], [["pay", {"what": "2"}]], "end"]
}
TWICE: dict[str, list[Line]] = {
    "go": [
        [["left", {"input": "A"}]],
        [["pay", {"what": "2"}]],
        [["push", {"what": "3"}]],
        "end",
    ],
    "A": [[["pay", {"what": "1"}]], "A done"],
}


def cut_off(name: str, tool: str, moment: Literal["before", "after"]) -> Story:
    """Return a story in which a process dies in a tool, in a child."""
    happens = not name.endswith("deny")
    script: dict[str, list[Line]] = {
        "go": [[["left", {"input": "A"}]], [["act", {"what": "2"}]], "end"],
        "A": [[[tool, {"what": "1"}]], "A done"],
    }
    settles = () if tool == "book" else (DECIDE, RESUME)
    return Story(
        name=name,
        script=script,
        # The third line: two turns, then the tool.
        steps=(Step("start", dies=Point("line", 3, moment)), LATER, *settles),
        effects=(*([f"{tool} 1"] if happens else []), "act 2"),
        judge=deny_the_first if name.endswith("deny") else truth,
    )


STORIES = (
    Story(
        name="plain",
        script={
            "go": [
                [["act", {"what": "1"}]],
                [["push", {"what": "2"}]],
                [["read", {"what": "3"}]],
                [["book", {"what": "4"}]],
                "end",
            ]
        },
        steps=(START,),
        effects=("act 1", "push 2", "read 3", "book 4"),
    ),
    Story(
        name="one approval",
        script=PAID,
        steps=(START, DECIDE, RESUME),
        effects=("act 1", "pay 2"),
    ),
    Story(
        name="depth 3",
        script=DEEP,
        steps=(START, DECIDE, RESUME),
        effects=("push 1", "act 2", "pay 3", "read 4"),
        parallel=True,
    ),
    Story(
        name="five waits",
        script=WIDE,
        steps=(START, Step("decide", 2), RESUME, DECIDE, RESUME),
        effects=("pay 1", "pay 2", "pay 3", "pay 4", "pay 5"),
        parallel=True,
    ),
    Story(
        name="edit",
        script=PAID,
        steps=(START, DECIDE, RESUME),
        effects=("act 1", "pay less"),
        judge=edit,
    ),
    Story(
        name="deny",
        script=PAID,
        steps=(START, DECIDE, RESUME),
        effects=("act 1",),
        judge=deny_only_pay,
    ),
    Story(
        name="deny stops",
        script={"go": [[["act", {"what": "1"}], ["rush", {"what": "2"}]], "end"]},
        steps=(START, DECIDE, RESUME),
        effects=("act 1",),
        judge=lambda w, h: (truth if w.tool == "act" else deny)(w, h),
        ends="failed",
    ),
    Story(
        name="expiry",
        script={
            "go": [[["left", {"input": "A"}]], [["act", {"what": "2"}]], "end"],
            "A": [[["rush", {"what": "1"}]], "A done"],
        },
        steps=(START, Step("resume", later=4000)),
        effects=("act 2",),
        instead="wait",
    ),
    Story(
        name="cancel",
        script=WIDE,
        steps=(START, Step("cancel")),
        effects=(),
        ends="cancelled",
        instead="cancel",
        parallel=True,
    ),
    Story(
        name="cancel while it works",
        script={
            "go": [[["left", {"input": "A"}], ["pay", {"what": "9"}]], "end"],
            "A": [[["act", {"what": "1", "then": "cancel"}]], "A done"],
        },
        steps=(START,),
        effects=("act 1",),
        ends="cancelled",
        instead="cancel",
        parallel=True,
    ),
    Story(
        name="two turns",
        script=TWICE,
        steps=(START, DECIDE, RESUME, DECIDE, RESUME),
        effects=("pay 1", "pay 2", "push 3"),
    ),
    cut_off("unknown, answer", "act", "after"),
    cut_off("unknown, approve", "act", "before"),
    cut_off("unknown, deny", "act", "before"),
    cut_off("unknown, verify finds it", "book", "after"),
    cut_off("unknown, verify finds nothing", "book", "before"),
    Story(
        name="start again",
        script=PAID,
        steps=(START, START, DECIDE, START),
        effects=("act 1", "pay 2"),
        by="start",
    ),
    Story(
        name="message",
        script=PAID,
        steps=(START, Step("send"), DECIDE, RESUME),
        effects=("act 1", "pay 2"),
        sends=True,
        varies=True,
    ),
    Story(
        name="model down",
        script=TWICE,
        steps=(Step("start", down=True), RESUME, DECIDE, RESUME, DECIDE, RESUME),
        effects=("pay 1", "pay 2", "push 3"),
    ),
    Story(
        name="a tool raises",
        script={
            "go": [[["left", {"input": "A"}]], [["act", {"what": "2"}]], "end"],
            "A": [[["act", {"what": "1", "then": "raise:no"}]], "A done"],
        },
        steps=(START,),
        effects=("act 1", "act 2"),
        varies=True,
    ),
)
BY_NAME = {story.name: story for story in STORIES}
