"""A door whose package is missing says what to install."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
# The module of each door, and a module of its package.
DOORS = {
    "a2a": "a2a",
    "agui": "ag_ui",
    "cloudevents": "cloudevents",
    "langchain": "langchain_core",
    "langgraph": "langgraph",
    "mcp.server": "mcp_types",
    "openai_agents": "agents",
    "otel": "opentelemetry.util.genai",
    "pydantic_ai": "pydantic_ai",
    "slack": "slack_bolt",
}


def _known_requirements() -> set[str]:
    extras = PROJECT["project"]["optional-dependencies"].values()
    groups = PROJECT["dependency-groups"]["dev"]
    found = {each for extra in extras for each in extra} | set(groups)
    # A requirement, and the package without a version.
    return found | {re.split(r"[>=<\[]", each)[0] for each in found}


@pytest.mark.parametrize(("door", "package"), DOORS.items())
def test_missing_package_is_named_with_what_to_install(door: str, package: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        f"import continuations.interop.{door}"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    last = done.stderr.splitlines()[-1]
    name = door.partition(".")[0]
    assert f"continuations.interop.{name} cannot be imported: " in last
    advice = last.partition("Run: pip install ")[2]
    wanted = {each.strip("'") for each in advice.split()}
    assert wanted
    assert wanted <= _known_requirements()
