"""A plugin of pytest: every error of the library that a test meets has a good text.

`<what failed>: <why>. <what to do next>.` A test in which the library or a store makes
an error with another text fails, also if the error is caught again. Errors that a test
makes itself are not checked, and errors in other processes are not seen.

Set ERROR_SITES to a file to have the places that made errors written there.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import continuations_storage
from continuations import errors
from continuations_storage import StorageError

MAX_WORDS = 60
MAX_WORD_LENGTH = 160
_BAD_BEGINNING = re.compile(r"(What|Who|Whoever|It|Of)\b")
_NEXT_STEP = re.compile(r"[.?!;][\"'`)]?\s|:\s+\S+\s+\S+|\bmust\b|\bneeds?\b")
_ODD_WORDS = re.compile(
    r"\b(is none|are none|desk|door|wish|([oi]f|for|in) it(?=[.:;]))"
)
_OF_PYTHON = re.compile(r"\bKeyError\(|\bbotocore\.")
# A name or a value of the application, which may be long or odd.
_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)")
_FOLDERS = {
    str(Path(package.__file__).parent): Path(package.__file__).parents[1]
    for package in (errors, continuations_storage)
    if package.__file__
}

# Functions whose errors end with a list, a command, or a text that is not ours.
FREE_ENDS = {
    "continuations/ledger/objects.py:_translation_of": "the text of a client",
    "continuations/models/chat_errors.py:model_error": "the command that installs",
    "continuations/models/fallback.py:_error_of": "the texts of all providers",
    "continuations/wire/envelope.py:_to_msgpack": "the text of msgpack",
    "continuations_storage/probe.py:ProofOfVersions.check": "of a client",
    "continuations_storage/retries.py:AttemptFailed.to_storage_error": "of a client",
    "continuations_storage/retries.py:create_with_retries": "likewise",
}
# Functions whose errors are a part of another text, or have the text of a provider.
PARTS = {
    "continuations/models/fallback.py:Fallback.reply": "the text of a provider",
    "continuations/serve/aws/lambda_events.py:_body": "the detail of a problem",
    "continuations/serve/aws/lambda_events.py:_parse_request": "likewise",
    "continuations/serve/aws/lambda_events.py:_require_text": "likewise",
}


def faults_of_text(text: str, *, is_free: bool = False) -> Iterator[str]:
    """Go through everything that is wrong with the text of an error.

    Args:
        text: The text.
        is_free: Whether the text is a list or a report, or ends with a command or a
            text of the application: no full stop ends it, and it may be long.
    """
    text = text.strip()
    if not text.endswith(".") and not is_free:
        yield "it does not end with a full stop"
    if _BAD_BEGINNING.match(text):
        yield f"it begins with {text.split(maxsplit=1)[0]!r}"
    if _NEXT_STEP.search(text) is None:
        yield "it has no second sentence, so it does not say what to do next"
    # An id, a path or a line of JSON is one word.
    words = text.split()
    if len(words) > MAX_WORDS and not is_free:
        yield f"it has {len(words)} words, more than {MAX_WORDS}"
    if any(len(word) > MAX_WORD_LENGTH for word in words):
        yield f"it has a word of more than {MAX_WORD_LENGTH} letters"
    for pattern in (_ODD_WORDS, _OF_PYTHON):
        if odd := pattern.search(text):
            yield f"it says {odd[0]!r}"


class Texts:
    """The errors that the library made since the end of the last test."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.sites: set[str] = set()
        self._of_stores: dict[tuple[str, str], StorageError] = {}

    def note(self, error: BaseException, frame: FrameType | None) -> None:
        """Check the text of an error that was just made."""
        maker = _maker(error, frame)
        if maker is None:
            return
        site, line = maker
        self.sites.add(f"{site}:{line}")
        if site in PARTS:
            return
        if isinstance(error, StorageError):
            # Its text has a place and an operation, which the store adds later.
            self._of_stores.setdefault((site, error.detail), error)
        else:
            self._check(site, error, str(error.args[0]) if error.args else "")

    def _check(self, site: str, error: BaseException, text: str) -> None:
        text = _QUOTED.sub("''", text)
        for fault in faults_of_text(text, is_free=site in FREE_ENDS):
            self.faults.append(f"{site} {type(error).__name__} {text!r}: {fault}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Fail a test in which the library made an error with a wrong text."""
        self.faults.clear()
        self._of_stores.clear()
        result = yield
        for (site, _), error in self._of_stores.items():
            self._check(site, error, str(error).replace(f" in {error.place}", ""))
        if self.faults:
            pytest.fail("\n".join(dict.fromkeys(self.faults)), pytrace=False)
        return result

    def pytest_sessionfinish(self) -> None:
        """Write the places that made errors."""
        if path := os.environ.get("ERROR_SITES"):
            with Path(path).open("a", encoding="utf-8") as file:
                file.writelines(f"{site}\n" for site in sorted(self.sites))


def _maker(error: BaseException, frame: FrameType | None) -> tuple[str, int] | None:
    """Return the function of the library that made an error, and the line, or None."""
    while frame is not None and frame.f_locals.get("self") is error:
        frame = frame.f_back
    if frame is None:
        return None
    code = frame.f_code
    for folder, root in _FOLDERS.items():
        if code.co_filename.startswith(folder + os.sep):
            path = code.co_filename[len(str(root)) + 1 :]
            return f"{path}:{code.co_qualname}", frame.f_lineno
    return None


def watch() -> Texts:
    """Have every error of the library checked when it is made."""
    texts = Texts()
    for base in (errors.ContinuationsError, StorageError):
        _watch(base, texts)
    return texts


def _watch(base: Any, texts: Texts) -> None:
    original: Any = base.__init__

    def init(self: BaseException, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        texts.note(self, inspect.currentframe())

    base.__init__ = init
