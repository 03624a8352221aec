"""The page of a wait as typed values: everything that `wait.html` prints, in its order.

1. The effect, as the title, and the truth about repeats and reversal.
2. Every argument, whole, with its reading.
3. The reasons: facts of tools, apart from the words of agents; the rule; the votes.
4. The decision: the deadline and its consequence, and the forms.
5. The origin. 6. Ids, digest, contract and JSON, folded.

Texts of models, tools and people are views as they are; the templates escape them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.withheld_waits import withheld
from continuations.present.json_forms import indented_json
from continuations.present.wait_parts import finding_text
from continuations.present.wait_text import (
    asked_facts,
    consequence_facts,
    origin_facts,
)
from continuations.serve.pages import wait_words
from continuations.serve.pages.argument_view import ArgumentView, argument_views
from continuations.serve.pages.decision_view import DecisionView, decision_view
from continuations.serve.pages.times import TimeView, time_view
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.evidence import Finding
    from continuations.core.waits import Wait
    from continuations.serve.pages.decision_view import Decider


@dataclass(frozen=True, slots=True, kw_only=True)
class FactView:
    """One result of an earlier call: its tool or agent, and its text."""

    source: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitView:
    """The page of an open wait.

    Attributes:
        id: The id of the wait.
        digest: The digest that a form posts.
        kind: The icon, word and color of the kind.
        opened: When the wait was opened.
        requester: The person or program that asked for the run, or an empty text.
        title: The effect in one sentence.
        lead: A further sentence, or an empty text.
        truth: Whether the call can run more than once.
        reversal: Whether the effect can be undone, or an empty text.
        tool: The name of the tool or agent.
        count: How many arguments there are, in words.
        arguments: All arguments.
        tool_facts: Results of tools.
        agent_facts: Results of other agents, which are not checked.
        agent_words: The text that the agent wrote with the call, or an empty text.
        rule: The name of the rule that asks, or an empty text.
        rule_text: The people who decide, and how many of them.
        agent_state: The state of the agent whose call waits, as JSON, or an empty text.
        note: Why the wait was opened, where the kind does not say it all.
        decision: Where and how to decide.
        path: The names from the root agent down to the tool.
        origin: Facts about the origin.
        details: Ids for developers.
        arguments_json: The arguments as JSON, whole.
        contract_json: The JSON Schema of the arguments.
        note_icon: The icon beside the truth.
        bar: Sentences about a decision that was just recorded.
    """

    id: str
    digest: str
    kind: wait_words.KindWords
    opened: TimeView
    requester: str
    title: str
    lead: str
    truth: str
    reversal: str
    tool: str
    count: str
    arguments: tuple[ArgumentView, ...]
    tool_facts: tuple[FactView, ...]
    agent_facts: tuple[FactView, ...]
    agent_words: str
    rule: str
    rule_text: str
    agent_state: str
    note: str
    decision: DecisionView
    path: tuple[str, ...]
    origin: Mapping[str, str]
    details: Mapping[str, str]
    arguments_json: str
    contract_json: str
    note_icon: str
    bar: tuple[str, ...] = ()


def wait_view(
    wait: Wait,
    decider: Decider,
    now: datetime,
    bar: tuple[str, ...] = (),
    *,
    agent_state: str = "",
) -> WaitView:
    """Return the page of an open wait for one person.

    Args:
        wait: The wait, with its votes, as `runner.wait` returns it.
        decider: The person who reads the page.
        now: The time of the page.
        bar: Sentences about a decision that was just recorded.
        agent_state: The stored state of the agent whose call waits, as JSON.

    Returns:
        The page.
    """
    wait = withheld(wait)
    arguments = argument_views(wait)
    return WaitView(
        id=wait.id,
        digest=wait.digest,
        kind=wait_words.KIND_WORDS[wait.kind],
        opened=time_view(wait.created_at),
        requester=wait.requester or "",
        title=wait_words.title(wait),
        lead=wait_words.lead(wait),
        truth=wait_words.truth(wait),
        reversal=wait_words.reversal(wait),
        tool=wait.tool,
        count=_count_text(len(arguments)),
        arguments=arguments,
        tool_facts=_facts(wait.evidence, by_agent=False),
        agent_facts=_facts(wait.evidence, by_agent=True),
        agent_words=wait.agent_words or "",
        rule=wait.policy or "",
        rule_text=wait_words.rule_text(wait),
        agent_state=indented_json(agent_state) if agent_state else "",
        note=wait.note or "",
        decision=decision_view(wait, decider, now),
        path=wait.path,
        origin=_origin(wait, decider),
        details={"Wait": wait.id, "Digest": wait.digest},
        note_icon=wait_words.NOTE_ICONS.get(wait.kind, "clock"),
        arguments_json=indented_json(wait.arguments_json),
        contract_json=indented_json(wait.schema_json),
        bar=bar,
    )


def _facts(findings: tuple[Finding, ...], *, by_agent: bool) -> tuple[FactView, ...]:
    return tuple(
        FactView(source=each.source, text=finding_text(each))
        for each in findings
        if each.by_agent == by_agent
    )


def _count_text(count: int) -> str:
    words = {0: "no arguments", 1: "its only argument"}
    return words.get(count, f"all {count:,} arguments")


# Facts that the page shows in other places.
_SHOWN_ELSEWHERE = frozenset(
    {"Question", "Tool", "Agent", "Path", "Wait", "Opened"}
    | {"Decide by", "At the latest", "Until", "Next attempt", "Votes", "Answer", "Form"}
    | {"If denied", "Then", "Approvers", "May not decide", "Approve after"}
)


def _origin(wait: Wait, decider: Decider) -> dict[str, str]:
    """Return the facts about the origin, and what a denial does."""
    facts = {**asked_facts(wait), **origin_facts(wait), **consequence_facts(wait)}
    shown = {k: text for k, text in facts.items() if k not in _SHOWN_ELSEWHERE}
    denial = wait_words.at_denial(wait)
    if not denial or "deny" in decider.verdicts:
        return shown  # the form says it
    return {**shown, f"If {wait_words.DENIED[wait.kind]}": denial}
