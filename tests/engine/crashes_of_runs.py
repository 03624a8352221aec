"""Crashes of whole runs, with one capability each: states, attachments, hooks, …"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from continuations import (
    Agent,
    Answer,
    Approve,
    Deny,
    Finished,
    ToolContext,
    Wait,
    tool,
)
from continuations.core.messages import Message
from continuations.events import GuardrailTripped
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import (
    CallInfo,
    ChangeArguments,
    ChangeRequest,
    ChangeResult,
    Continue,
    Hooks,
    ReplyInfo,
    ResultInfo,
    TurnInfo,
)
from continuations.models.interface import ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.results import Verdict
from tests import effect_log
from tests.engine import attachment_agents, slow_models, state_agents
from tests.engine.agent_builders import Opinion
from tests.engine.crash_scenario import RunToItsEnd
from tests.scripts import call


class States(RunToItsEnd):
    """The state is the sum of the results that the model reads, no more and no less."""

    calls: ClassVar[tuple[Any, ...]] = (
        call("buy", cents=1),
        call("order", cents=2),
        call("buy", cents=4),
    )
    total: ClassVar[int | None] = None

    def agents(self) -> Agent:
        script = {
            "go": [[*self.calls], [call("hr", input="below"), *self.calls], "end"],
            "below": [[*self.calls], "done"],
        }
        return state_agents.three_deep(script)

    def verdict(self, wait: Wait) -> Verdict:
        """Approve; an unknown outcome gets a result without a change of the state."""
        return Answer("it ran") if wait.kind == "unknown" else Approve()

    def check(self, outcome: Finished) -> None:
        root = self.process().look(outcome.run_id).root
        spent = state_agents.replayed(root.messages)
        assert spent == root.state.get("spent", 0)
        assert self.total in (None, spent)


class StatesOfRepeatedCalls(States):
    """Calls that may be repeated change the state once."""

    calls = (call("book", cents=1), call("book", cents=2), call("order", cents=4))
    total = 14

    def verdict(self, wait: Wait) -> Verdict:
        del wait
        return Approve()


class Attachments(RunToItsEnd):
    """The models see all bytes, at every depth."""

    start_input: ClassVar[Any] = ["go", attachment_agents.PHOTO]

    def agents(self) -> Agent:
        return attachment_agents.three_deep(attachment_agents.DEEP_SCRIPT)

    def verdict(self, wait: Wait) -> Verdict:
        """Approve; say that a call of unknown outcome ran."""
        return Answer("it ran") if wait.kind == "unknown" else Approve()

    def check(self, outcome: Finished) -> None:
        assert "root saw the photo, the chart, the report" == outcome.output


class SlowModels(RunToItsEnd):
    """No turn of a model that replies later is asked again once it is committed."""

    def agents(self) -> Agent:
        return slow_models.agents()[0]

    def options(self) -> dict[str, Any]:
        return {"model_retry_time": 0}

    def then(self) -> None:
        asked = "ask boss 0" in self.effects()
        is_committed = len(self.keys(f"runs/{self.run_id}/v/")) > 1
        super().then()
        again = asked and not is_committed
        assert 1 + again == self.effects().count("ask boss 0")

    def check(self, outcome: Finished) -> None:
        del outcome
        names = self.effects("poll")
        assert set(slow_models.EFFECTS) == set(names)
        # Only the turn whose reply was not committed when the process died.
        asked = [name for name in names if name.startswith("ask")]
        assert len(asked) <= len({*asked}) + 1


# Hooks and guardrails ----------------------------------------------------------------


@tool
def pay(cents: int, ctx: ToolContext) -> str:
    """Pay."""
    effect_log.append_effect("pay", str(cents), attempt=ctx.attempt)
    return f"paid {cents}"


def cap(call: CallInfo) -> ChangeArguments | None:
    """Allow 100 cents at most."""
    return ChangeArguments({"cents": 100}) if call.arguments["cents"] > 100 else None


def unlucky(call: CallInfo) -> Tripped | None:
    """Refuse 13 cents."""
    return Tripped("unlucky") if call.arguments["cents"] == 13 else None


def large(call: CallInfo) -> Tripped | None:
    """Ask about 100 cents."""
    return Tripped("large") if call.arguments["cents"] >= 100 else None


def no_secret(reply: ReplyInfo) -> Tripped | None:
    return Tripped("secret") if reply.text == "secret" else None


def starred(result: ResultInfo) -> ChangeResult:
    return ChangeResult(f"* {result.text}")


def add_note(turn: TurnInfo) -> ChangeRequest | None:
    """Add a message to the second turn."""
    return ChangeRequest(messages=["be brief"]) if turn.turns == 1 else None


def once_more(reply: ReplyInfo) -> Continue | None:
    """Go on after the first reply that is an output."""
    return Continue("and?") if reply.text == "one" else None


class _Guarded(RunToItsEnd):
    """A run whose guardrails trip."""

    def trips(self) -> list[GuardrailTripped]:
        events = self.process().events(self.run_id)
        return [each for each in events if isinstance(each, GuardrailTripped)]


class HooksAndGuardrails(_Guarded):
    """No refused call runs, each call has its change, and each trip is an event."""

    def agents(self) -> Agent:
        calls = [ToolCall("pay", {"cents": cents}) for cents in (900, 7, 13)]
        return Agent(
            "clerk",
            tools=[pay],
            model=ScriptedModel([calls, "secret", "one", "two"]),
            hooks=Hooks(
                before_tool=cap,
                after_tool=starred,
                before_model=add_note,
                after_model=once_more,
            ),
            guardrails=Guardrails(
                tools=[unlucky, Guardrail(check=large, on_trip="ask")],
                output=[Guardrail(check=no_secret, on_trip="retry")],
            ),
        )

    def verdict(self, wait: Wait) -> Verdict:
        """Approve; deny a call of unknown outcome that the log has."""
        ran = f"pay {wait.arguments['cents']}" in self.effects()
        return Deny() if wait.kind == "unknown" and ran else Approve(by="kim")

    def check(self, outcome: Finished) -> None:
        assert "two" == outcome.output
        assert ["pay 100", "pay 7"] == sorted(self.effects())
        names = sorted(each.guardrail for each in self.trips())
        assert ["large", "no_secret", "unlucky"] == names
        contents = [each["content"] for each in outcome.continuation.root.messages]
        assert 1 == contents.count("be brief") == contents.count("and?")
        assert "secret" not in contents


class Judge:
    """Trips over calls with more than 100 cents."""

    name = "judge"

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return an opinion about the call in the last message."""
        cents = json.loads(request.messages[-1].content)["arguments"]["cents"]
        content = json.dumps({"tripped": cents > 100, "reason": "too much"})
        data = {"role": "assistant", "content": content}
        return ModelReply(message=Message.from_mapping(data))


def asks(info: TurnInfo | ReplyInfo) -> Tripped | None:
    """Ask about each input and output of a payer."""
    return Tripped("a person decides") if info.text else None


class JudgedTexts(_Guarded):
    """People judge the texts of a payer, and an agent its calls; all are accepted."""

    denied: ClassVar[str] = ""

    def agents(self) -> Agent:
        checker = Agent(
            "checker", model=Judge(), output_type=Opinion, instructions="Check."
        )
        ask = Guardrail(check=asks, on_trip="ask")
        calls = [ToolCall("pay", {"cents": cents}) for cents in (900, 7)]
        payer = Agent(
            "payer",
            tools=[pay],
            model=ScriptedModel([calls, "secret"]),
            guardrails=Guardrails(input=[ask], output=[ask], tools=[checker]),
        )
        model = ScriptedModel([ToolCall("payer", {"input": "pay"}), "done"])
        return Agent("boss", tools=[payer], model=model)

    def verdict(self, wait: Wait) -> Verdict:
        """Deny the waits of one kind, and a call of unknown outcome that was paid."""
        happened = wait.kind == "unknown" and "pay 7" in self.effects()
        is_denied = happened or wait.kind == self.denied
        return Deny(by="kim") if is_denied else Approve(by="kim")

    def check(self, outcome: Finished) -> None:
        assert ([] if self.denied == "input" else ["pay 7"]) == self.effects()
        messages = str([each["content"] for each in outcome.continuation.root.messages])
        assert ("secret" in messages) == (not self.denied)
        stages = [each.stage for each in self.trips()]
        assert 1 == stages.count("input")
        trips = stages.count("output"), stages.count("tool")
        assert (self.denied != "input",) * 2 == trips


class DeniedInputs(JudgedTexts):
    """A denied input pays nothing."""

    denied = "input"


class DeniedOutputs(JudgedTexts):
    """A denied output reaches no caller."""

    denied = "output"
