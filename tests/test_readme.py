"""Every snippet of the README runs, in the order in which it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXPORT = re.compile(r"(\w+)=(\S+)")


@dataclass(frozen=True)
class Command:
    """A line that a reader types, and what the README says that it prints."""

    line: str
    expected_output: str


def _commands(block: str) -> list[Command]:
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    typed = [part.partition("\n") for part in parts]
    return [Command(line, prints.strip()) for line, _, prints in typed]


def _matches(output: str, expected: str) -> bool:
    # "…" stands for anything: ids, times, lines of no interest here.
    pattern = ".*?".join(re.escape(part) for part in expected.split("…"))
    return re.fullmatch(pattern, output.strip(), re.DOTALL) is not None


def test_readme_snippets_run_and_print_the_documented_output(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    ran = 0
    for language, block in BLOCK.findall(readme):
        if language == "python" and (named := re.match(r"# (\w+\.py)\n", block)):
            (tmp_path / named[1]).write_text(block)
        elif language == "python":
            command = [sys.executable, "-W", "error", "-c", block]
            subprocess.run(command, cwd=tmp_path, env=env, check=True)
            ran += 1
        elif language == "console":
            ran += _run_console(block, tmp_path, env)

    assert ran >= 7


def _run_console(block: str, folder: Path, env: dict[str, str]) -> int:
    for command in _commands(block):
        if command.line.startswith("pip install"):
            continue
        if command.line.startswith("export "):
            env.update(EXPORT.findall(command.line))
            continue
        done = subprocess.run(
            ["/bin/sh", "-c", command.line],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )

        assert _matches(done.stdout, command.expected_output), done.stdout
    return len(_commands(block))
