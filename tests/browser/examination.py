"""The questions of `examination.md`, and the screenshots that go with them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from tests.browser import chromium
from tests.browser.wait_scenes import run_console

FILE = Path(__file__).with_name("examination.md")


class Question(NamedTuple):
    """One question about the page of one wait.

    Attributes:
        wait: Name of the scene.
        text: The question.
        answer: The right answer.
        words: Words on the page that give the answer.
    """

    wait: str
    text: str
    answer: str
    words: str


def questions() -> list[Question]:
    """Return all questions in their order."""
    rows = [
        line.strip("|").split("|")
        for line in FILE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ")
    ]
    return [Question(*(cell.strip() for cell in row)) for row in rows[1:]]


def make_screenshots(folder: Path) -> None:
    """Write a screenshot of each wait, and the questions without their answers."""
    folder.mkdir(parents=True, exist_ok=True)
    with run_console() as scenes, chromium.run_browser() as browser:
        tab = browser.new_page(viewport=chromium.DESKTOP)
        for name, path in scenes.examined().items():
            tab.goto(scenes.base_url + path)
            tab.screenshot(path=folder / f"{name}.png", full_page=True)
    asked = questions()
    lines = [f"{n}. {each.wait}.png: {each.text}" for n, each in enumerate(asked, 1)]
    text = "Answer each question from its picture alone.\n\n" + "\n".join(lines) + "\n"
    (folder / "questions.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    make_screenshots(Path(sys.argv[1]))
