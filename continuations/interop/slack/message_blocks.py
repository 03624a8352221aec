"""Messages about a wait, and texts within the limits of Slack.

Foreign text is `plain_text` without emoji, and its invisible characters are escapes. So
it is no mention and no link, and it cannot imitate another block. Nothing is cut.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from slack_sdk.models.blocks import (
    ActionsBlock,
    ButtonElement,
    ContextBlock,
    HeaderBlock,
    MarkdownTextObject,
    PlainTextObject,
    SectionBlock,
)

from continuations.serve.notify.notifier import DecisionNotice
from continuations.serve.wait_texts import (
    DECISION_WORDS,
    escape_invisible,
    question,
    title_of,
    wait_view,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from slack_sdk.models.blocks import Block

    from continuations import Wait
    from continuations.results import Decision
    from continuations.serve.wait_texts import WaitView

# How a wait ends without a decision of a person.
ENDINGS = {
    "expire": "Expired: the deadline passed before anyone decided.",
    "cancel": "Closed: the run was cancelled, has failed or was changed.",
    "erase": "Closed: the run was erased.",
}
# The ids by which the handler knows the button, and the first line.
REVIEW, HEADLINE = "continuations_review", "headline"
_MAX_SECTION, _MAX_HEADER, _MAX_CONTEXT = 3000, 150, 2000


class DoesNotFit(Exception):
    """Slack would refuse the content."""


class Message(NamedTuple):
    """A message: the text of its notification, and its blocks."""

    text: str
    blocks: list[dict[str, Any]]


# Texts ----------------------------------------------------------------------------


def plain(text: str, limit: int = _MAX_SECTION) -> PlainTextObject:
    """Return a text on one line, as it is; raise `DoesNotFit` if it is too long.

    A blank text does not fit either: Slack refuses it.
    """
    return _plain_text(escape_invisible(text), limit)


def _plain_text(shown: str, limit: int) -> PlainTextObject:
    if not shown.strip() or size(shown) > limit:
        raise DoesNotFit
    return PlainTextObject(text=escaped(shown), emoji=False)


def escaped(text: str) -> str:
    """Return a text with the three characters escaped that Slack decodes."""
    return escape(text, quote=False)


def size(text: str) -> int:
    """Return the most that Slack may count: UTF-16 units, with `&amp;` for `&`."""
    return len(escaped(text).encode("utf-16-le")) // 2


def as_json(shown: Any) -> dict[str, Any]:
    """Return a block or modal as JSON values; raises if it exceeds a limit."""
    form: dict[str, Any] = shown.to_dict()
    return form


def section(text: str) -> Block:
    """Return a paragraph, which keeps its lines."""
    lines = map(escape_invisible, text.split("\n"))
    return SectionBlock(text=_plain_text("\n".join(lines), _MAX_SECTION))


def context(*texts: str) -> Iterator[Block]:
    """Yield a line in small letters of the texts that are not empty."""
    elements = [plain(text, _MAX_CONTEXT) for text in texts if text]
    if elements:
        yield ContextBlock(elements=elements)


def heading(text: str) -> Block:
    """Return the first line of a message or modal."""
    if size(escape_invisible(text)) <= _MAX_HEADER:
        return HeaderBlock(text=plain(text), block_id=HEADLINE)
    return SectionBlock(text=plain(text), block_id=HEADLINE)


# Messages -------------------------------------------------------------------------


def headline(wait: Wait, *, with_title: bool) -> str:
    """Return the first line of a message about a wait, whole."""
    texts = (title_of(wait), question(wait)) if with_title else (question(wait),)
    for text in texts:
        if text and size(escape_invisible(text)) <= _MAX_SECTION:
            return text
    return "A call waits for you"


def open_message(wait: Wait, *, with_title: bool) -> Message:
    """Return the message about an open wait: its title, deadline and button."""
    view, title = wait_view(wait), headline(wait, with_title=with_title)
    notice = wait.notice.partition("-")[0]
    label = {"escalated": "Escalated to you.", "reminder": "Reminder."}.get(notice, "")
    button = ButtonElement(
        text=plain("Review"), action_id=REVIEW, value=wait.id, style="primary"
    )
    blocks = [
        heading(title),
        *context(label, *facts(wait), view.reversal),
        *_deadline(wait, view),
        ActionsBlock(elements=[button]),
    ]
    return _message(f"{title} Run {wait.run_id} waits for you.", blocks)


def facts(wait: Wait) -> tuple[str, str]:
    """Return who asked, and the run."""
    requester = f"Requested by {wait.requester}" if wait.requester else ""
    return requester, f"Run {wait.run_id}"


def _deadline(wait: Wait, view: WaitView) -> Iterator[Block]:
    """Yield the deadline in the time zone of the reader."""
    if wait.deadline is None or view.deadline is None:
        return
    seconds = int(wait.deadline.timestamp())
    form = "{date_short_pretty} {time}"
    when = f"<!date^{seconds}^{form}|{view.deadline.text}>"
    text = MarkdownTextObject(text=f"{view.deadline_label} {when}", verbatim=True)
    yield ContextBlock(elements=[text])


def ended_message(title: str, run_id: str, ending: str) -> Message:
    """Return the message about a wait that has ended: no button, and who decided."""
    blocks = [heading(title), *context(f"Run {run_id}"), section(ending)]
    return _message(f"{title} {ending}", blocks)


def _message(text: str, blocks: Iterable[Block]) -> Message:
    # The text is mrkdwn: an escaped text is no mention.
    shown = escaped(escape_invisible(text))
    return Message(shown, [as_json(block) for block in blocks])


def ending_text(ended: Decision | DecisionNotice) -> str:
    """Return who decided what, in one sentence."""
    if ended.kind is None:
        return "Closed: no decision is needed any more."
    if ended.kind in ENDINGS:
        return ENDINGS[ended.kind]
    if isinstance(ended, DecisionNotice):
        edited = ended.edited
    else:
        edited = ended.arguments is not None
    rule = f"the rule {ended.rule}" if ended.rule else ""
    who = ", ".join(ended.voters) or rule or ended.by or "a program"
    changed = ", with changed arguments" if edited else ""
    return f"{DECISION_WORDS[ended.kind]} by {who}{changed}."
