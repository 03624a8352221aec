"""The words for people about a wait, the same on every page, terminal and mail.

Words that depend on the kind alone are columns of `core.wait_rules.WAIT_RULES`. Texts
of models and tools are returned as they are: escape them where they are shown.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from continuations.core import jsontext
from continuations.core.rows.decisions import Answer, Decision, Deny, Escalate, Fail
from continuations.core.rows.quorum import GROUP_PREFIX, Vote
from continuations.core.rows.wait_rules import WAIT_RULES, WaitKind
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from continuations.core.reading.notices import DecisionNotice
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.core.words.call_display import Finding
    from continuations.ledger.index.waits_without_object import RunsAwaitingModels

DECISION_WORDS: Mapping[str, str] = {
    "approve": "Approved",
    "deny": "Denied",
    "answer": "Answered",
    "fail": "Failed",
    "expire": "Expired",
    "cancel": "Cancelled",
}

REPEATS = "If the first call did take effect, its effect then happens twice."
MASK_NOTE = "secret, not shown"
EVERYBODY = "all who can open this page"


def decision_word(wait_id: str, kind: str) -> str:
    """Return a decision in one word, or in the words of its button.

    "Denied" does not say what happened to a call whose outcome was unknown.
    """
    rules = WAIT_RULES.get(cast("WaitKind", wait_id.partition("-")[0]))
    if rules is not None and rules.may_have_run:
        for verdict, words in rules.verdicts.items():
            if verdict == kind:
                return words.label
    return DECISION_WORDS[kind]


def decider_text(decided: Decision | Vote | DecisionNotice) -> str:
    """Return who decided: all voters, a rule or one name; "" for none."""
    rule = getattr(decided, "rule", None)
    voters = ", ".join(getattr(decided, "voters", ()))
    return voters or (f"the rule {rule}" if rule else decided.by or "")


# What is asked --------------------------------------------------------------------


def title(wait: Wait) -> str:
    """Return the effect in one sentence: the title of the page."""
    rules = wait.rules
    if rules.may_have_run:
        return f"{effect(wait, ' with')}: did it happen?"
    if rules.asks_question and wait.question:
        return wait.question
    if wait.title is not None and not rules.judges:
        return wait.title
    return effect(wait) if rules.follows_policy else question(wait)


# A title that the tool does not make has so many arguments, if they are short.
_MADE_ARGUMENTS, _MADE_CHARS = 3, 40
# A number, an id, an address: what a person compares with another system.
_MARKED = re.compile(r"[0-9@/]")


def has_made_title(wait: Wait) -> bool:
    """Return whether the title is made here, because the tool has no summary."""
    rules = wait.rules
    return wait.title is None and (rules.follows_policy or rules.may_have_run)


def effect(wait: Wait, before_values: str = ":") -> str:
    """Return the call in one sentence: `Run deploy: checkout, production, 12`."""
    if wait.title is not None:
        return wait.title
    values = _made_values(wait)
    name = f"Run {wait.tool}"
    return f"{name}{before_values} {values}" if values else name


def _made_values(wait: Wait) -> str:
    """Return the arguments that matter most, and how many more there are.

    These are amounts, then numbers, ids and addresses, then other short texts.
    """
    short = _short_values(wait)
    short = {name: text for name, text in short.items() if _matters(wait, name)}
    names = sorted(short, key=lambda name: _rank(wait, name, short[name]))
    # Those that are chosen stand in the order of the declaration.
    shown = [short[name] for name in short if name in names[:_MADE_ARGUMENTS]]
    more = sum(map(partial(_matters, wait), wait.arguments)) - len(shown)
    if shown and more > 0:
        shown.append(f"and {more} more argument{'' if more == 1 else 's'}")
    return ", ".join(shown)


def _matters(wait: Wait, name: str) -> bool:
    """Return whether an argument says something: no empty value, and no default."""
    value, declared = wait.arguments[name], declared_property(wait.schema, name)
    is_default = "default" in declared and declared["default"] == value
    return not (is_default or value in ("", None, [], {}))


def _rank(wait: Wait, name: str, text: str) -> int:
    if name in wait.readings:
        return 0
    return 1 if _MARKED.search(text) else 2


def _short_values(wait: Wait) -> dict[str, str]:
    """Return the short values of a call that are not secret, in their order."""
    arguments, readings, secrets = wait.arguments, wait.readings, secret_names(wait)
    texts = {
        name: readings.get(name) or (value if isinstance(value, str) else f"{value}")
        for name in required_first(wait.schema, arguments)
        if name not in secrets
        and isinstance(value := arguments[name], (str, int, float))
        and type(value) is not bool
    }
    return {
        name: text
        for name, text in texts.items()
        if len(text) <= _MADE_CHARS and text.isprintable() and text.strip()
    }


def secret_names(wait: Wait) -> set[str]:
    """Return the names of the arguments that people must not read, or a part of."""
    return {path.partition("/")[0] for path in wait.secrets}


def required_first(
    schema: Mapping[str, Any] | None, names: Collection[str]
) -> list[str]:
    """Return names of properties, those that a schema requires in its order first.

    Stored objects have sorted names, and `required` has the order of the declaration.
    """
    required = jsontext.as_array((schema or {}).get("required")) or ()
    return [*dict.fromkeys(name for name in (*required, *names) if name in names)]


def declared_property(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the schema of a property; empty if it is not declared."""
    properties = jsontext.as_object(schema.get("properties")) or {}
    return jsontext.as_object(properties.get(name)) or {}


def question(wait: Wait) -> str:
    """Return the question that the kind of the wait asks, with its tool or agent."""
    return wait.rules.question.format(tool=wait.tool)


def lead(wait: Wait) -> str:
    """Return a further sentence below the title, or an empty text."""
    return (wait.title if wait.rules.asks_question else wait.question) or ""


def truth(wait: Wait) -> str:
    """Return whether the call can run more than once, below the title."""
    text = wait.rules.truth or wait.rules.explanation
    if not wait.rules.follows_policy or wait.votes_needed == 1:
        return text
    return f"{text.removesuffix('.')}, after {wait.votes_needed} votes."


def effect_text(wait: Wait) -> str | None:
    """Return whether the effect can be undone, in words; `None`: the tool is silent."""
    if wait.reversible is None:
        return None
    can = "can" if wait.reversible else "cannot"
    return f"The effect {can} be undone."


def reversal(wait: Wait) -> str:
    """Return whether the effect can be undone, or an empty text for other kinds."""
    if wait.reversible is None and wait.rules.follows_policy:
        return "The tool does not say that it can be undone: treat it as final."
    return effect_text(wait) or ""


def finding_text(finding: Finding) -> str:
    """Return the text of a result, with its length if it is cut."""
    if not finding.is_cut:
        return finding.text
    return f"{finding.text}… ({finding.length:,} characters)"


def agent_state(state: RunState, wait: Wait) -> str:
    """Return the stored state of the agent that waits, as JSON; empty without one."""
    call = state.calls.get(wait.call_id)
    frame = state.frames.get(wait.frame_id if call is None else call.frame_id)
    return "" if frame is None else frame.state_json


# What follows ---------------------------------------------------------------------


def at_denial(wait: Wait) -> str:
    """Return the consequence of a denial, or an empty text."""
    words = wait.rules.verdicts.get("deny")
    if words is None or wait.rules.may_have_run:
        return ""
    if wait.denial_stops:
        return "The call does not run, and the run stops."
    return words.meaning


def at_deadline(wait: Wait) -> str:
    """Return the consequence of the deadline, after the word "then"."""
    if wait.expiry_stops:
        return "expired, nothing runs, and the run stops"
    match wait.on_deadline or wait.rules.on_deadline:
        case Answer(value=value):
            quoted = f'"{value}"'
            if not isinstance(value, str):
                quoted = _answer_text(value, wait.answer_schema)
            return f"the answer is {quoted}"
        case Fail(error=error):
            return f"the call fails: {error}"
        case Deny(reason=reason):
            text = wait.rules.denied_at_deadline
            return f"{text}: {reason}" if reason else text
        case Escalate(to=to):
            others = ", ".join(map(_asked, to))
            return f"nothing runs, and other people are asked: {others}"
        case None:
            return wait.rules.expired


def at_deadline_in_short(wait: Wait) -> str:
    """Return the consequence of the deadline in a few words, after the word "then"."""
    if wait.expiry_stops:
        return "the run stops"
    match wait.on_deadline or wait.rules.on_deadline:
        case Answer(value=value):
            return f"the answer is {_answer_text(value)}"
        case Fail(error=error):
            return f"fails: {error}"
        case Deny(reason=reason):
            return f"{wait.rules.denied}: {reason}" if reason else wait.rules.denied
        case Escalate(to=to):
            return f"asks {', '.join(name.removeprefix(GROUP_PREFIX) for name in to)}"
        case None:
            return "expires"


def _answer_text(value: object, schema: Mapping[str, Any] | None = None) -> str:
    """Return an answer as people read it: the required fields of its schema first."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    fields = jsontext.as_object(value)
    if fields is None:
        return jsontext.dump(value)
    return ", ".join(
        f"{name.replace('_', ' ')}: {_answer_text(fields[name])}"
        for name in required_first(schema, fields)
    )


def rule_text(wait: Wait, everybody: str = EVERYBODY) -> str:
    """Return the rule that asks, without its name: who decides, and how many.

    Args:
        wait: The wait.
        everybody: The words for all people of a door, where the rule names no person.
    """
    quorum = wait.quorum
    if quorum is None or not wait.rules.asks_person:
        return ""
    people, count = [_asked(each) for each in quorum.approvers], wait.votes_needed
    is_group = quorum.approvers[:1] and quorum.approvers[0].startswith(GROUP_PREFIX)
    if len(people) == 1 and (count > 1 or is_group):
        who = quorum.approvers[0].removeprefix(GROUP_PREFIX)
        number = f"{_number(count)} {'person' if count == 1 else 'people'}"
        text = f"{number} of {who} {'decides' if count == 1 else 'must agree'}."
    elif len(people) == 1:
        text = f"Only {people[0]} may decide."
    elif count > 1:
        text = f"{_number(count)} of {_listed(people, 'and') or everybody} must agree."
    else:
        text = f"One of {_listed(people, 'or') or everybody} decides."
    agreed = [vote.by for vote in _votes_as_shown(wait)]
    if count > 1 and agreed:
        text += f" {_listed(agreed, 'and')} {'has' if len(agreed) == 1 else 'have'}."
    if quorum.not_requester:
        text += f" The requester ({quorum.excluded_text}) may not decide."
    return text


_NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six")


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else f"{count:,}"


def _listed(names: list[str], word: str) -> str:
    """Return names as people list them: `kim, lee and ruth`."""
    if len(names) < 2:  # noqa: PLR2004 - a list has two names
        return "".join(names)
    return f"{', '.join(names[:-1])} {word} {names[-1]}"


def _asked(approver: str) -> str:
    """Return an approver in words: a person, or the people of a group."""
    if approver.startswith(GROUP_PREFIX):
        return f"the people of {approver.removeprefix(GROUP_PREFIX)}"
    return approver


# Facts with a label ---------------------------------------------------------------


def wait_facts(wait: Wait) -> dict[str, str]:
    """Return what a person needs to know about a wait, except its arguments.

    The keys are labels in the order of the page of a wait. A fact that does not apply
    is left out.
    """
    parts = (asked_facts, reason_facts, consequence_facts, origin_facts)
    return {label: fact for part in parts for label, fact in part(wait).items()}


# Facts that a page shows in other places than its list of facts.
_SHOWN_ELSEWHERE = frozenset(
    {"Question", "Tool", "Agent", "Path", "Wait", "Opened"}
    | {
        "Decide by",
        "Answer by",
        "At the latest",
        "Until",
        "Next attempt",
        "Votes",
        "Answer",
        "Form",
    }
    | {"If denied", "Then", "Approvers", "May not decide", "Approve after"}
)


def page_facts(wait: Wait) -> dict[str, str]:
    """Return the facts that have no place of their own on the page of a wait."""
    facts = {**asked_facts(wait), **origin_facts(wait), **consequence_facts(wait)}
    return {k: text for k, text in facts.items() if k not in _SHOWN_ELSEWHERE}


def asked_facts(wait: Wait) -> dict[str, str]:
    """Return the question, or the event that the wait is for, and who asked."""
    return _known(
        {
            wait.rules.question_label: wait.question,
            "Event": wait.event,
            "Key": wait.event_key,
            "Requested by": wait.requester,
        }
    )


def reason_facts(wait: Wait) -> dict[str, str]:
    """Return why the call waits, beside the results of earlier calls."""
    return _known({wait.rules.policy_label: wait.policy, "Note": wait.note})


def origin_facts(wait: Wait) -> dict[str, str]:
    """Return where the call comes from."""
    return _known(
        {
            "Tool" if wait.subject == "call" else "Agent": wait.tool,
            "Path": " > ".join(wait.path),
            "Run": wait.run_id,
            "Wait": wait.id,
            "Opened": readable_time(wait.created_at),
        }
    )


def consequence_facts(wait: Wait) -> dict[str, str]:
    """Return until when a wait can be decided, by whom, and what follows."""
    return _known(
        {
            wait.rules.deadline_label: None
            if wait.deadline is None
            else readable_time(wait.deadline),
            "Then": None if wait.deadline is None else at_deadline(wait),
            "Approve after": None
            if wait.approve_after is None
            else readable_time(wait.approve_after),
            "Approval valid for": None
            if wait.valid_for is None
            else f"{wait.valid_for} s",
            "If denied": "the run stops" if wait.denial_stops else None,
            "Editable": _editable(wait),
            "Form": _form(wait),
            "Approvers": ", ".join(wait.approvers) or None,
            "May not decide": _excluded(wait),
            "Votes": _votes(wait),
            "Answer": _answer_type(wait),
        }
    )


def _known(facts: Mapping[str, str | None]) -> dict[str, str]:
    return {label: fact for label, fact in facts.items() if fact is not None}


def _editable(wait: Wait) -> str | None:
    return None if wait.editable is None else ", ".join(wait.editable) or "nothing"


def _form(wait: Wait) -> str | None:
    """Return the fields of the form that an approval needs."""
    if wait.form_schema_json is None:
        return None
    return "; ".join(each.text for each in form_fields(wait)) or "no fields"


def _excluded(wait: Wait) -> str | None:
    """Return who may not decide."""
    if wait.quorum is None or not wait.quorum.not_requester:
        return None
    return f"the requester ({wait.quorum.excluded_text})"


def _votes(wait: Wait) -> str | None:
    """Return the votes so far, and how many are needed; `None` for a single decider."""
    if wait.votes_needed == 1 and not wait.votes:
        return None
    voted = "; ".join(_vote_text(wait, vote) for vote in wait.votes)
    count = f"{wait.votes_needed} needed"
    return f"{voted}; {count}" if voted else count


def _vote_text(wait: Wait, vote: Vote) -> str:
    edited = (
        "" if vote.arguments is None else f" with {_edit_text(wait, vote.arguments)}"
    )
    value = "" if vote.value is None else f" {vote.value}"
    form = "" if vote.form is None else f" with the form {vote.form}"
    return f"{vote.by}: {vote.kind}{value}{edited}{form}"


def _edit_text(wait: Wait, arguments: str) -> str:
    """Return edited arguments, whole, with the title that they give."""
    display = wait.display
    title = display and display.title_of(jsontext.parse(arguments))
    shown = f"edited arguments {arguments}"
    return f"{shown} ({title})" if title else shown


def votes_text(vote: Vote) -> str:
    """Return how far a wait is after a vote: `1 of 2 votes`."""
    count = vote.votes_needed - vote.still_needed
    return f"{count} of {vote.votes_needed} votes"


def votes_missing(wait: Wait) -> str:
    """Return how many votes are missing, or an empty text for a single decider."""
    if wait.votes_needed == 1:
        return ""
    if not wait.rules.follows_policy:
        return f"{wait.votes_needed} equal votes are needed."
    return f"{more_votes(count_missing(wait))} needed for the call as shown."


def count_missing(wait: Wait) -> int:
    """Return how many further persons must approve the call as it is shown."""
    return wait.votes_needed - len(_votes_as_shown(wait))


def _votes_as_shown(wait: Wait) -> list[Vote]:
    """Return the votes that approve the call as it is shown."""
    return [
        vote
        for vote in wait.votes
        if (vote.kind, vote.arguments, vote.form) == ("approve", None, None)
    ]


def more_votes(count: int) -> str:
    """Return a count of votes with its verb: `2 more votes are`."""
    return "1 more vote is" if count == 1 else f"{count} more votes are"


def _answer_type(wait: Wait) -> str | None:
    """Return the JSON type of the answer, unless it is a text."""
    name = wait.answer_type_name
    return None if name in (None, "string") else f"JSON of type {name}"


# The fields of a form -------------------------------------------------------------

_DEFINITIONS = "#/$defs/"


class FormField(NamedTuple):
    """One field of a form.

    Attributes:
        name: Its name.
        type: The JSON type of its value, or the values that it may have.
        required: Whether it must be filled in.
        description: Text of the application about it, or `None`.
    """

    name: str
    type: str
    required: bool
    description: str | None

    @property
    def text(self) -> str:
        """The field in one line: `limit: integer, required`."""
        need = "required" if self.required else "optional"
        text = f"{self.name}: {self.type}, {need}"
        return f"{text}. {self.description}" if self.description else text


def form_fields(wait: Wait) -> tuple[FormField, ...]:
    """Return the fields of the form that an approval needs, the required ones first."""
    return schema_fields(wait.form_schema or {})


def schema_fields(schema: dict[str, Any]) -> tuple[FormField, ...]:
    """Return the fields of an object with this schema, the required ones first."""
    properties = jsontext.as_object(schema.get("properties")) or {}
    required = jsontext.as_array(schema.get("required")) or ()
    return tuple(
        _field(name, schema, required=name in required)
        for name in required_first(schema, properties)
    )


def _field(name: str, schema: dict[str, Any], *, required: bool) -> FormField:
    own = declared_property(schema, name)
    description = own.get("description")
    return FormField(
        name=name,
        type=_type_text(own, schema),
        required=required,
        description=description if isinstance(description, str) else None,
    )


def _type_text(shape: Any, schema: dict[str, Any], *, may_refer: bool = True) -> str:
    """Return what a value may be, in short; the schema itself says it whole."""
    values = jsontext.as_array(shape.get("enum"))
    if values:
        return "one of " + ", ".join(map(jsontext.canonical, values))
    options = jsontext.as_array(shape.get("anyOf"))
    if options:
        shapes = [jsontext.as_object(option) or {} for option in options]
        texts = [_type_text(each, schema, may_refer=may_refer) for each in shapes]
        return " or ".join(texts)
    reference = shape.get("$ref")
    if may_refer and isinstance(reference, str) and reference.startswith(_DEFINITIONS):
        definitions = jsontext.as_object(schema.get("$defs")) or {}
        named = definitions.get(reference.removeprefix(_DEFINITIONS))
        return _type_text(jsontext.as_object(named) or {}, schema, may_refer=False)
    kind, style = shape.get("type"), shape.get("format")
    if not isinstance(kind, str):
        return "any value"
    return f"{kind} ({style})" if isinstance(style, str) else kind


# Runs that wait for their models --------------------------------------------------


def awaiting_models_line(found: RunsAwaitingModels) -> str:
    """Return how many runs wait for their models, with the command that shows why."""
    from continuations.present.times import counted  # noqa: PLC0415 - not to decide

    count = len(found.run_ids)
    if not count:
        return ""
    words = "waits for its model" if count == 1 else "wait for their models"
    least = "At least " if found.has_more else ""
    sentence = f"{least}{counted(count, 'run')} {words}"
    return f"{sentence}. `continuations show {found.run_ids[0]}` shows why."
