"""The page of a wait for a person who may give some verdicts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from html import unescape
from typing import Any

from continuations import Wait
from continuations.core.rows.decisions import VerdictKind
from continuations.serve.http.link_pages import wait_page
from continuations.serve.http.request_response import Response
from continuations.serve.pages import environment
from continuations.serve.pages.decision_view import Decider
from continuations.serve.pages.form_view import FormFields
from tests.ledger.fake_clock import MOMENT


def page_of(
    wait: Wait, verdicts: Iterable[VerdictKind], objection: str = ""
) -> Response:
    return wait_page(
        wait, Decider(verdicts=tuple(verdicts), objection=objection), MOMENT
    )


def wait_html(wait: Wait, verdicts: Iterable[VerdictKind], objection: str = "") -> str:
    """Return the HTML text of the page."""
    return page_of(wait, verdicts, objection).body


def shown_json(body: str, label: str = "All arguments as JSON") -> Any:
    """Return the JSON that a page shows below a heading."""
    block = f"<h[23]>{label}</h[23]>.*?<pre[^>]*>(.*?)</pre>"
    [text] = re.findall(block, body, re.DOTALL)
    # A long text of a page without an address stands in chunks.
    return json.loads(unescape(re.sub("</?span[^>]*>", "", text)))


def fields_html(schema: Mapping[str, Any], label: str, **given: Any) -> str:
    """Return the fields of a form, filled with `value` if it is given."""
    value = {name: given.pop(name) for name in ("value",) if name in given}
    template: Any = environment.environment().get_template("fields.html")
    fields = FormFields(schema=schema, **given).fields(label, **value)
    return "".join(str(template.module.field(each)) for each in fields)
