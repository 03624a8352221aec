"""Without a store the continuation is the caller's: bytes from process to process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    AgentChanged,
    Answer,
    Approve,
    Continuation,
    Corrupt,
    DecisionRefused,
    Deny,
    Finished,
    FormatError,
    Suspended,
    WaitNotFound,
    resume,
    run,
    tool,
)
from tests.engine import ledgers, offices
from tests.engine.offices import results

if TYPE_CHECKING:
    from tests.engine.scripts import Script
    from tests.engine.world import World

NESTED: Script = {
    "go": [[["left", {"input": "A"}], ["right", {"input": "B"}]], "all"],
    "A": [[["act", {"what": "1"}], ["pay", {"what": "a"}]], "A done"],
    "B": [[["clerk", {"input": "C"}]], "B done"],
    "C": [[["pay", {"what": "c"}]], "C done"],
}


def test_nothing_but_bytes_between_four_processes(world: World) -> None:
    """Section 8, SL-11, SL-18, X-03: partial answers, each in a process of its own."""
    paths = [str(world.folder / f"{number}.bytes") for number in range(4)]

    # Given a stack in bytes
    told = world.do("run", "go", paths[0], script=NESTED)
    waits = {wait["arguments"]["what"]: wait["id"] for wait in told["waits"]}

    def resumed(number: int, answers: dict[str, Any]) -> dict[str, Any]:
        words = (paths[number], json.dumps(answers), paths[number + 1])
        return world.do("resume-bytes", *words, script=NESTED)

    # When one answers the deeper wait, the next nothing, the last the other one
    first = resumed(0, {waits["c"]: {"approve": {"by": "kim"}}})
    assert [waits["a"]] == [wait["id"] for wait in first["waits"]]
    second = resumed(1, {})
    assert ("Suspended", ["act 1", "pay c"]) == (second["kind"], world.done())
    last = resumed(2, {waits["a"]: {"deny": {"reason": "No."}}})

    # Then each call ran once and no turn was repeated
    assert "all" == last["output"]
    assert ["act 1", "pay c"] == world.done()
    assert ["A done", "B done"] == offices.said(last["messages"])
    assert len(set(world.turns())) == len(world.turns())
    assert 8 == last["usage"]["requests"]


@tool(approval=True)
def pay(what: str) -> str:
    """Pay."""
    ledgers.add(ledgers.EFFECTS, tool="pay", what=what)
    return f"paid {what}"


def suspended(*whats: str) -> Suspended:
    """Return a run that waits for so many approvals."""
    outcome = run(agent(*whats), "go")
    assert isinstance(outcome, Suspended)
    return outcome


def agent(*whats: str, **options: Any) -> Any:
    """Return an agent that pays so often, in one turn."""
    script: Script = {"go": [[["pay", {"what": what}] for what in whats], "end"]}
    return offices.boss(script, options.get("tool", pay))


def test_an_answer_to_no_open_wait_runs_nothing(world: World) -> None:
    """R-B7, X-04: also beside a good one, and of a wait that was answered before."""
    outcome = suspended("a", "b")
    one, two = (wait.id for wait in outcome.waits)
    for wrong in ("", "0", f"{one}x", suspended("a").waits[0].id):
        with pytest.raises(WaitNotFound):
            resume(
                outcome.continuation, agent(), answers={one: Approve(), wrong: Deny()}
            )
    with pytest.raises(DecisionRefused):
        resume(outcome.continuation, agent(), answers={one: Answer(5)})
    assert [] == world.effects()

    half = resume(outcome.continuation, agent("a", "b"), answers={one: Deny()})
    with pytest.raises(WaitNotFound):
        resume(
            half.continuation, agent("a", "b"), answers={one: Approve(), two: Deny()}
        )
    assert [] == world.effects()


def test_the_value_is_not_changed_by_resuming(world: World) -> None:
    """SL-L16, SL-L4, EF-14: it stays what it was; a second resume is theirs."""
    outcome = suspended("a")
    before = outcome.continuation.to_bytes()

    ended = resume(
        outcome.continuation, agent("a"), answers={outcome.waits[0].id: Approve()}
    )

    assert isinstance(ended, Finished)
    assert before == outcome.continuation.to_bytes()
    assert "suspended" == outcome.continuation.status
    assert ["waiting"] == [call.state for call in outcome.continuation.root.calls]
    assert ["pay a"] == world.done()
    # And the end, resumed, is the end
    assert ended.output == getattr(
        resume(ended.continuation, agent("a")), "output", None
    )
    assert ["pay a"] == world.done()


def test_bytes_of_another_kind_are_refused_by_name() -> None:
    """Promises 5 and 6, R-E7: nothing is guessed, nothing runs."""
    data = suspended("a").continuation.to_bytes()
    for wrong in (
        b"",
        b"{}",
        b"\x80\x04.",
        data[:-1],
        data[:20],
        data + b"x",
        data[::-1],
    ):
        with pytest.raises(FormatError):
            resume(wrong, agent("a"))
    for place in range(0, len(data), max(1, len(data) // 40)):
        flipped = bytearray(data)
        flipped[place] ^= 0x10
        with pytest.raises((FormatError, Corrupt)):
            Continuation.from_bytes(bytes(flipped))


def test_other_code_is_refused_without_a_store_too() -> None:
    """R-H2: and the bytes are as good as before."""

    @tool(name="pay", approval=True)
    def pay_in(what: str, currency: str = "EUR") -> str:
        """Pay in a currency."""
        return f"paid {what} {currency}"

    outcome = suspended("a")
    yes = {outcome.waits[0].id: Approve()}
    with pytest.raises(AgentChanged):
        resume(outcome.continuation, agent("a", tool=pay_in), answers=yes)
    assert ["paid a"] == results(resume(outcome.continuation, agent("a"), answers=yes))


def test_the_report_as_json_is_plain(world: World) -> None:
    """SL-04, SL-18, SL-31: the standard messages array, and each wait with its path."""
    outcome = suspended("a")

    told = json.loads(outcome.continuation.to_json())

    assert outcome.continuation.root.messages == told["frames"][0]["messages"]
    assert [["boss", "pay"]] == [wait["path"] for wait in told["waits"]]
    assert [] == world.effects()
