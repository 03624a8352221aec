"""HTML pages for signed links, without scripts, images or external resources.

A page shows text from models and tools. All text is HTML-escaped, and invisible
characters are shown as escapes, so a call cannot forge its own page. Arguments are
shown whole, never shortened.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from continuations.core.waits import TEXT_SCHEMA
from continuations.core.withheld_waits import withheld
from continuations.present.escaping import escape_invisible
from continuations.present.json_forms import indented_json
from continuations.present.wait_parts import (
    MASK_NOTE,
    finding_source,
    finding_text,
    wait_parts,
)
from continuations.present.wait_text import DECISION_WORDS, votes_text
from continuations.serve.http.page_style import STYLE, STYLE_HASH
from continuations.serve.http.request_response import NO_STORE_HEADERS, Response
from continuations.wire.fields import readable_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from continuations.core.decisions import Decision, VerdictKind
    from continuations.core.evidence import Finding
    from continuations.core.quorum import Vote
    from continuations.core.waits import Wait
    from continuations.present.wait_parts import ArgumentPart
    from continuations.serve.http.problems import Problem

_HEADERS: Mapping[str, str] = {
    **NO_STORE_HEADERS,
    "content-type": "text/html; charset=utf-8",
    # default-src does not cover base-uri, form-action and frame-ancestors.
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex, nofollow",
}

_ERROR_FIELD = (
    '<label>Error<textarea name="error" maxlength="4000" rows="2"></textarea></label>'
)
_REASON_FIELD = (
    '<label>Reason (optional)<textarea name="reason" '
    'maxlength="4000" rows="2"></textarea></label>'
)


def decision_form(
    wait: Wait, verdict_kinds: Iterable[VerdictKind], objection: str | None = None
) -> Response:
    """Return the page that shows a wait, with one form for each kind of decision.

    `objection` says why there is no form.
    """
    parts = wait_parts(wait)
    origin = {
        label: fact
        for label, fact in parts.origin.items()
        if label != "Wait" and fact != parts.sentence
    }
    # The form shows the type of an answer.
    follows = {k: v for k, v in parts.consequences.items() if k != "Answer"}
    details = _facts_html({"Wait": wait.id, "Digest": wait.digest})
    body = "".join(
        (
            f'<header><p class="kind">{escape(wait.kind.capitalize())}</p>',
            f"<h1>{_html_text(parts.heading)}</h1>",
            _if_any('<p class="lead">{}</p>', parts.sentence),
            f"<p>{escape(parts.explanation)}",
            _if_any(" <b>{}</b>", parts.effect),
            "</p></header>",
            _section("Origin", _facts_html(origin)),
            _section(
                f"All arguments of <code>{_html_text(wait.tool)}</code>",
                _arguments_html(parts.arguments),
            ),
            _section("Results of earlier calls", _evidence_html(parts.evidence)),
            _section(
                "In the agent's words, not checked",
                _if_any("<blockquote><p>{}</p></blockquote>", parts.agent_words),
            ),
            _section("Deadline and consequences", _facts_html(follows)),
            _if_any('<p class="notice">{}</p>', objection),
            *(_form_html(wait, kind) for kind in verdict_kinds),
            f"<details><summary>Details and all arguments as JSON</summary>{details}",
            f"{_json_html(withheld(wait).arguments_json)}</details>",
        )
    )
    return _page(200, parts.heading, body)


def decision_recorded(decision: Decision, *, woken: bool) -> Response:
    """Return the page after a decision, also after the same decision again."""
    text = "The run continues." if woken else "The run continues with the next sweep."
    html = _decision_html(decision)
    return _titled_page(200, "Your decision is recorded", text, html)


def vote_recorded(
    vote: Vote, wait: Wait | None = None, verdict_kinds: Iterable[VerdictKind] = ()
) -> Response:
    """Return the page after a vote that did not end the wait, also later.

    It has a form for each kind of decision that the voter may still make.
    """
    text = (
        f"This wait has {votes_text(vote)} for this decision. It is open until the "
        "others have voted, and nothing runs before."
    )
    forms = "" if wait is None else "".join(_form_html(wait, k) for k in verdict_kinds)
    rule = (
        "Your vote cannot be changed. You can still end the wait, so that nothing runs:"
        if forms
        else "Your vote cannot be changed."
    )
    title = None if wait is None else wait_parts(wait).heading
    html = f"{_decision_html(vote, title)}<p>{rule}</p>{forms}"
    return _titled_page(200, "Your vote is recorded", text, html)


def already_decided(decision: Decision, *, status: int = 200) -> Response:
    """Return the page that shows an earlier decision."""
    text = (
        "This call was decided before. The decision below is recorded and cannot be "
        "changed."
    )
    return _titled_page(status, "Already decided", text, _decision_html(decision))


def wait_ended(title: str, text: str, *, status: int = 200) -> Response:
    """Return the page of a wait that ended without a person's decision."""
    return _titled_page(status, title, text)


def problem_page(problem: Problem) -> Response:
    """Return a problem as a page."""
    text = problem.detail or "Nothing was changed."
    page = wait_ended(problem.type.title, text, status=problem.type.status)
    headers = {**page.headers, **problem.headers}
    return Response(status=page.status, headers=headers, body=page.body)


def _decision_html(decision: Decision | Vote, title: str | None = None) -> str:
    voters = getattr(decision, "voters", ())
    facts = {
        "About": title,
        "Decision": DECISION_WORDS[decision.kind],
        "By": ", ".join(voters) or decision.by,
        "At": readable_time(decision.at),
        "Reason": decision.reason,
        "Wait": decision.wait_id,
    }
    edited, value, form = decision.arguments, decision.value, decision.form
    return "".join(
        (
            f"<section>{_facts_html(facts)}</section>",
            _section("Edited arguments", "" if edited is None else _json_html(edited)),
            _section("Answer", "" if value is None else _json_html(value)),
            _section("Form", "" if form is None else _json_html(form)),
        )
    )


def _form_html(wait: Wait, verdict_kind: VerdictKind) -> str:
    words = wait.rules.verdicts[verdict_kind]
    explanation = words.meaning
    if verdict_kind == "deny" and wait.denial_stops:
        explanation = "The call does not run, and the run stops."
    fields = _ERROR_FIELD if verdict_kind == "fail" else ""
    if verdict_kind == "approve" and wait.form_schema is not None:
        fields = _typed_fields(wait.form_schema, "Form")
    if verdict_kind == "answer":
        fields = _answer_fields(wait, words.value_label)
    # A form without an action posts to its own URL, under every mount prefix.
    return (
        '<form method="post">'
        f'<input type="hidden" name="decision" value="{verdict_kind}">'
        f'<input type="hidden" name="shown" value="{_html_text(wait.digest)}">'
        f"<p>{escape(explanation)}</p>{fields}{_REASON_FIELD}"
        f'<p><button class="{verdict_kind}">{escape(words.label)}</button></p></form>'
    )


def _answer_fields(wait: Wait, label: str) -> str:
    if wait.answer_schema is None or wait.answer_schema_json == TEXT_SCHEMA:
        return (
            f'<label>{escape(label)}<textarea name="value" maxlength="4000" '
            'rows="3"></textarea></label>'
        )
    return _typed_fields(wait.answer_schema, label)


def _typed_fields(schema: Mapping[str, object], label: str) -> str:
    from continuations.serve.http import answer_forms  # noqa: PLC0415 - few types

    fields = answer_forms.fields_html(schema, label)
    return f'<input type="hidden" name="as" value="fields">{fields}'


def _facts_html(facts: Mapping[str, str | None]) -> str:
    return _rows_html(
        (label, fact) for label, fact in facts.items() if fact is not None
    )


def _rows_html(rows: Iterable[tuple[str, str]]) -> str:
    html = "".join(
        f"<dt>{_html_text(label)}</dt><dd>{_html_text(text)}</dd>"
        for label, text in rows
    )
    return f"<dl>{html}</dl>" if html else ""


def _arguments_html(arguments: Iterable[ArgumentPart]) -> str:
    """Return a table with a row for each argument, none of them shortened."""
    rows = "".join(map(_argument_html, arguments))
    return f"<table><tbody>{rows}</tbody></table>" if rows else ""


def _argument_html(argument: ArgumentPart) -> str:
    readings = "".join(
        f"<b>{_html_text(text if place == argument.name else f'{place}: {text}')}</b>"
        for place, text in argument.readings.items()
    )
    tags = [MASK_NOTE] if argument.is_secret else []
    tags += ["default"] if argument.is_default else []
    marks = "".join(f' <span class="tag">{tag}</span>' for tag in tags)
    described = _if_any("<span>{}</span>", argument.description)
    value = "\n".join(map(_html_text, indented_json(argument.value).split("\n")))
    return (
        f'<tr><th scope="row"><code>{_html_text(argument.name)}</code>{described}</th>'
        f"<td>{readings}<code>{value}</code>{marks}</td></tr>"
    )


def _evidence_html(evidence: Iterable[Finding]) -> str:
    return _rows_html((finding_source(each), finding_text(each)) for each in evidence)


def _section(title: str, body: str) -> str:
    """Return a section; nothing if its body is empty. The title is HTML."""
    return f"<section><h2>{title}</h2>{body}</section>" if body else ""


def _if_any(html: str, text: str | None) -> str:
    return "" if text is None else html.format(_html_text(text))


def _json_html(text: str) -> str:
    lines = "\n".join(map(_html_text, indented_json(text).split("\n")))
    return f"<pre>{lines}</pre>"


def _html_text(text: str) -> str:
    return escape(escape_invisible(text))


def _titled_page(status: int, title: str, text: str, body: str = "") -> Response:
    words = f"<h1>{_html_text(title)}</h1><p>{_html_text(text)}</p>"
    return _page(status, title, f"<header>{words}</header>{body}")


def _page(status: int, title: str, body: str) -> Response:
    html = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{_html_text(title)}</title><style>{STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>"
    )
    return Response(status=status, headers=_HEADERS, body=html)
