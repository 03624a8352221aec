"""Waits as interrupts, and answers that decide only with an exact yes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import httpx
import pytest

from continuations import (
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Flow,
    Identity,
    ask,
    external,
    sleep,
    tool,
    wait_for,
    workflow,
)
from continuations.errors import AlreadyDecided, ModelError
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import ReplyInfo, TurnInfo
from continuations.models.interface import ModelRequest
from continuations.models.scripted import LaterReply, ToolCall
from continuations.results import Decision, Door
from tests.interop.agui import scenes
from tests.interop.agui.scenes import Scene, chat, pay, pay_jane, shop

YES = {"approved": True}


async def test_approval_says_everything_that_an_approver_needs() -> None:
    async with chat(shop([pay_jane(), "Paid."])) as scene:
        seen = await scene.person().say("Pay Jane")
        [asked] = seen.interrupts
        [call] = seen.of("TOOL_CALL_START")
        assert seen.outcome == "interrupt"
        assert asked["reason"] == "approval"
        assert asked["message"] == "Pay 5.00 EUR to jane"
        assert asked["toolCallId"] == call["toolCallId"]
        wait = await scene.runner.wait(asked["id"])
        about = asked["metadata"]
        assert about["digest"] == wait.digest
        assert about["path"] == ["shop", "pay"]
        assert about["arguments"] == {"name": "jane", "cents": 500, "key": "[secret]"}
        schema = asked["responseSchema"]
        assert schema["required"] == ["approved"]
        assert {"approved", "reason", "editedArgs"} == schema["properties"].keys()
        assert "s3cret" not in str(seen.events)


async def test_denial_is_read_by_the_agent() -> None:
    def reply(request: ModelRequest) -> Any:
        last = request.messages[-1]
        return pay_jane() if last.role == "user" else str(last.content)

    async with chat(shop(reply)) as scene:
        ann = scene.person()
        await ann.say("Pay Jane")
        seen = await ann.answer({"approved": False, "reason": "Not today."})
        assert seen.outcome == "success"
        assert "Not today." in seen.texts[-1]
        assert scene.paid == []


async def test_edited_arguments_replace_those_of_the_call() -> None:
    """A secret value that the person did not see stays as it was."""
    async with chat(shop([pay_jane(), "Paid."])) as scene:
        ann = scene.person()
        seen = await ann.say("Pay Jane")
        shown = seen.interrupts[0]["metadata"]["arguments"]
        seen = await ann.answer({**YES, "editedArgs": {**shown, "cents": 7}})
        assert seen.outcome == "success"
        assert scene.paid == ["jane 7 s3cret"]


QUESTION = ToolCall("ask_person", {"question": "Which color?"})


async def test_question_takes_the_answer_itself() -> None:
    async with chat(shop([QUESTION, "Noted."])) as scene:
        ann = scene.person()
        seen = await ann.say("Buy a lamp")
        [asked] = seen.interrupts
        assert (asked["reason"], asked["message"]) == ("question", "Which color?")
        assert asked["responseSchema"] == {"type": "string"}
        seen = await ann.answer("red")
        assert seen.of("TOOL_CALL_RESULT")[0]["content"] == "red"
        assert seen.outcome == "success"


async def test_question_with_a_deadline_says_until_when() -> None:
    @tool
    def size(lamp: str) -> Any:
        """Ask for a size."""
        return ask(f"Which size of {lamp}?", int, within=timedelta(hours=1))

    script: list[Any] = [ToolCall("size", {"lamp": "A-17"}), "Noted."]
    async with chat(shop(script, tools=[size])) as scene:
        ann = scene.person()
        seen = await ann.say("A lamp")
        [asked] = seen.interrupts
        [wait] = [each async for each in scene.runner.open_waits()]
        assert wait.deadline
        assert asked["expiresAt"] == wait.deadline.isoformat()
        seen = await ann.answer("large")
        assert seen.outcome == "error decision-refused"
        assert [wait.kind] == await scene.open_waits()
        seen = await ann.answer(4)
        assert seen.outcome == "success"


@pytest.mark.parametrize("stage", ["input", "output"])
async def test_text_that_a_person_judges(stage: str) -> None:
    def check(info: TurnInfo | ReplyInfo) -> Tripped | None:
        return Tripped("rude") if "fool" in info.text else None

    rule = Guardrail(check=check, on_trip="ask")
    lists: dict[str, Any] = {stage: [rule]}
    agent = shop(["You fool."], guardrails=Guardrails(**lists))
    async with chat(agent) as scene:
        ann = scene.person()
        seen = await ann.say("Hello fool" if stage == "input" else "Hello")
        [asked] = seen.interrupts
        assert asked["reason"] == stage
        assert "fool" in str(asked["metadata"]["arguments"])
        assert "editedArgs" not in asked["responseSchema"]["properties"]
        if stage == "output":  # the words are taken back until a person allows them
            assert not any("fool" in each for each in seen.texts)
        seen = await ann.answer(YES)
        assert (seen.error, seen.outcome) == (None, "success")
        assert seen.texts[-1] == "You fool."


async def adopt_unknown_call(
    runner: AsyncRunner[Any], begun: asyncio.Event, may_end: asyncio.Event
) -> None:
    """Store a run of which no one knows whether its tool ran, as jane-2."""
    other = AsyncRunner(runner.root_agent(), store="memory:", lease=0.5)
    work = asyncio.create_task(other.start("Pay Jane", run_id="jane-1"))
    await begun.wait()
    await runner.adopt(await other.look("jane-1"), run_id="jane-2")
    may_end.set()
    await work


@pytest.mark.parametrize(
    ("payload", "paid"),
    [
        ({"decision": "answer", "value": "It was paid."}, []),
        ({"decision": "deny", "reason": "Leave it."}, []),
        ({"decision": "approve"}, ["jane 500 s3cret"]),
    ],
    ids=str,
)
async def test_unknown_outcome_takes_what_a_person_saw(
    payload: dict[str, Any], paid: list[str]
) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    @tool(name="pay")
    async def slow_pay(name: str, cents: int, key: str) -> str:
        """Pay a person."""
        begun.set()
        await may_end.wait()
        scenes.paid.append(f"{name} {cents} {key}")
        return "paid"

    agent = shop([pay_jane(), "Done."], tools=[slow_pay])
    runner = AsyncRunner(agent, store="memory:", lease=0.5)
    await adopt_unknown_call(runner, begun, may_end)

    def of_run(person: Identity, thread_id: str) -> str:
        assert person.name == "ann"
        return thread_id

    async with chat(shop([]), runner=runner, thread=of_run) as scene:
        ann = scene.person(thread="jane-2")
        seen = await ann.turn()
        [asked] = seen.interrupts
        assert (asked["reason"], asked["message"]) == (
            "unknown",
            "Run pay with jane, 500, s3cret: did it happen?",
        )
        assert {"answer", "approve", "deny"} == {
            *asked["responseSchema"]["properties"]["decision"]["enum"]
        }
        seen = await ann.answer(YES)
        assert seen.outcome == "error decision-refused"
        await asyncio.sleep(0.6)  # the old worker can no longer be at work
        seen = await ann.answer(payload)
        assert (seen.error, seen.outcome) == (None, "success"), seen.end
        assert scene.paid == paid


# No yes -----------------------------------------------------------------------------

NO_YES: list[Any] = [
    None,
    True,
    "approve",
    "yes",
    [],
    [True],
    {},
    {"approved": "true"},
    {"approved": 1},
    {"approved": None},
    {"approve": True},
    {"decision": "approve"},
    {**YES, "remember": {}},
    {**YES, "editedArgs": "all"},
    {**YES, "editedArgs": None},
    {**YES, "editedArgs": {"cents": "many"}},
    {**YES, "form": 5},
    {**YES, "form": {}},
    {**YES, "reason": 5},
    {"approved": False, "editedArgs": {}},
]


async def test_everything_but_an_exact_yes_leaves_the_wait_open() -> None:
    async with chat(shop([pay_jane(), "Paid."])) as scene:
        ann = scene.person()
        seen = await ann.say("Pay Jane")
        for payload in NO_YES:
            seen = await ann.answer(payload)
            assert seen.outcome == "error decision-refused", payload
        [asked] = seen.interrupts
        seen = await ann.turn(
            resume=[{"interruptId": asked["id"], "status": "resolved"}]
        )
        assert seen.outcome == "error decision-refused"
        assert (["approval"], []) == (await scene.open_waits(), scene.paid)
        # The client still has the interrupt, and the next turn ends with it again.
        seen = await ann.answer(...)
        assert [each["id"] for each in seen.interrupts] == [asked["id"]]
        seen = await ann.answer(YES)
        assert (seen.outcome, scene.paid) == ("success", ["jane 500 s3cret"])


async def test_question_without_an_answer_stays_open() -> None:
    async with chat(shop([QUESTION, "Noted."])) as scene:
        ann = scene.person()
        seen = await ann.say("Buy a lamp")
        own_id = seen.interrupts[0]["id"]
        for payload in (None, 5, {"answer": "red"}):
            seen = await ann.answer(payload)
            assert seen.outcome == "error decision-refused"
        seen = await ann.turn(resume=[{"interruptId": own_id, "status": "resolved"}])
        assert seen.outcome == "error decision-refused"
        assert ["question"] == await scene.open_waits()


async def test_abandoned_and_omitted_interrupts_stay_open() -> None:
    """The client refuses to omit one; another program may."""
    calls = [pay_jane(1), pay_jane(2)]
    async with chat(shop([calls, "Paid."])) as scene:
        ann = scene.person()
        seen = await ann.say("Pay twice")
        first, second = seen.interrupts
        refused = await ann.turn(resume=ann.entries([YES, ...])[:1])
        assert refused.error
        assert second["id"] in refused.error
        ann.seen = seen

        seen = await ann.answer(..., ...)
        assert [each["id"] for each in seen.interrupts] == [first["id"], second["id"]]
        assert scene.paid == []
        seen = await ann.answer(YES, ...)
        assert [each["id"] for each in seen.interrupts] == [second["id"]]
        assert scene.paid == ["jane 1 s3cret"]

        body: dict[str, Any] = {
            "threadId": "lamp",
            "runId": "r9",
            "messages": [],
            "resume": [],
        }
        async with httpx.AsyncClient(headers={"x-user": "ann"}) as client:
            raw = await client.post(scene.url, json=body)
        assert second["id"] in raw.text
        assert '"type":"interrupt"' in raw.text
        assert scene.paid == ["jane 1 s3cret"]


async def test_entries_for_other_waits_are_warnings() -> None:
    """Neither an invented wait nor one of another conversation is decided."""
    async with chat(shop([pay_jane(), "Paid."])) as scene:
        ann, bob = scene.person(), scene.person("bob", "other")
        await ann.say("Pay Jane")
        of_bob = await bob.say("Pay Jane")
        entries = [
            {"interruptId": each, "status": "resolved", "payload": YES}
            for each in (of_bob.interrupts[0]["id"], "approval-1@x", "", "@", "nothing")
        ]
        seen = await ann.turn(resume=[*ann.entries([...]), *entries])
        assert seen.warnings == ["unknown-interrupt"] * 5
        assert (seen.outcome, scene.paid) == ("interrupt", [])
        assert await scene.open_waits() == ["approval", "approval"]


async def test_digest_that_the_person_saw_is_compared() -> None:
    async with chat(shop([pay_jane(), "Paid."])) as scene:
        ann = scene.person()
        seen = await ann.say("Pay Jane")
        [entry] = ann.entries([YES])
        for digest in ("0" * 64, "", 5):
            with_digest = {**entry, "metadata": {"digest": digest}}
            seen = await ann.turn(resume=[with_digest])
            assert seen.outcome == "error decision-refused"
        digest = seen.interrupts[0]["metadata"]["digest"]
        seen = await ann.turn(resume=[{**entry, "metadata": {"digest": digest}}])
        assert (seen.outcome, scene.paid) == ("success", ["jane 500 s3cret"])


# Other doors, failures, several people ------------------------------------------------


@pytest.mark.parametrize("verdict", [Approve(by="kim"), Deny(by="kim")], ids=str)
async def test_wait_that_another_door_decided_is_a_warning(
    verdict: Approve | Deny,
) -> None:
    """The console decides while a browser shows the interrupt: the turn goes on."""
    async with chat(shop([pay_jane(), "The end."])) as scene:
        ann = scene.person()
        seen = await ann.say("Pay Jane")
        own_id = seen.interrupts[0]["id"]
        await scene.runner.decide(own_id, verdict, door=Door("console"))
        seen = await ann.answer(YES)
        assert (seen.error, seen.outcome) == (None, "success")
        assert seen.warnings == ["already-decided"]
        assert seen.texts[-1] == "The end."
        is_paid = isinstance(verdict, Approve)
        assert scene.paid == ["jane 500 s3cret"] * is_paid
        with pytest.raises(AlreadyDecided) as error:
            await scene.runner.wait(own_id)
        assert error.value.decision.by == "kim"


async def test_answer_after_the_deadline_is_a_warning() -> None:
    @tool(approval=ApprovalPolicy(within=timedelta(seconds=0.2)))
    def buy(house: str) -> str:
        """Buy a house."""
        scenes.paid.append(house)
        return "bought"

    script: list[Any] = [ToolCall("buy", {"house": "A-17"}), "It is sold."]
    async with chat(shop(script, tools=[buy])) as scene:
        ann = scene.person()
        seen = await ann.say("Buy it")
        [entry] = ann.entries([YES])
        await asyncio.sleep(0.3)
        refused = await ann.answer(YES)  # by the client, before it sends anything
        assert refused.error
        assert "expired" in refused.error
        body: dict[str, Any] = {"threadId": "lamp", "runId": "r9", "messages": []}
        body["resume"] = [entry]
        async with httpx.AsyncClient(headers={"x-user": "ann"}) as client:
            raw = (await client.post(scene.url, json=body)).text
        assert ('"code":"wait-expired"' in raw, '"success"' in raw) == (True, True)
        ann.seen = seen
        seen = await ann.answer(...)
        assert (seen.error, seen.texts[-1]) == (None, "It is sold.")
        assert scene.paid == []


async def test_run_that_another_worker_continued_shows_its_end() -> None:
    """The console decides, and a sweep of another process does the work."""
    async with chat(shop([pay_jane(), "Paid."]), store="memory:") as scene:
        ann = scene.person()
        seen = await ann.say("Pay Jane")
        await scene.runner.decide(seen.interrupts[0]["id"], Approve(by="kim"))
        await scene.runner.resume(await scene.run_id())
        seen = await ann.answer(YES)
        assert (seen.outcome, seen.texts) == ("success", ["Pay Jane", "Paid."])
        assert scene.paid == ["jane 500 s3cret"]


async def test_wait_that_is_decided_while_the_turn_works() -> None:
    """Another door decides the second wait while the first call runs."""
    decided: list[str] = []

    @tool
    async def other_door(name: str) -> str:
        """Let another door decide what waits."""
        async for wait in runner.waiting():
            if wait.id not in decided:
                decided.append(wait.id)
                await runner.decide(wait.id, Approve(by="kim"))
        return name

    script: list[Any] = [[pay_jane(), ToolCall("other_door", {"name": "x"})], "Done."]
    runner = AsyncRunner(shop(script, tools=[pay, other_door]), store="memory:")
    async with chat(shop([]), runner=runner) as scene:
        seen = await scene.person().say("Pay")
        if seen.outcome == "interrupt":  # the tool was quicker than the wait
            await runner.decide(seen.interrupts[0]["id"], Approve(by="kim"))
            seen = await scene.person("bob").turn()
        assert (seen.outcome, scene.paid) == ("success", ["jane 500 s3cret"])


async def test_answer_is_kept_if_the_model_fails_after_it() -> None:
    """Deciding and working are two steps: the tool runs once."""
    failures = [ModelError("the model is down", status=400)]

    def reply(request: ModelRequest) -> Any:
        if request.messages[-1].role == "user":
            return pay_jane()
        return failures.pop() if failures else "Paid."

    async with chat(shop(reply)) as scene:
        ann = scene.person()
        seen = await ann.say("Pay Jane")
        own_id = seen.interrupts[0]["id"]
        seen = await ann.answer(YES)
        assert (seen.outcome, scene.paid) == ("error model-error", ["jane 500 s3cret"])
        # The client still believes that the interrupt is open, and answers it again.
        seen = await ann.answer(YES)
        assert (seen.outcome, seen.texts[-1]) == ("success", "Paid.")
        assert seen.warnings == ["already-decided"]
        assert scene.paid == ["jane 500 s3cret"]
        audit = await scene.runner.audit(await scene.run_id())
        assert [each.by for each in audit if each.wait == own_id] == ["ann"]


async def test_two_people_answer_one_interrupt_each() -> None:
    """Each browser covers both interrupts, and answers its own."""
    calls = [pay_jane(), ToolCall("close_account", {"name": "jane"})]
    async with chat(shop([calls, "All done."])) as scene:
        ann, kim = scene.person(), scene.person("kim")
        seen = await ann.say("Pay and close")
        assert [each["metadata"]["tool"] for each in seen.interrupts] == [
            "pay",
            "close_account",
        ]
        assert seen.interrupts[1]["metadata"]["approvers"] == ["kim"]
        seen = await kim.turn()
        assert len(seen.interrupts) == 2

        # Ann may not decide what only Kim may decide. Her own answer counts.
        refused = await ann.answer(YES, YES)
        assert refused.outcome == "error decision-refused"
        assert await scene.open_waits() == ["approval"]
        seen = await kim.answer(..., YES)
        assert (seen.outcome, seen.texts[-1]) == ("success", "All done.")
        assert sorted(scene.paid) == ["closed jane", "jane 500 s3cret"]
        seen = await ann.answer(..., ...)
        assert (seen.outcome, seen.texts[-1]) == ("success", "All done.")
        audit = await scene.runner.audit(await scene.run_id())
        assert {each.by for each in audit if each.wait} == {"ann", "kim"}


async def test_vote_leaves_the_interrupt_open_for_the_next_person() -> None:
    @tool(approval=ApprovalPolicy(approvers=["ann", "kim"], votes=2))
    def buy(house: str) -> str:
        """Buy a house."""
        scenes.paid.append(house)
        return "bought"

    script: list[Any] = [ToolCall("buy", {"house": "A-17"}), "It is yours."]
    async with chat(shop(script, tools=[buy])) as scene:
        ann, kim = scene.person(), scene.person("kim")
        [asked] = (await ann.say("Buy it")).interrupts
        await kim.turn()
        seen = await ann.answer(YES)
        assert (seen.outcome, scene.paid) == ("interrupt", [])
        seen = await ann.answer(YES)  # her vote counts once
        assert scene.paid == []
        assert [each["id"] for each in seen.interrupts] == [asked["id"]]
        about = seen.interrupts[0]["metadata"]
        assert (about["votes"], about["votesNeeded"]) == (["ann"], 2)
        seen = await kim.answer(YES)
        assert (seen.outcome, scene.paid) == ("success", ["A-17"])


async def test_two_people_answer_at_once() -> None:
    """One call runs once, and both browsers end with the same texts."""
    async with chat(shop([pay_jane(), "Paid."])) as scene:
        people = [scene.person(), scene.person("bob")]
        await people[0].say("Pay Jane")
        await people[1].turn()
        both = await asyncio.gather(*(each.answer(YES) for each in people))
        assert scene.paid == ["jane 500 s3cret"]
        assert ["success", "success"] == [each.outcome for each in both]
        for seen in both:
            assert seen.texts == ["Pay Jane", "Paid."]


async def test_message_beside_an_abandoned_interrupt_waits_for_its_turn() -> None:
    def reply(request: ModelRequest) -> Any:
        last = request.messages[-1]
        if last.role == "tool":
            return "Paid."
        return pay_jane() if last.content == "Pay Jane" else "At nine."

    async with chat(shop(reply)) as scene:
        ann = scene.person()
        await ann.say("Pay Jane")
        assert ann.seen
        entries = ann.entries([...])
        seen = await ann.turn(
            message={"id": "m2", "content": "When do you open?"}, resume=entries
        )
        assert (seen.outcome, scene.paid) == ("interrupt", [])
        assert seen.texts == ["Pay Jane", "When do you open?"]
        seen = await ann.answer(YES)
        assert seen.outcome == "success"
        assert seen.texts[-1] == "At nine."
        assert await scene.users_texts() == ["Pay Jane", "When do you open?"]


async def decision_of(scene: Scene, wait_id: str) -> Decision:
    """Return the recorded decision."""
    with pytest.raises(AlreadyDecided) as error:
        await scene.runner.wait(wait_id)
    return error.value.decision


async def test_decision_names_the_verified_person_and_the_door() -> None:
    async with chat(shop([pay_jane(), "Paid."])) as scene:
        ann = scene.person()
        seen = await ann.say("Pay Jane")
        own_id = seen.interrupts[0]["id"]
        await ann.answer({**YES, "reason": "Fine."})
        decision = await decision_of(scene, own_id)
        assert (decision.by, decision.reason) == ("ann", "Fine.")
        assert (decision.door, decision.authentication) == ("ag-ui", "verifier")


# Waits that ask nobody ----------------------------------------------------------------


@tool
def await_parcel(order: str) -> Any:
    """Wait until a parcel is sent."""
    return wait_for("parcel.sent", key=order)


@tool
def print_label(order: str) -> Any:
    """Print a label in the warehouse."""
    return external(f"label of {order}")


@tool
def nap(order: str) -> Any:
    """Sleep."""
    assert order
    return sleep(timedelta(hours=3))


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("event", ToolCall("await_parcel", {"order": "A-17"})),
        ("external", ToolCall("print_label", {"order": "A-17"})),
        ("timer", ToolCall("nap", {"order": "A-17"})),
        ("model", LaterReply("Hello.")),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_wait_that_asks_nobody_is_named_and_takes_no_answer(
    kind: str, first: ToolCall | LaterReply
) -> None:
    """The turn is no success, and nothing that a client sends ends such a wait."""
    agent = shop([first, "Done."], tools=[await_parcel, print_label, nap])
    async with chat(agent) as scene:
        ann = scene.person()
        seen = await ann.say("Go on")
        for payload in (YES, "done", {"decision": "answer", "value": "done"}):
            [waits] = seen.interrupts
            assert (waits["reason"], waits["metadata"]["asksPerson"]) == (kind, False)
            assert "responseSchema" not in waits
            assert waits["message"]
            seen = await ann.answer(payload)
            assert (seen.error, seen.outcome == "success") == (None, False)
            seen = await ann.answer(...)


async def test_paused_run_waits_for_its_operator() -> None:
    """An approval that is given meanwhile runs nothing before the end of the pause."""
    async with chat(shop([pay_jane(), "Paid."])) as scene:
        ann = scene.person()
        await ann.say("Pay Jane")
        await scene.runner.pause(await scene.run_id(), reason="An audit.")
        seen = await ann.answer(YES)
        [waits] = seen.interrupts
        assert waits["reason"] == "operator"
        seen = await ann.answer(YES)
        assert (seen.outcome, scene.paid) == ("error decision-refused", [])
        await scene.runner.unpause(await scene.run_id())
        seen = await ann.answer(...)
        assert (seen.outcome, scene.paid) == ("success", ["jane 500 s3cret"])


async def test_workflow_is_a_run_with_calls_and_alarms() -> None:
    @workflow(tools=[pay])
    async def send_money(flow: Flow, name: str) -> str:
        """Pay after an hour."""
        await flow.call(pay, name, 500)
        await asyncio.sleep(3600)
        return "done"

    runner = AsyncRunner(send_money, store="memory:")
    await runner.start(send_money.bind("jane"), run_id="jane-1")

    def of_run(person: Identity, thread_id: str) -> str:
        assert person.name == "ann"
        return thread_id

    async with chat(shop([]), runner=runner, thread=of_run) as scene:
        ann = scene.person(thread="jane-1")
        seen = await ann.turn()
        [asked] = seen.interrupts
        assert asked["message"] == "Pay 5.00 EUR to jane"
        seen = await ann.answer(YES)
        [result] = seen.of("TOOL_CALL_RESULT")
        assert result["toolCallId"] == asked["toolCallId"]
        assert [each["reason"] for each in seen.interrupts] == ["alarm"]
        assert scene.paid == ["jane 500 none"]
