"""A page shows all of a call, and no call can forge a page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html import unescape
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core.decisions import Decision, DecisionKind
from continuations.core.jsontext import dump
from continuations.core.waits import WaitKind
from continuations.serve import pages, problems
from continuations.serve.links import FITTING
from tests.ledger.machine import MOMENT
from tests.ledger.runs import a_wait

TEXTS = st.text(st.characters(codec=None, exclude_categories=()))
EVIL = [
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


def shown_arguments(body: str) -> Any:
    """Return the arguments that a page shows, as a browser would."""
    [text] = re.findall("<pre>(.*?)</pre>", body, re.DOTALL)
    return json.loads(unescape(text))


def test_no_page_may_be_kept_framed_scripted_or_posted_elsewhere() -> None:
    """R-G1: a plain page, and nothing from afar."""
    page = pages.confirm(a_wait(), ["approve", "deny"])

    [style] = re.findall("<style>(.*?)</style>", page.body)
    hashed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert (
        f"default-src 'none'; style-src 'sha256-{hashed}'; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ) == page.headers["content-security-policy"]
    assert "no-store" == page.headers["cache-control"]
    assert "no-referrer" == page.headers["referrer-policy"]
    assert "nosniff" == page.headers["x-content-type-options"]
    assert "text/html; charset=utf-8" == page.headers["content-type"]
    for word in ("<script", "src=", "href=", "style=", "onload", "http:", "https:"):
        assert word not in page.body


def test_a_wait_is_shown_with_all_that_it_says() -> None:
    wait = replace(
        a_wait(deadline=MOMENT),
        note="look twice",
        policy="large sums",
        denial_stops=True,
    )

    body = pages.confirm(wait, ["deny"]).body

    for fact in ("transfer", "hr &gt; transfer", "jane-1", wait.id, "look twice"):
        assert fact in body
    assert "large sums" in body
    assert "the run is stopped" in body
    assert "Decide until" in body
    assert "Approve" not in body


@pytest.mark.parametrize("evil", EVIL)
def test_a_call_cannot_write_on_its_own_card(evil: str) -> None:
    """R-C3: escaped, and what cannot be seen is made visible."""
    wait = replace(
        a_wait(),
        arguments_json=dump({evil: evil}),
        tool=evil,
        path=(evil, evil),
        note=evil,
        policy=evil,
    )
    harmless = pages.confirm(a_wait(), ["approve", "deny"]).body

    body = pages.confirm(wait, ["approve", "deny"]).body

    assert {evil: evil} == shown_arguments(body)
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
def test_all_of_the_arguments_are_shown_and_nothing_hides(
    arguments: dict[str, Any],
) -> None:
    """R-C3: complete, however strange."""
    wait = replace(a_wait(), arguments_json=dump(arguments))

    body = pages.confirm(wait, ["approve"]).body

    assert arguments == shown_arguments(body)
    assert all(char.isprintable() or char == "\n" for char in body)


def test_long_arguments_are_not_cut() -> None:
    """R-C3: never a hidden part."""
    wait = replace(a_wait(), arguments_json=dump({"code": "x" * 300_000 + "rm -rf"}))

    assert "rm -rf" in pages.confirm(wait, ["approve"]).body


def test_arguments_that_are_nested_to_the_limit_are_shown() -> None:
    deep: Any = 1
    for _ in range(198):
        deep = [deep]
    wait = replace(a_wait(), arguments_json=dump({"a": deep}))

    assert {"a": deep} == shown_arguments(pages.confirm(wait, ["approve"]).body)


@pytest.mark.parametrize("evil", EVIL)
def test_a_decision_cannot_write_on_its_page_either(evil: str) -> None:
    decision = Decision(
        id="x",
        wait_id=a_wait().id,
        kind="approve",
        at=MOMENT,
        digest="d",
        by=evil,
        reason=evil,
        arguments=dump({"a": evil}),
    )

    for page in (pages.decided(decision), pages.recorded(decision, woken=True)):
        assert "<form" not in page.body
        assert "<script" not in page.body
        assert {"a": evil} == shown_arguments(page.body)
        assert all(char.isprintable() or char == "\n" for char in page.body)


def test_a_problem_is_told_to_people_with_its_headers() -> None:
    problem = replace(
        problems.plain("internal"), detail="<b>", headers={"retry-after": "5"}
    )

    page = pages.trouble(problem)

    assert (500, "5") == (page.status, page.headers["retry-after"])
    assert "&lt;b&gt;" in page.body
    assert "no-store" == page.headers["cache-control"]


def test_every_kind_of_wait_and_every_end_has_its_words() -> None:
    kinds: tuple[WaitKind, ...] = get_args(WaitKind)
    for kind in kinds:
        wait = replace(a_wait(), kind=kind)
        assert len(FITTING[kind]) == pages.confirm(wait, FITTING[kind]).body.count(
            "<button>"
        )
    ends: tuple[DecisionKind, ...] = get_args(DecisionKind)
    for end in ends:
        stands = Decision(id="x", wait_id="w", kind=end, at=MOMENT, digest="d")
        assert "Decision</dt>" in pages.decided(stands).body
