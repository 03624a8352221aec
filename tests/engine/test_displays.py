"""Title, evidence and secrets of a waiting call, from its start to its end."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    Finished,
    Runner,
    Suspended,
    Wait,
    ask,
    resume,
    run,
    tool,
    wait_for,
)
from continuations.core.messages import Detail
from continuations.core.visible_text import escape_invisible
from continuations.core.words.call_display import MAX_FINDING_CHARS, MAX_FINDINGS
from continuations.errors import DecisionRefused, EffectUnknown
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.present.json_forms import Report, run_json
from continuations.present.wait_words import finding_text
from continuations.tools import Money, Secret, ToolWait
from continuations.wire.records import WAIT
from continuations_storage import MemoryStore
from tests.engine.agent_builders import text_tool
from tests.ledger.runs import run_async
from tests.outcomes import expect, single_wait
from tests.stores import keys_and_bodies

PIN = "planted-pin-9876"
ran: list[tuple[str, int, str]] = []


@tool(approval=True, summary="Send {cents} to {to}", reversible=False)
def send(
    to: str, cents: Annotated[int, Money("EUR", 100)], pin: Annotated[str, Secret()]
) -> str:
    """Send money."""
    ran.append((to, cents, pin))
    return "sent"


@tool(read_only=True)
def find(query: str) -> str:
    """Find something."""
    return f"{query}: the pin is {PIN}\nand more {'x' * 5000}"


@tool
def seat(pin: Annotated[str, Secret()]) -> ToolWait[str]:
    """Choose a seat."""
    del pin
    return ask("Which seat?")


@tool(idempotent=True)
def receipt(order: str, pin: Annotated[str, Secret()]) -> ToolWait[str]:
    """Wait for the receipt of an order."""
    del pin
    return wait_for("receipt", str, key=order)


@tool
def log_in(password: Annotated[str, Secret()]) -> str:
    """Log in."""
    return f"logged in with {password}"


SEND = ToolCall("send", {"to": "Kim", "cents": 1240000, "pin": PIN})


@pytest.fixture(autouse=True)
def _no_effects() -> None:
    ran.clear()


def clerk(*script: Any, tools: tuple[Any, ...] = (send, find, seat)) -> Agent:
    return Agent("clerk", tools=list(tools), model=ScriptedModel(list(script)))


def test_wait_has_the_title_and_its_stored_object_has_no_secret() -> None:
    """The value stands in the versions of the run, and nowhere else."""
    store = MemoryStore()
    seen: list[Wait] = []
    runner = Runner(clerk(SEND, "done"), store=store, notify=seen.append)
    wait = single_wait(runner.start("Pay Kim", run_id="jane-1", by="mara"))

    stored = runner.wait(wait.id)
    for each in (wait, stored, seen[0], runner.look("jane-1").waits[0]):
        assert "Send €12,400.00 to Kim" == each.title
        assert {"to": "Kim", "cents": 1240000, "pin": "[secret]"} == each.arguments
        assert {"cents": "€12,400.00"} == each.readings
        assert (False, "mara", ("pin",)) == (
            each.reversible,
            each.requester,
            each.secrets,
        )
    key = f"waits/{wait.id}"
    body = WAIT.decode(run_async(store.read(key)), key, "jane-1")
    assert "[secret]" == body.arguments["pin"]
    runner.decide(wait.id, Approve(by="kim"))
    assert isinstance(runner.resume("jane-1"), Finished)
    assert [("Kim", 1240000, PIN)] == ran


def test_only_the_versions_of_a_run_have_its_secrets(store: MemoryStore) -> None:
    """Waits of each kind, a decision with an edit, an event, and markers have none."""
    waits = [
        ToolCall("seat", {"pin": PIN}),
        ToolCall("receipt", {"order": "7", "pin": PIN}),
    ]
    agent = clerk([SEND, *waits], "done", tools=(send, seat, receipt))
    runner = Runner(agent, store=store)
    outcome = expect(runner.start("Pay Kim", run_id="jane-1"), Suspended)
    approval, *others = sorted(outcome.waits, key=lambda wait: wait.kind)
    assert ["event", "question"] == [wait.kind for wait in others]

    def has_secret(*, in_versions: bool) -> bool:
        prefix = "runs/jane-1/v/"
        bodies = {
            key: run_async(store.read(key))
            for key in run_async(store.keys(""))
            if key.startswith(prefix) == in_versions
        }
        assert bodies
        return any(PIN.encode() in each for each in keys_and_bodies(bodies))

    assert has_secret(in_versions=True)
    assert not has_secret(in_versions=False)
    runner.decide(approval.id, Approve(arguments={**approval.arguments, "cents": 5}))
    runner.publish("receipt", "paid", key="7")
    assert not has_secret(in_versions=False)


def test_evidence_has_no_secret_of_an_earlier_call() -> None:
    """A tool that repeats its secret argument shows it to the model only."""
    first = ToolCall("log_in", {"password": "planted-password"})
    agent = Agent(
        "clerk", tools=[send, log_in], model=ScriptedModel([first, SEND, "done"])
    )
    [finding] = single_wait(run(agent, "Pay Kim")).evidence
    assert "logged in with [secret]" == finding.text


def test_evidence_of_an_unknown_outcome_has_no_secret_of_an_earlier_call() -> None:
    """A wait that a failure opens shows no more than the wait of an approval."""

    @tool(summary="Send {cents} cents")
    def wire(cents: int) -> str:
        """Send money over a connection that breaks."""
        raise EffectUnknown(f"no reply for {cents}")

    first = ToolCall("log_in", {"password": "planted-password"})
    script = ScriptedModel([first, ToolCall("wire", {"cents": 5}), "done"])
    wait = single_wait(
        run(Agent("clerk", tools=[wire, log_in], model=script), "Pay Kim")
    )

    assert "unknown" == wait.kind
    [finding] = wait.evidence
    assert "logged in with [secret]" == finding.text


def test_call_of_a_secret_is_masked_in_the_json_of_its_run() -> None:
    outcome = run(clerk(SEND, "done"), "Pay Kim")
    single_wait(outcome)

    def form(detail: Detail) -> dict[str, Any]:
        run = outcome.continuation
        about = Report(run.run_state.run.created_at, detail=detail)
        return run_json(run, about, with_stack=True)

    assert PIN not in json.dumps(form("states"))
    assert PIN not in json.dumps(form("texts"))
    assert "Pay Kim" in json.dumps(form("texts"))
    whole = form("transcript")
    assert PIN not in json.dumps([whole["waits"], whole["calls"]])
    # The model wrote the value, so the transcript has it.
    assert PIN in json.dumps(whole["frames"])


def test_approval_is_bound_to_the_secret_value() -> None:
    """Two calls that people cannot tell apart have different digests."""
    other = ToolCall("send", {"to": "Kim", "cents": 1240000, "pin": "other"})
    outcome = expect(run(clerk([SEND, other], "done"), "Pay Kim"), Suspended)
    one, two = outcome.waits

    assert one.arguments == two.arguments
    assert one.digest != two.digest


@pytest.mark.parametrize("storeless", [True, False])
def test_edit_keeps_the_secret_that_nobody_saw(storeless: bool) -> None:
    agent = clerk(SEND, "done")
    if storeless:
        outcome = run(agent, "Pay Kim")
        wait = single_wait(outcome)
        edit = Approve(by="kim", arguments={**wait.arguments, "cents": 5})
        data = outcome.continuation.to_bytes()
        assert isinstance(resume(data, agent, answers={wait.id: edit}), Finished)
    else:
        runner = Runner(agent, store="memory:")
        wait = single_wait(runner.start("Pay Kim", run_id="jane-1"))
        edit = Approve(by="kim", arguments={**wait.arguments, "cents": 5})
        decision = runner.decide(wait.id, edit)
        assert PIN not in str(decision)
        assert decision == runner.decide(wait.id, edit)
        assert isinstance(runner.resume("jane-1"), Finished)

    assert [("Kim", 5, PIN)] == ran


def test_edit_of_a_secret_is_refused() -> None:
    """Its decision would show the new value to everyone."""
    runner = Runner(clerk(SEND, "done"), store="memory:")
    wait = single_wait(runner.start("Pay Kim", run_id="jane-1"))

    with pytest.raises(DecisionRefused, match=r'leave "\[secret\]" in its place'):
        runner.decide(wait.id, Approve(arguments={**wait.arguments, "pin": "new"}))

    assert [] == ran


def test_edit_that_the_tool_would_change_shows_no_secret_in_its_note() -> None:
    @tool(approval=True)
    def pay(cents: float, pin: Annotated[str, Secret()]) -> str:
        """Pay."""
        return f"{cents}{pin}"

    script = [ToolCall("pay", {"cents": 5.0, "pin": PIN}), "done"]
    runner = Runner(clerk(*script, tools=(pay,)), store="memory:")
    wait = single_wait(runner.start("Pay Kim", run_id="jane-1"))
    huge = {**wait.arguments, "cents": 12345678901234567890123}
    runner.decide(wait.id, Approve(arguments=huge))

    again = single_wait(runner.resume("jane-1"))

    assert again.note is not None
    assert PIN not in again.note
    assert "[secret]" == again.arguments["pin"]


def test_wait_of_a_tool_hides_its_secrets_and_has_no_title() -> None:
    """The call has run already, so no sentence says what will happen."""
    wait = single_wait(run(clerk(ToolCall("seat", {"pin": PIN}), "done"), "Sit"))

    assert "question" == wait.kind
    assert wait.title is None
    assert {"pin": "[secret]"} == wait.arguments


def test_secret_stays_masked_after_its_tool_was_removed() -> None:
    """The row of the call knows its secrets, also for a process without the tool."""
    runner = Runner(clerk(SEND, "done"), store=MemoryStore())
    wait = single_wait(runner.start("Pay Kim", run_id="jane-1"))
    runner.decide(wait.id, Approve(by="kim"))
    other = Runner(clerk("done", tools=(find,)), store=runner.store)

    again = single_wait(other.resume("jane-1", reopen=True))

    assert wait.id != again.id
    assert "[secret]" == again.arguments["pin"]
    assert PIN not in repr(again)


def test_evidence_is_the_newest_results_since_the_last_user_message() -> None:
    """It is bounded, on one line, and has no secret of the call."""
    calls = [ToolCall("find", {"query": f"q{number}"}) for number in range(8)]
    script = [*calls[:3], calls[3:], SEND, "done"]
    wait = single_wait(run(clerk(*script), "Pay Kim"))

    found = wait.evidence
    assert MAX_FINDINGS == len(found)
    assert ["q3", "q4", "q5", "q6", "q7"] == [each.text[:2] for each in found]
    assert {"find"} == {each.source for each in found}
    for each in found:
        assert each.text.isprintable()
        assert len(each.text) <= MAX_FINDING_CHARS
        assert each.is_cut
        assert each.length > 5000
        assert "the pin is [secret]" in each.text


@pytest.mark.parametrize("ending", ["-9", "\n-9", "\u202e-9", "x" * 60])
@pytest.mark.parametrize("chars", range(225, 242, 3))
def test_evidence_is_never_cut_without_a_sign(chars: int, ending: str) -> None:
    """Escapes count as they are shown, and none is cut in the middle."""
    content = ("line\n" * 100)[:chars] + ending

    @tool(read_only=True)
    def balance() -> str:
        """Return the balance."""
        return content

    calls = [ToolCall("balance", {}), SEND, "done"]
    [finding] = single_wait(
        run(clerk(*calls, tools=(balance, send)), "Pay Kim")
    ).evidence

    whole = escape_invisible(content)
    is_whole = whole == finding.text
    assert is_whole != finding.is_cut
    assert (finding_text(finding) == whole) == is_whole
    assert len(whole) == finding.length
    beginnings = {escape_invisible(content[:n]) for n in range(len(content) + 1)}
    assert finding.text in beginnings


def test_words_of_an_agent_end_with_a_sign_if_there_are_more() -> None:
    """They have at most 400 characters, as they are shown."""
    words = ("line\n" * 70, "line\n" * 66, "x" * 400, "x" * 401)
    shown: list[str | None] = []
    for text in words:
        reply = {
            "role": "assistant",
            "content": text,
            "tool_calls": [
                {
                    "id": "1",
                    "type": "function",
                    "function": {
                        "name": "send",
                        "arguments": json.dumps(SEND.arguments),
                    },
                }
            ],
        }
        shown.append(single_wait(run(clerk(reply, "done"), "Pay Kim")).agent_words)

    assert [True, False, False, True] == [str(each).endswith("…") for each in shown]
    assert ["x" * 400, "x" * 399 + "…"] == shown[2:]
    assert all(each is not None and len(each) <= 400 for each in shown)


def test_evidence_of_an_agent_is_marked_as_its_words() -> None:
    """A model wrote it, and its words are not checked."""
    helper = Agent("helper", tools=[], model=ScriptedModel(["I checked the IBAN."]))
    script = [ToolCall("helper", {"input": "check"}), SEND, "done"]
    wait = single_wait(run(clerk(*script, tools=(send, helper)), "Pay Kim"))

    [finding] = wait.evidence
    assert ("helper", "I checked the IBAN.", True) == (
        finding.source,
        finding.text,
        finding.by_agent,
    )


def test_agents_words_are_those_of_the_turn_that_made_the_call() -> None:
    reply = {
        "role": "assistant",
        "content": f"It is due,\nso I pay with {PIN}.",
        "tool_calls": [
            {
                "id": "1",
                "type": "function",
                "function": {"name": "send", "arguments": json.dumps(SEND.arguments)},
            }
        ],
    }
    wait = single_wait(run(clerk(reply, "done"), "Pay Kim"))

    assert r"It is due,\nso I pay with [secret]." == wait.agent_words


def test_tool_that_declares_nothing_has_a_wait_without_a_display() -> None:
    """The display takes no bytes."""
    pay = text_tool("pay", "paid {cents}", {"cents": int}, approval=True)
    script = [ToolCall("find", {"query": "q"}), ToolCall("pay", {"cents": 5}), "done"]
    wait = single_wait(run(clerk(*script, tools=(pay, find)), "Pay Kim"))

    assert wait.display is None
    assert ((), {}, None, None) == (
        wait.evidence,
        wait.readings,
        wait.title,
        wait.requester,
    )


def test_display_stays_small(store: MemoryStore) -> None:
    """Long results, words and values cost a bounded number of bytes."""
    sizes: list[int] = []
    for length in (100, 100_000):
        found = [ToolCall("find", {"query": "q" * length}) for _ in range(9)]
        long = ToolCall("send", {"to": "k", "cents": 5, "pin": PIN})
        runner = Runner(clerk(*found, long, "done"), store=store)
        wait = single_wait(runner.start("Pay", run_id=f"run-{length}"))
        sizes.append(len(run_async(store.read(f"waits/{wait.id}"))))

    assert sizes[1] <= sizes[0] + 200
    assert sizes[1] < 3000


def test_edit_of_an_editable_argument_keeps_the_secret_beside_it() -> None:
    """The mask of an argument that is not editable counts as unchanged."""

    @tool(approval=ApprovalPolicy(editable=["cents"]), summary="Pay {cents}")
    def pay(cents: int, pin: Annotated[str, Secret()]) -> str:
        """Pay."""
        ran.append(("pay", cents, pin))
        return "paid"

    script = [ToolCall("pay", {"cents": 500, "pin": PIN}), "done"]
    runner = Runner(clerk(*script, tools=(pay,)), store="memory:")
    wait = single_wait(runner.start("Pay Kim", run_id="jane-1"))

    runner.decide(wait.id, Approve(arguments={**wait.arguments, "cents": 5}))

    assert isinstance(runner.resume("jane-1"), Finished)
    assert [("pay", 5, PIN)] == ran


def test_adopted_wait_keeps_its_words_and_forgets_the_requester() -> None:
    """The requester of another run did not ask for this one."""
    first = Runner(clerk(SEND, "done"), store="memory:")
    first.start("Pay Kim", run_id="jane-1", by="mara")
    other = Runner(clerk("unused", "done"), store="memory:")

    wait = single_wait(other.adopt(first.look("jane-1"), run_id="jane-2"))

    assert ("Send €12,400.00 to Kim", None) == (wait.title, wait.requester)
    assert "[secret]" == wait.arguments["pin"]
    other.decide(wait.id, Approve(by="kim"), shown=wait.digest)
    assert isinstance(other.resume("jane-2"), Finished)
    assert [("Kim", 1240000, PIN)] == ran
