"""Check English in pages, docstrings, comments and error messages.

Usage: `python tools/check_prose.py [--count] [PATH ...]`. Without a path, the whole
project is checked. The rules are listed in CONTRIBUTING.md. Justified exceptions are in
`tools/prose_exceptions.toml`; at most 20 are allowed, and each must still be needed.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[1]
EXCEPTIONS = Path(__file__).with_name("prose_exceptions.toml")
MAX_EXCEPTIONS = 20
MAX_WORDS = 30

# Words that hide a common term behind a private or literary one.
BANNED_WORDS = {
    "desk": "HTTP API",
    "workshop": "worker factory",
    "glance": "overview",
    "told": "notified, returned, said",
    "heard": "received",
    "mend": "repair",
    "mends": "repairs",
    "mended": "repaired",
    "mending": "repairing",
    "whoever": "the process that, the person who",
    "whomever": "the person who",
    "somebody": "a person, another process",
    "anybody": "any person, any process",
    "nobody": "no person, no process",
    "lest": "so that ... does not",
    "thereby": "so",
    "therein": "in it",
    "hence": "therefore",
    "whence": "from which",
    "thrice": "three times",
    "deed": "effect",
    "deeds": "effects",
    "weather": "fault schedule",
}
BANNED_PHRASES = {
    r"\bfor ever\b": "write: forever, or a limit",
    r"\bof one's own\b": "write: its own, your own",
    r"\bby the way\b": "remove it",
    r"\ball the same\b": "write: anyway, or remove it",
    r"\bdearest\b": "write: most expensive",
    r"\bin vain\b": "write: without effect",
}
_START = re.compile(r"(What|Who|Whoever|Whatever|Whom|Of)\b(?!\.)")
_END = re.compile(r"\b(of it|for it|is none|are none|has none|by it alone)[.!]?$")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+(?=[\"'(\[`*_]*[A-Z0-9`])")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|no|approx|Inc|St)\.\s")
_WORD = re.compile(r"\b[A-Za-z][A-Za-z'-]*\b")
_ITEM = re.compile(r"^\s*([-*+]|\d+[.)])\s+")
_FIELD = re.compile(r"^\s*[*\w.,`\[\]| ]{1,60}( \([^)]*\))?:(\s|$)")
# A command has the section "Arguments and options".
_SECTION = re.compile(
    r"(Args|Arguments and options|Returns|Raises|Yields|Attributes|Example|Examples|"
    r"Note|Warning):"
)
_PRAGMA = re.compile(
    r"#\s*(noqa|type:|pyright:|ruff:|mypy:|pragma|!|fmt:|-{3,}|={3,}|--8<--)"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence that breaks a rule."""

    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        """Return `path:line: rule: sentence`, as compilers print errors."""
        return f"{self.path}:{self.line}: {self.rule}: {self.text[:160]}"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Some lines of prose without markup; `heading` marks a title."""

    line: int
    text: str
    heading: bool = False


# Markdown -------------------------------------------------------------------


def markdown_paragraphs(text: str, first_line: int = 1) -> Iterator[Paragraph]:
    """Yield the paragraphs, list items, table cells and headings of a page."""
    fence = ""
    block: list[str] = []
    start = first_line
    for number, line in enumerate(text.split("\n"), first_line):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if fence:
            fence = "" if mark and line.strip() == fence else fence
            continue
        ends_block = not line.strip() or mark or _ITEM.match(line)
        is_table = line.lstrip().startswith("|")
        is_heading = re.match(r"\s*(#{1,6}|===|!!!|\?\?\?|>)\s", line) is not None
        if block and (ends_block or is_table or is_heading):
            yield Paragraph(start, " ".join(block))
            block = []
        if mark:
            fence = mark[1]
        elif is_table:
            cells = [] if set(line) <= set("|-: ") else line.split("|")
            yield from (Paragraph(number, cell) for cell in cells if cell.strip())
        elif is_heading:
            yield Paragraph(number, line.strip().lstrip("#>!=? "), heading=True)
        elif line.strip() and not re.match(r"\s*(:::|<|--8<--|\[.*\]:)", line):
            if not block:
                start = number
            block.append(_ITEM.sub("", line).strip())
    if block:
        yield Paragraph(start, " ".join(block))


# Python ---------------------------------------------------------------------


def python_paragraphs(path: Path) -> Iterator[Paragraph]:
    """Yield the prose of docstrings and comments of a module."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if not isinstance(node, kinds) or not node.body:
            continue
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            text = first.value.value
            if isinstance(text, str):
                yield from docstring_paragraphs(text, first.lineno)
    yield from comment_paragraphs(path)


def docstring_paragraphs(text: str, first_line: int) -> Iterator[Paragraph]:
    """Yield the paragraphs of a docstring; indented blocks are code or fields."""
    lines = text.split("\n")
    margins = [len(x) - len(x.lstrip()) for x in lines[1:] if x.strip()]
    margin = min(margins, default=0)
    block: list[str] = []
    start = first_line
    section = code = False
    for number, line in enumerate(lines, first_line):
        indent = len(line) - len(line.lstrip()) if number > first_line else margin
        stripped = line.strip()
        if not section and indent >= margin + 4 and stripped and (code or not block):
            code = True
            continue
        code = code and not stripped
        names_section = _SECTION.fullmatch(stripped)
        new_item = _ITEM.match(line) or (section and _FIELD.match(line))
        if block and (not stripped or names_section or new_item):
            yield Paragraph(start, " ".join(block))
            block = []
        if names_section:
            section = not stripped.startswith("Example")
        elif section and indent <= margin and stripped:
            section = False
        if stripped and not names_section and not stripped.startswith("|"):
            if not block:
                start = number
            item = _FIELD.sub("", line) if section else line
            block.append(_ITEM.sub("", item).strip())
    if block:
        yield Paragraph(start, " ".join(block))


def comment_paragraphs(path: Path) -> Iterator[Paragraph]:
    """Yield comments; adjacent comment lines are one paragraph."""
    block: list[str] = []
    start = last = 0
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type != tokenize.COMMENT or _PRAGMA.match(token.string):
                continue
            if re.search(r"-{4,}\s*$", token.string):
                continue
            if block and token.start[0] != last + 1:
                yield Paragraph(start, " ".join(block))
                block = []
            start = start if block else token.start[0]
            last = token.start[0]
            block.append(token.string.lstrip("# "))
    if block:
        yield Paragraph(start, " ".join(block))


# Rules ----------------------------------------------------------------------


def plain_text(text: str) -> str:
    """Return a text without links, code spans and emphasis; a span is one word."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"``[^`]+``|`[^`]+`", "Code", text)
    text = re.sub(r"https?://\S+", "Link", text)
    text = re.sub(r"\*{1,2}([^*]+)\*{1,2}", r"\1", text)
    return _ABBREVIATION.sub(r"\1 ", text)


def sentences(text: str) -> list[str]:
    """Split a paragraph into sentences."""
    return [part.strip() for part in _SENTENCE_END.split(plain_text(text)) if part]


def broken_rules(sentence: str, *, heading: bool = False) -> Iterator[str]:
    """Yield the rules that a sentence breaks."""
    words = _WORD.findall(sentence)
    if len(words) > MAX_WORDS:
        yield f"{len(words)} words, at most {MAX_WORDS}"
    if _START.match(sentence) and not sentence.rstrip("\"')").endswith("?"):
        yield f'begins with "{sentence.split(maxsplit=1)[0]}"; name the actor first'
    if not heading and _END.search(sentence):
        yield "ends with a dangling pronoun; name the thing"
    for word in words:
        if word.lower() in BANNED_WORDS:
            yield f'"{word}": write {BANNED_WORDS[word.lower()]}'
    for pattern, advice in BANNED_PHRASES.items():
        if re.search(pattern, sentence, re.IGNORECASE):
            yield f"{pattern[2:-2]}: {advice}"


def check(path: Path) -> Iterator[Finding]:
    """Yield the findings of one file."""
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    if path.suffix == ".py":
        paragraphs = python_paragraphs(path)
    else:
        paragraphs = markdown_paragraphs(path.read_text(encoding="utf-8"))
    for paragraph in paragraphs:
        for sentence in sentences(paragraph.text):
            for rule in broken_rules(sentence, heading=paragraph.heading):
                yield Finding(name, paragraph.line, rule, sentence)


# Exceptions -----------------------------------------------------------------


def without_exceptions(
    findings: Sequence[Finding], *, whole_project: bool
) -> list[str]:
    """Return the lines to print: findings without exception, stale exceptions."""
    listed = tomllib.loads(EXCEPTIONS.read_text(encoding="utf-8")).get("exception", [])
    problems: list[str] = []
    if len(listed) > MAX_EXCEPTIONS:
        problems.append(f"{EXCEPTIONS.name}: more than {MAX_EXCEPTIONS} exceptions")
    used: set[int] = set()
    for finding in findings:
        matching = [
            index
            for index, each in enumerate(listed)
            if finding.path == each["path"] and each["text"] in finding.text
        ]
        used.update(matching)
        if not matching:
            problems.append(str(finding))
    if whole_project:
        problems += [
            f"{EXCEPTIONS.name}: the exception for {each['path']} is not needed"
            for index, each in enumerate(listed)
            if index not in used
        ]
    problems += [
        f"{EXCEPTIONS.name}: the exception for {each['path']} has no reason"
        for each in listed
        if not each.get("reason")
    ]
    return problems


def project_files() -> list[Path]:
    """Return every page and module of the project that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    paths = (ROOT / name for name in listed if name.endswith((".py", ".md")))
    return sorted(path for path in paths if path.is_file())


def main(arguments: Sequence[str]) -> int:
    """Print the findings; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--count", action="store_true", help="print numbers per rule")
    options = parser.parse_args(arguments)
    paths = [
        file
        for path in options.paths
        for file in (sorted(path.rglob("*")) if path.is_dir() else [path])
        if file.suffix in {".py", ".md"} and file.is_file()
    ] or project_files()
    findings = [finding for path in paths for finding in check(path.resolve())]
    if options.count:
        rules = Counter(re.sub(r"\d+ words", "words", each.rule) for each in findings)
        lines = [f"{count:6} {rule}" for rule, count in rules.most_common()]
        lines.append(f"{len(findings):6} findings in {len(paths)} files")
    else:
        lines = without_exceptions(findings, whole_project=not options.paths)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 1 if lines and not options.count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
