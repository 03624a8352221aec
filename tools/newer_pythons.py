"""Run a selection of tests on each newer Python of this machine.

    python tools/newer_pythons.py [ARGUMENT OF PYTEST ...]

Interpreters are found on PATH and in the folder of pyenv. NEWER_PYTHONS adds paths,
separated like PATH. Each interpreter gets an environment of its own in `.venv/newer`.
Without a newer interpreter, nothing runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".venv" / "newer"
LAST_MINOR = 20


def candidates() -> Iterator[str]:
    """Yield the paths of interpreters, those that were asked for first."""
    yield from filter(None, os.environ.get("NEWER_PYTHONS", "").split(os.pathsep))
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for minor in range(sys.version_info.minor + 1, LAST_MINOR):
        found = shutil.which(f"python3.{minor}")
        yield from [found] if found else []
        # The newest patch release is the last one of these names.
        versions = sorted(pyenv.glob(f"versions/3.{minor}.*/bin/python3"))
        yield from map(str, reversed(versions))


def interpreters() -> dict[str, str]:
    """Return one interpreter for each version that is newer than this one."""
    found: dict[str, str] = {}
    for path in candidates():
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run(  # noqa: S603 - an interpreter of this machine
            [path, "-c", code], capture_output=True, text=True, check=False
        )
        version = done.stdout.strip()
        newer = version.partition(".")[2].isdigit() and (
            int(version.partition(".")[2]) > sys.version_info.minor
        )
        if done.returncode == 0 and newer:
            found.setdefault(version, path)
    return dict(sorted(found.items()))


def make_environment(version: str, interpreter: str) -> str:
    """Return the interpreter of an environment that has everything the tests need."""
    folder = ENVIRONMENTS / version
    python = str(folder / "bin" / "python")
    stamp, project = folder / "installed", ROOT / "pyproject.toml"
    if stamp.exists() and stamp.stat().st_mtime >= project.stat().st_mtime:
        return python
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (
        [interpreter, "-m", "venv", str(folder)],
        [*pip, "--upgrade", "pip>=25.1"],
        [*pip, "--editable", ".", "--group", "dev"],
    ):
        subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 - our own commands
    stamp.touch()
    return python


def main() -> int:
    """Run the tests on every version; return the number of versions that failed."""
    found = interpreters()
    if not found:
        print("no newer Python on this machine")  # noqa: T201 - a command line prints
    failed = 0
    for version, interpreter in found.items():
        print(f"Python {version}: {interpreter}", flush=True)  # noqa: T201
        python = make_environment(version, interpreter)
        command = [python, "-m", "pytest", *sys.argv[1:]]
        done = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603 - our tests
        failed += done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
