"""Check that every file of the repository has a place in its layout.

Usage: `python tools/check_layout.py`. A file that matches no line of `PLACES` is
probably a leftover, for example a screenshot. Move it, delete it, or add a line.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Each kind of file, as a regular expression for the whole path.
PLACES = (
    r"\.gitignore|Makefile|LICENSE|pyproject\.toml|mkdocs\.yml",
    r"(README|CHANGELOG|CONTRIBUTING)\.md",
    r"\.ci/run",
    r"(continuations|storage/continuations_storage)/.+\.py",
    r"(continuations|storage/continuations_storage)/(.+/)?(py\.typed|ruff\.toml)",
    r"continuations/serve/pages/(templates|assets)/.+\.(html|txt|xml|css|js|svg)",
    r"(storage|benchmarks)/README\.md",
    r"(benchmarks|examples|tests|tools|docs)/.+\.py",
    r"tools/.+\.toml",
    r"typings/.+\.pyi|continuations/engine/(runner|threads)/sync_\w+\.pyi",
    r"docs/.+\.md",
    r"docs/images/.+\.(png|svg|txt)",
    r"docs/(schemas/.+\.json|stylesheets/.+\.css)",
    r"examples/.+\.(md|html|txt|yaml|json|mjs)",
    r"tests/.+\.(md|json|txt|toml|ini|yaml|yml|pem|html|css|js|mjs)",
    r"tests/wire/golden/.+",
)


def misplaced(paths: list[str]) -> list[str]:
    """Return the paths that match no place of the layout."""
    place = re.compile("|".join(f"(?:{each})" for each in PLACES))
    return [path for path in paths if not place.fullmatch(path)]


def main() -> int:
    """Print each file without a place; return 1 if there is one."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(  # noqa: S603 - git, with fixed arguments
        listing, cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [path for path in done.stdout.splitlines() if (ROOT / path).exists()]
    found = misplaced(paths)
    for path in found:
        print(  # noqa: T201 - a command line prints
            f"{path}: no rule of the layout knows this file. Move it, delete it, or "
            "add its place to tools/check_layout.py."
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
