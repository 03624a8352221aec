"""One view of a wait: everything that a person is shown of it, before it is printed.

Pages (`wait.html`), the terminal (`cli.terminal`, `cli.formatting`) and mails print
the same view:

1. The effect, as the title, and the truth about repeats and reversal.
2. Every argument, whole, with its reading.
3. The reasons: facts of tools, apart from the words of agents; the rule; the votes.
4. The deadline and its consequence.
5. The origin. 6. Ids, digest, contract and JSON.

Secret values are masked. Texts of models, tools and people are as they are: each
printer escapes them.

The inbox has a row for each wait that people are asked about: `InboxRow`. Its texts
are made once (`RowTexts`), and the time that is left whenever it is shown.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.rows.waits import Wait, withheld
from continuations.core.visible_text import escape_invisible
from continuations.present import wait_words
from continuations.present.json_forms import decided_values, indented_json
from continuations.present.search_words import search_text
from continuations.present.times import TimeView, left_text, left_view, time_view
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from continuations.core.rows.quorum import Vote
    from continuations.core.rows.wait_rules import KindWords


_MISSING = object()
_LONG_NUMBER = re.compile(r"-?[0-9]{5,15}\Z")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
# A time without a zone is past where it is past everywhere on earth.
_LATEST_ZONE = timezone(timedelta(hours=-12))
# A line of code begins with space, or ends as a statement or block does.
_CODE_LINE = re.compile(r"^[ \t]|[{};]$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentView:
    """One argument.

    Attributes:
        name: Its name.
        description: Its description in the schema, or an empty text.
        json: The value as JSON text, whole. A secret value is masked.
        places: Texts by which people understand the value, by their places in it.
        is_secret: Whether the value, or a part of it, is masked.
        is_default: Whether the value is the default of the schema.
        is_past: Whether the value is a day or a time in the past.
        change: The change by an edit, in words, or an empty text.
    """

    name: str
    description: str
    json: str
    places: Mapping[str, str]
    is_secret: bool
    is_default: bool
    is_past: bool = False
    change: str = ""

    @property
    def value(self) -> str:
        """The raw value, whole: JSON, or a text that needs no quotes."""
        return value_text(self.json)

    @property
    def is_plain(self) -> bool:
        """Whether the value is a text for people: one without quotes and code."""
        is_text = self.json.startswith('"') and not self.value.startswith('"')
        return is_text and not _CODE_LINE.search(self.value)

    @property
    def readings(self) -> tuple[str, ...]:
        """The texts by which people understand the value; they stand above it."""
        return tuple(
            text if place == self.name else f"{place}: {text}"
            for place, text in self.places.items()
        )

    @property
    def marks(self) -> tuple[str, ...]:
        """Words beside the value, such as a default or the old value of a change."""
        secret = wait_words.MASK_NOTE if self.is_secret else ""
        past = "in the past" if self.is_past else ""
        default = "default" if self.is_default else ""
        marks = (self._grouped, secret, past, default, self.change)
        return tuple(filter(None, marks))

    @property
    def _grouped(self) -> str:
        """A long whole number with its thousands separated: `18,204`."""
        is_long = _LONG_NUMBER.match(self.json) and not self.places
        return f"{int(self.json):,}" if is_long else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactView:
    """One result of an earlier call.

    Attributes:
        source: The tool or agent.
        text: The result, with its length if it is cut.
        by_agent: Whether an agent wrote it. Its words are not checked.
    """

    source: str
    text: str
    by_agent: bool

    @property
    def label(self) -> str:
        """The tool or agent, with the word that it is an agent."""
        return f"{self.source} (an agent)" if self.by_agent else self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteView:
    """One vote that counts.

    Attributes:
        by: The person.
        word: `Approved`, `Denied` or `Answered`.
        at: When.
        reason: The reason, or an empty text.
        title: The effect of the edit, or an empty text.
        values: The edit, answer or form that the vote is for, as JSON by its label.
    """

    by: str
    word: str
    at: TimeView
    reason: str
    title: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitView:
    """Everything that a person is shown of an open wait.

    Attributes:
        id: The id of the wait.
        digest: The digest that a decision names as the one that was shown.
        kind: The icon, word and color of the kind.
        opened: When the wait was opened.
        requester: The person or program that asked for the run, or an empty text.
        title: The effect in one sentence.
        is_made: Whether the title is made from the arguments.
        lead: A further sentence, or an empty text.
        truth: Whether the call can run more than once.
        reversal: Whether the effect can be undone, or an empty text.
        tool: The name of the tool or agent.
        count: How many arguments there are, in words.
        arguments: All arguments, the required ones first.
        facts: Results of earlier calls.
        agent_words: The text that the agent wrote with the call, or an empty text.
        rule: The name of the rule that asks, or an empty text.
        rule_text: The people who decide, and how many of them.
        agent_state: The state of the agent whose call waits, as JSON, or an empty text.
        note: Why the wait was opened, where the kind does not say it all.
        deadline_label: The label of the deadline.
        deadline: The deadline, or `None` for none.
        at_deadline: The consequence of the deadline, or an empty text.
        votes: The votes that count.
        votes_missing: The votes that are missing, in words; empty for a single decider.
        denial: The consequence of a denial below its label, or `None`.
        path: The names from the root agent down to the tool.
        origin: Facts about the origin.
        details: Ids for developers.
        arguments_json: The arguments as JSON, whole.
        contract_json: The JSON Schema of the arguments.
    """

    id: str
    digest: str
    kind: KindWords
    opened: TimeView
    requester: str
    title: str
    is_made: bool
    lead: str
    truth: str
    reversal: str
    tool: str
    count: str
    arguments: tuple[ArgumentView, ...]
    facts: tuple[FactView, ...]
    agent_words: str
    rule: str
    rule_text: str
    agent_state: str
    note: str
    deadline_label: str
    deadline: TimeView | None
    at_deadline: str
    votes: tuple[VoteView, ...]
    votes_missing: str
    denial: tuple[str, str] | None
    path: tuple[str, ...]
    origin: Mapping[str, str]
    details: Mapping[str, str]
    arguments_json: str
    contract_json: str

    @property
    def tool_facts(self) -> tuple[FactView, ...]:
        """The results of tools."""
        return tuple(each for each in self.facts if not each.by_agent)

    @property
    def agent_facts(self) -> tuple[FactView, ...]:
        """The results of other agents, which are not checked."""
        return tuple(each for each in self.facts if each.by_agent)


def wait_view(
    wait: Wait,
    *,
    agent_state: str = "",
    everybody: str = wait_words.EVERYBODY,
    now: datetime | None = None,
) -> WaitView:
    """Return the view of an open wait.

    Args:
        wait: The wait, with its votes, as `runner.wait` returns it.
        agent_state: The stored state of the agent whose call waits, as JSON.
        everybody: The words for all people of a door, where the rule names no person.
        now: The time of the report; by default the time at which the wait was opened.

    Returns:
        The view, the same for every person.
    """
    wait = withheld(wait)
    arguments = argument_views(wait, now=now)
    deadline = wait.deadline
    denial = wait_words.at_denial(wait)
    return WaitView(
        id=wait.id,
        digest=wait.digest,
        kind=wait.rules.words,
        opened=time_view(wait.created_at),
        requester=wait.requester or "",
        title=wait_words.title(wait),
        is_made=wait_words.has_made_title(wait),
        lead=wait_words.lead(wait),
        truth=wait_words.truth(wait),
        reversal=wait_words.reversal(wait),
        tool=wait.tool,
        count=_count_text(len(arguments)),
        arguments=arguments,
        facts=fact_views(wait),
        agent_words=wait.agent_words or "",
        rule=wait.policy or "",
        rule_text=wait_words.rule_text(wait, everybody),
        agent_state=indented_json(agent_state) if agent_state else "",
        note=wait.note or "",
        deadline_label=wait.rules.deadline_label,
        deadline=None if deadline is None else time_view(deadline),
        at_deadline="" if deadline is None else wait_words.at_deadline(wait),
        votes=tuple(vote_view(wait, vote) for vote in wait.votes),
        votes_missing=wait_words.votes_missing(wait),
        denial=(f"If {wait.rules.denied}", denial) if denial else None,
        path=wait.path,
        origin=wait_words.page_facts(wait),
        details={"Wait": wait.id, "Digest": wait.digest},
        arguments_json=indented_json(wait.arguments_json),
        contract_json=indented_json(wait.schema_json),
    )


def fact_views(wait: Wait) -> tuple[FactView, ...]:
    """Return the results of earlier calls, the oldest first."""
    return tuple(
        FactView(
            source=each.source,
            text=wait_words.finding_text(each),
            by_agent=each.by_agent,
        )
        for each in wait.evidence
    )


def _count_text(count: int) -> str:
    words = {0: "no arguments", 1: "its only argument"}
    return words.get(count, f"all {count:,} arguments")


def vote_view(wait: Wait, vote: Vote) -> VoteView:
    """Return a vote, with everything that it is for."""
    title = None
    if vote.arguments is not None and wait.display is not None:
        title = wait.display.title_of(jsontext.parse(vote.arguments))
    return VoteView(
        by=vote.by,
        word=wait_words.DECISION_WORDS[vote.kind].lower(),
        at=time_view(vote.at),
        reason=vote.reason or "",
        title=title or "",
        values=decided_values(vote),
    )


def argument_views(
    wait: Wait,
    before: Mapping[str, object] | None = None,
    *,
    now: datetime | None = None,
) -> tuple[ArgumentView, ...]:
    """Return all arguments of a wait.

    Args:
        wait: The wait. For an edit, its arguments are those of the edit.
        before: The arguments before the edit, by their names.
        now: The time of the report; by default the time at which the wait was opened.

    Returns:
        One view for each argument, the required ones first.
    """
    wait = withheld(wait)
    arguments, readings = wait.arguments, wait.readings
    old_readings = _readings_of(wait, before or {})
    secrets = wait_words.secret_names(wait)
    views: list[ArgumentView] = []
    for name in wait_words.required_first(wait.schema, arguments):
        value = arguments[name]
        declared = wait_words.declared_property(wait.schema, name)
        description = declared.get("description")
        default = declared.get("default", _MISSING)
        view = ArgumentView(
            name=name,
            description=description if isinstance(description, str) else "",
            json=jsontext.dump(value),
            places=_places(name, readings),
            is_secret=name in secrets,
            is_default=default == value and type(default) is type(value),
            is_past=is_past(value, now or wait.created_at),
            change=""
            if before is None
            else _change(name, value, before, _places(name, old_readings)),
        )
        views.append(view)
    return tuple(views)


def is_past(value: object, now: datetime) -> bool:
    """Return whether a text is a day or a time in the past, as ISO 8601 writes it."""
    if not isinstance(value, str) or not _DAY.match(value[:10]):
        return False
    try:
        moment = datetime.fromisoformat(value)
        if _DAY.match(value):
            moment += timedelta(days=1)
    except (ValueError, OverflowError):
        return False
    return (moment if moment.tzinfo else moment.replace(tzinfo=_LATEST_ZONE)) <= now


def _readings_of(wait: Wait, arguments: Mapping[str, object]) -> Mapping[str, str]:
    if wait.display is None:
        return {}
    return wait.display.readings(arguments, wait.schema)


def _places(name: str, readings: Mapping[str, str]) -> dict[str, str]:
    """Return the readings of an argument, and of the values in it."""
    inside = (f"{name}.", f"{name}[")
    return {
        place: text
        for place, text in readings.items()
        if place == name or place.startswith(inside)
    }


def _change(
    name: str,
    value: object,
    before: Mapping[str, object],
    readings: Mapping[str, str],
) -> str:
    """Return the change by an edit, in words: `changed, was €12.50 (1250)`."""
    if name not in before:
        return "added by you"
    old = before[name]
    if jsontext.canonical(value) == jsontext.canonical(old):
        return ""
    texts = [
        text if place == name else f"{place}: {text}"
        for place, text in readings.items()
    ]
    raw = jsontext.dump(old)
    return (
        f"changed, was {', '.join(texts)} ({raw})" if texts else f"changed, was {raw}"
    )


def value_text(text: str) -> str:
    """Return a JSON text as people read it: whole, a text without quotes if possible.

    A text keeps its quotes if it is empty, looks like another JSON value, begins or
    ends with a space, or contains a backslash or an invisible character.
    """
    value = jsontext.parse(text)
    if isinstance(value, str) and _needs_no_quotes(value):
        return value
    return indented_json(text)


def _needs_no_quotes(text: str) -> bool:
    lines = text.split("\n")
    if not text or text != text.strip() or "\\" in text:
        return False
    if any(escape_invisible(line) != line for line in lines):
        return False
    try:
        jsontext.parse(text)
    except jsontext.NotJson:
        return True
    return False


# Red, and amber.
_NEXT_HOUR, _NEXT_DAY = timedelta(hours=1), timedelta(days=1)
_MAX_FACT_CHARS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTexts:
    """The texts of a wait in the inbox, which do not depend on the time.

    Attributes:
        title: The effect, as one sentence.
        facts: Two or three facts.
        then: The consequence of the deadline, or an empty text.
    """

    title: str
    facts: tuple[str, ...]
    then: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """One wait of the inbox.

    Attributes:
        wait_id: Id of the wait.
        kind: Its icon and word.
        title: The effect, as one sentence.
        facts: Two or three facts.
        due: The time that is left, or that there is no deadline.
        urgency: `soon` for less than an hour, `today` for less than a day, or "".
        then: The consequence of the deadline.
    """

    wait_id: str
    kind: KindWords
    title: str
    facts: tuple[str, ...]
    due: str | TimeView
    urgency: str
    then: str


def row_texts(wait: Wait) -> RowTexts:
    """Return the texts of a wait with all its arguments and schemas."""
    wait = withheld(wait)
    choices = _count_choices(wait)
    facts = (f"choose 1 of {choices}", *_facts(wait)) if choices else _facts(wait)
    return RowTexts(title=wait_words.title(wait), facts=facts, then=_then(wait))


def inbox_row(
    wait: Wait,
    texts: RowTexts,
    now: datetime,
    *,
    run_title: str | None = None,
    labels: Iterable[tuple[str, str]] = (),
) -> InboxRow:
    """Return the view of a row of the inbox.

    Args:
        wait: The wait. Its arguments and schemas are not needed.
        texts: Its texts.
        now: The time of the report.
        run_title: The title of its run, a fact that tells like waits apart.
        labels: The labels of its run. The first ones are facts.
    """
    left = None if wait.deadline is None else wait.deadline - now
    shown = [f"{name}={value}" for name, value in islice(labels, _SHOWN_LABELS)]
    return InboxRow(
        wait_id=wait.id,
        kind=wait.rules.words,
        title=texts.title,
        facts=(*filter(None, (run_title,)), *texts.facts, *shown),
        due=left_view(wait.deadline, now) if wait.deadline else left_text(None),
        urgency=urgency(left),
        then=texts.then,
    )


def damaged_row(wait_id: str, kind: KindWords) -> InboxRow:
    """Return the row of a wait whose object cannot be read."""
    return InboxRow(
        wait_id=wait_id,
        kind=kind,
        title="This wait cannot be read",
        facts=("its page says why", wait_id),
        due="deadline unknown",
        urgency="",
        then="",
    )


_SHOWN_LABELS = 3


def urgency(left: timedelta | None) -> str:
    """Return the class of the time that is left until a deadline."""
    if left is None or left >= _NEXT_DAY:
        return ""
    return "soon" if left < _NEXT_HOUR else "today"


def searched_text(wait: Wait, texts: RowTexts) -> str:
    """Return the text in which a search of the inbox looks for words."""
    people = (wait.requester or "", *wait.approvers)
    kind = wait.rules.words.word
    return search_text(
        (texts.title, *texts.facts, kind, *wait.path, wait.tool, wait.id, *people)
    )


def _count_choices(wait: Wait) -> int:
    """Return from how many answers a person chooses; 0 for any answer."""
    schema = wait.answer_schema if wait.rules.asks_question else None
    choices = jsontext.as_array((schema or {}).get("enum"))
    return len(choices or ())


def _facts(wait: Wait) -> tuple[str, ...]:
    facts: list[str] = []
    if wait.note:
        facts.append(wait.note)
    if wait.votes_needed > 1:
        voted = len({vote.by for vote in wait.votes if vote.kind != "deny"})
        count = f"{wait.votes_needed} votes needed"
        facts.append(f"{voted} of {wait.votes_needed} votes" if voted else count)
    edited = [vote.by for vote in wait.votes if vote.arguments is not None]
    if edited:
        facts.append(f"edited by {edited[-1]}")
    if wait.requester:
        facts.append(f"asked by {wait.requester}")
    facts.append(" \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} ".join(wait.path))
    return tuple(_short(each) for each in facts)


def _short(fact: str) -> str:
    """Return a fact for a list; the page of the wait has it whole."""
    return fact if len(fact) <= _MAX_FACT_CHARS else f"{fact[: _MAX_FACT_CHARS - 1]}…"


def _then(wait: Wait) -> str:
    """Return the consequence of the deadline; the page of the wait has it whole."""
    if wait.deadline is None:
        return "the run waits" if wait.rules.may_have_run else ""
    return _short(f"then {wait_words.at_deadline_in_short(wait)}")
