"""A page shows a whole call, and no call can forge its page."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.cli.formatting import decision_text
from continuations.core.jsontext import dump
from continuations.core.rows.decisions import Decision, DecisionKind
from continuations.core.rows.wait_rules import WaitKind
from continuations.core.visible_text import escape_invisible
from continuations.present.problems import INTERNAL_ERROR
from continuations.serve.http import link_pages, problems
from tests.ledger.fake_clock import MOMENT
from tests.ledger.runs import make_wait
from tests.serve.pages.wait_html import page_of, shown_json, wait_html

TEXTS = st.text(st.characters(codec=None, exclude_categories=()))
HOSTILE_TEXTS = [
    "<script>alert(1)</script>",
    "</pre><form method=post><input name=decision value=approve>",
    '"><img src=x onerror=alert(1)>',
    "&lt;script&gt;",
    "\u202eevorppa\u2066",
    "a\u200bb\ufeff\u00ad",
    "\x00\x1b[2J\x7f",
    "\ud800",
    "]]>--><!--",
]


def decision_of(kind: DecisionKind, **fields: Any) -> Decision:
    """Return a decision of `make_wait()`."""
    wait_id = make_wait().id
    return Decision(id="x", wait_id=wait_id, kind=kind, at=MOMENT, digest="d", **fields)


@given(TEXTS.filter(bool))
def test_text_of_a_short_page_is_escaped_as_by_the_standard_library(text: str) -> None:
    decision = decision_of("deny", reason=text)

    page = link_pages.already_decided(decision).body

    assert f"<dd>{html.escape(escape_invisible(text))}</dd>" in page


def test_page_headers_forbid_caching_framing_and_scripts() -> None:
    """A page has no scripts and loads nothing."""
    page = page_of(make_wait(), ["approve", "deny"])

    [style] = re.findall("<style>(.*?)</style>", page.body, re.DOTALL)
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert (
        f"default-src 'none'; style-src 'sha256-{hashed}'; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ) == page.headers["content-security-policy"]
    assert "no-store" == page.headers["cache-control"]
    assert "no-referrer" == page.headers["referrer-policy"]
    assert "nosniff" == page.headers["x-content-type-options"]
    assert "text/html; charset=utf-8" == page.headers["content-type"]
    for word in ("<script", "src=", "<link", " style=", "onload", "http:", "https:"):
        assert word not in page.body
    assert all(each[0] == "#" for each in re.findall('href="(.*?)"', page.body))


def test_page_shows_every_field_of_a_wait() -> None:
    wait = replace(
        make_wait(deadline=MOMENT),
        note="new account",
        policy="large sums",
        denial_stops=True,
    )

    body = wait_html(wait, ["deny"])

    for fact in ("<code>transfer</code>", "jane-1", wait.id, "new account"):
        assert fact in body
    assert "<code>hr</code><i>\u203a</i><code>transfer</code>" in body
    assert "<code>large sums</code>" in body
    assert body.count("The call does not run, and the run stops.") == 1
    assert "Deny: the run stops</button>" in body
    assert "The agent gets your reason" not in body
    assert "Decide by" in body
    assert 'value="approve"' not in body


@pytest.mark.parametrize("hostile_text", HOSTILE_TEXTS)
def test_hostile_wait_text_is_escaped(hostile_text: str) -> None:
    """HTML is escaped, and invisible characters are shown as escapes."""
    wait = replace(
        make_wait(),
        arguments_json=dump({hostile_text: hostile_text}),
        tool=hostile_text,
        path=(hostile_text, hostile_text),
        note=hostile_text,
        policy=hostile_text,
    )
    harmless = wait_html(make_wait(), ["approve", "deny"])

    body = wait_html(wait, ["approve", "deny"])

    assert {hostile_text: hostile_text} == shown_json(body)
    assert harmless.count("<form") == body.count("<form")
    assert harmless.count("<input") == body.count("<input")
    assert "<script" not in body
    assert "<img" not in body
    assert all(char.isprintable() or char == "\n" for char in body)
    body.encode()


@settings(deadline=None)
@given(
    st.dictionaries(
        TEXTS,
        st.recursive(
            TEXTS | st.integers() | st.booleans() | st.none(),
            lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
            max_leaves=8,
        ),
    )
)
def test_page_shows_arbitrary_arguments_completely(arguments: dict[str, Any]) -> None:
    wait = replace(make_wait(), arguments_json=dump(arguments))

    body = wait_html(wait, ["approve"])

    assert arguments == shown_json(body)
    assert all(char.isprintable() or char == "\n" for char in body)


def test_long_arguments_are_shown_whole() -> None:
    wait = replace(make_wait(), arguments_json=dump({"code": "x" * 300_000 + "rm -rf"}))

    assert "rm -rf" in wait_html(wait, ["approve"])


def test_arguments_that_are_nested_to_the_limit_are_shown() -> None:
    deep: Any = 1
    for _ in range(198):
        deep = [deep]
    wait = replace(make_wait(), arguments_json=dump({"a": deep}))

    assert {"a": deep} == shown_json(wait_html(wait, ["approve"]))


@pytest.mark.parametrize("hostile_text", HOSTILE_TEXTS)
def test_hostile_decision_text_is_escaped(hostile_text: str) -> None:
    decision = decision_of(
        "approve",
        by=hostile_text,
        reason=hostile_text,
        arguments=dump({"a": hostile_text}),
    )

    for page in (
        link_pages.already_decided(decision),
        link_pages.decision_recorded(decision, woken=True),
    ):
        assert "<form" not in page.body
        assert "<script" not in page.body
        assert {"a": hostile_text} == shown_json(page.body, "Edited arguments")
        assert all(char.isprintable() or char == "\n" for char in page.body)


def test_page_of_a_decision_names_the_rule_that_made_it() -> None:
    """On the page, and on the command line; a reason without text has no row."""
    decision = decision_of(
        "approve",
        reason="",
        rule="small payments",
    )

    page = link_pages.already_decided(decision).body
    assert "<dt>By</dt><dd>the rule small payments</dd>" in page
    assert "Reason" not in page
    assert decision_text(decision).startswith("approved by the rule small payments at")


@pytest.mark.parametrize("hostile_text", HOSTILE_TEXTS)
def test_recorded_answer_is_shown_and_escaped(hostile_text: str) -> None:
    decision = decision_of(
        "answer",
        by="kim",
        value=dump({"a": hostile_text}),
    )

    page = link_pages.already_decided(decision)

    assert "<h2>Answer</h2>" in page.body
    assert {"a": hostile_text} == shown_json(page.body, "Answer")
    assert all(char.isprintable() or char == "\n" for char in page.body)


def test_problem_page_has_the_status_and_headers() -> None:
    problem = problems.Problem(
        type=INTERNAL_ERROR, detail="<b>", headers={"retry-after": "5"}
    )

    page = link_pages.problem_page(problem)

    assert (500, "5") == (page.status, page.headers["retry-after"])
    assert "&lt;b&gt;" in page.body
    assert "no-store" == page.headers["cache-control"]


def test_every_wait_kind_and_decision_kind_has_a_page() -> None:
    kinds: tuple[WaitKind, ...] = get_args(WaitKind)
    for kind in kinds:
        wait = replace(make_wait(), kind=kind)
        page = page_of(wait, wait.rules.verdicts)
        assert len(wait.rules.verdicts) == page.body.count("<button ")
    ends: tuple[DecisionKind, ...] = get_args(DecisionKind)
    for end in ends:
        decision = decision_of(end)
        assert "Decision</dt>" in link_pages.already_decided(decision).body


def test_path_of_a_thousand_levels_is_shown_whole() -> None:
    path = tuple(f"agent-{number}" for number in range(1000))

    body = wait_html(replace(make_wait(), path=path), ["approve", "deny"])

    assert path == tuple(re.findall(r"<code>(agent-\d+)</code>", body))


def test_text_of_several_lines_keeps_its_lines() -> None:
    """A text that could mislead keeps its quotes."""
    arguments = {
        "body": "Dear Jane,\n<b>pay</b>\n",
        "plain": "one\ntwo",
        "number": "1240000",
        "empty": "",
        "path": "C:\\new",
        "none": None,
    }
    wait = replace(make_wait(), arguments_json=dump(arguments))

    body = wait_html(wait, [])
    pattern = r'<(code|span) class="value">(.*?)</\1>'
    cells = [each[1] for each in re.findall(pattern, body, re.DOTALL)]

    assert [
        "&#34;Dear Jane,\\n&lt;b&gt;pay&lt;/b&gt;\\n&#34;",
        "one\ntwo",
        "&#34;1240000&#34;",
        "&#34;&#34;",
        "&#34;C:\\\\new&#34;",
        "null",
    ] == cells
