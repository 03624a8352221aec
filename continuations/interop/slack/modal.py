"""The modal that shows a wait, with the inputs of one person.

Nothing is cut: a wait that Slack would refuse has a link to its page instead of inputs.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import (
    ActionsBlock,
    ButtonElement,
    InputBlock,
    Option,
    PlainTextInputElement,
    RadioButtonsElement,
)
from slack_sdk.models.views import View

from continuations.interop.slack.inputs import (
    CHOICE,
    INPUT,
    MAX_INPUT_CHARS,
    REASON,
    Origin,
    ascii_json,
    form_inputs,
)
from continuations.interop.slack.message_blocks import (
    DoesNotFit,
    as_json,
    context,
    facts,
    heading,
    headline,
    plain,
    section,
    size,
)
from continuations.serve.pages.decision_view import form_view
from continuations.serve.wait_texts import escape_invisible, wait_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from slack_sdk.models.blocks import Block

    from continuations import Wait
    from continuations.serve.pages.decision_view import Decider, FormView

# The ids of the modal and of the button that opens a page.
DECIDE, OPEN_PAGE = "continuations_decide", "continuations_page"
# Not documented: from about 13,200 characters on, the answer is `msg_blocks_too_long`.
_MAX_TOTAL = 13_000
_MAX_LABEL = 75
_TOO_LARGE = (
    "This call does not fit into Slack, and a part of it is not enough to decide. "
)


def text_modal(title: str, *texts: str) -> dict[str, Any]:
    """Return a modal without inputs. A text that does not fit is left out."""
    blocks = [section(title)]
    for text in filter(None, texts):
        with suppress(DoesNotFit):
            blocks.append(section(text))
    return as_json(_modal(blocks))


def _modal(blocks: Sequence[Block], **options: Any) -> View:
    return View(
        type="modal",
        callback_id=DECIDE,
        title=plain("Review"),
        close=plain("Close"),
        blocks=blocks,
        **options,
    )


def review_modal(
    wait: Wait,
    decider: Decider,
    *,
    now: datetime,
    origin: Origin,
    link: Callable[[], str] | None,
    bar: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the modal that shows a wait, with the inputs of one person.

    Args:
        wait: The open wait, with its votes.
        decider: The verdicts that the person may give.
        now: The time.
        origin: The message that the modal belongs to.
        link: Returns the page of the wait, for content that does not fit; or `None`.
        bar: Sentences above the wait, for example an error.
    """
    forms = [
        form_view(wait, verdict, decider, now)
        for verdict in wait.rules.verdicts
        if verdict in decider.verdicts
        and not (verdict == "answer" and wait.rules.follows_policy)
    ]
    closed = [form.closed_until for form in forms if form.closed_until]
    forms = [form for form in forms if not form.closed_until]
    try:
        inputs, names = form_inputs(forms)
        content = [*_content(wait, decider, bar), *map(section, closed)]
        options: dict[str, Any] = {}
        if forms:
            content += [*_choices(forms), *inputs, _reason_input()]
            options["submit"] = plain("Submit")
            options["private_metadata"] = _metadata(wait, origin, names)
        view = as_json(_modal(content, **options))
    except (DoesNotFit, SlackObjectFormationError):
        return _too_large(wait, decider, link)
    if size(json.dumps(view, ensure_ascii=False)) > _MAX_TOTAL:
        return _too_large(wait, decider, link)
    return view


def _too_large(
    wait: Wait, decider: Decider, link: Callable[[], str] | None
) -> dict[str, Any]:
    """Return the modal of a wait that does not fit: a link, and nothing to submit."""
    blocks = [heading(headline(wait, with_title=True))]
    if decider.objection:
        blocks.append(section(decider.objection))
    if link is None:
        blocks.append(section(f"{_TOO_LARGE}Decide it in the console."))
    else:
        blocks.append(section(f"{_TOO_LARGE}Read and decide it on its page."))
        button = ButtonElement(text=plain("Open"), action_id=OPEN_PAGE, url=link())
        blocks.append(ActionsBlock(elements=[button]))
    return as_json(_modal(blocks))


def _metadata(wait: Wait, origin: Origin, names: Sequence[Sequence[str]]) -> str:
    shown = {
        "wait": wait.id,
        "shown": wait.digest,
        "origin": origin,
        "names": names,
    }
    return ascii_json(json.dumps(shown, separators=(",", ":")))


def _content(wait: Wait, decider: Decider, bar: Sequence[str]) -> list[Block]:
    """Return everything that an approver must read, in the order of the pages."""
    view = wait_view(wait, everybody="all who can review this message")
    blocks = [section(text) for text in bar]
    blocks += [heading(view.title), *context(view.lead)]
    blocks += context(view.truth, view.reversal, *facts(wait))
    blocks += context(f"{view.kind.arguments} {view.tool}, {view.count}")
    for argument in view.arguments:
        notes = "; ".join((*argument.readings, *argument.marks))
        is_plain = argument.name and argument.name == argument.name.strip()
        name = argument.name if is_plain else json.dumps(argument.name)
        blocks += context(name, notes, argument.description)
        blocks.append(section(argument.value))
    for fact in view.facts:
        blocks += context(f"Result of {fact.label}")
        blocks.append(section(fact.text or '""'))
    if view.agent_words:
        blocks += context("The agent wrote, not checked:")
        blocks.append(section(view.agent_words))
    blocks += context(view.note, view.rule, view.rule_text, view.votes_missing)
    for vote in view.votes:
        blocks += context(f"{vote.by}: {vote.word}", vote.title, vote.reason)
        blocks += [section(f"{name}:\n{text}") for name, text in vote.values.items()]
    if view.deadline is not None:
        text = f"{view.deadline_label} {view.deadline.text}"
        blocks += context(f"{text}, then: {view.at_deadline}")
    facts_of = {**view.origin, "Path": " > ".join(view.path), **view.details}
    blocks += context(" · ".join(f"{name}: {text}" for name, text in facts_of.items()))
    if decider.own_vote is not None:
        blocks.append(section("Your vote is recorded and cannot be changed."))
    return [*blocks, *map(section, filter(None, [decider.objection]))]


def _choices(forms: Sequence[FormView]) -> Iterator[Block]:
    """Yield what each decision means, and the choice. Nothing is chosen before."""
    options: list[Option] = []
    for form in forms:
        label = form.label if size(escape_invisible(form.label)) <= _MAX_LABEL else ""
        label = label or form.verdict.capitalize()
        words = f"{form.heading[1]}. " if form.heading else ""
        yield from context(f"{label}: {words}{form.claim} {form.warning}".strip())
        options.append(Option(text=plain(label, _MAX_LABEL), value=form.verdict))
    yield InputBlock(
        label=plain("Your decision"),
        block_id=CHOICE,
        element=RadioButtonsElement(action_id=INPUT, options=options),
    )


def _reason_input() -> Block:
    return InputBlock(
        label=plain("Reason"),
        hint=plain("The agent reads the reason of a denial."),
        block_id=REASON,
        optional=True,
        element=PlainTextInputElement(
            action_id=INPUT, multiline=True, max_length=MAX_INPUT_CHARS
        ),
    )
