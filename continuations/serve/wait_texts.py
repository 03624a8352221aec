"""The view of a wait, and the words of its decision, for doors of your own.

    from continuations.serve.wait_texts import wait_view

    view = wait_view(await runner.wait(wait_id))
    lines = [view.title, *(f"{each.name}: {each.value}" for each in view.arguments)]

Secret values are masked. Texts of models, tools and people are as they are: pass each
line to `escape_invisible` before it is shown.
"""

from __future__ import annotations

from continuations.core.visible_text import escape_invisible
from continuations.present.times import plain_text
from continuations.present.wait_view import ArgumentView, WaitView, wait_view
from continuations.present.wait_words import DECISION_WORDS, decider_text, question
from continuations.present.wait_words import title as title_of

__all__ = [
    "DECISION_WORDS",
    "ArgumentView",
    "WaitView",
    "decider_text",
    "escape_invisible",
    "plain_text",
    "question",
    "title_of",
    "wait_view",
]
