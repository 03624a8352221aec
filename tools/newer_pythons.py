"""Run a selection of tests on each newer Python of this machine.

    python tools/newer_pythons.py [ARGUMENT OF PYTEST ...]

Interpreters are found on PATH and in the folder of pyenv. NEWER_PYTHONS adds paths,
separated like PATH. With NEWEST_PYTHON_ONLY, only the newest version is used. Each
interpreter gets an environment of its own in `.venv/newer`.

Without a newer interpreter, nothing runs, and a warning on stderr says so. This is no
failure, because a machine may have one Python only. It is one if an interpreter was
asked for: NEWER_PYTHONS is set, or REQUIRE_NEWER_PYTHON is not empty.
"""

from __future__ import annotations

import os
import re
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
    yield from paths_asked_for()
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for minor in range(sys.version_info.minor + 1, LAST_MINOR + 1):
        found = shutil.which(f"python3.{minor}")
        yield from [found] if found else []
        folders = sorted(pyenv.glob(f"versions/3.{minor}.*"), key=release_number)
        yield from (str(folder / "bin" / "python3") for folder in reversed(folders))


def paths_asked_for() -> list[str]:
    """Return the paths of NEWER_PYTHONS."""
    return [*filter(None, os.environ.get("NEWER_PYTHONS", "").split(os.pathsep))]


def release_number(folder: Path) -> tuple[list[int], bool]:
    """Return the order of a folder: 3.14.10 after 3.14.9, 3.14.0 after 3.14.0rc1."""
    numbers = [int(each) for each in re.findall(r"\d+", folder.name)]
    return numbers[:3], re.fullmatch(r"[\d.]+", folder.name) is not None


def interpreters() -> dict[str, str]:
    """Return one interpreter for each version that is newer than this one."""
    found: dict[tuple[int, ...], str] = {}
    for path in candidates():
        version = version_of(path)
        if version is not None and version > sys.version_info[:2]:
            found.setdefault(version, path)
    used = sorted(found.items())
    if os.environ.get("NEWEST_PYTHON_ONLY"):
        used = used[-1:]
    return {f"{major}.{minor}": path for (major, minor), path in used}


def version_of(path: str) -> tuple[int, ...] | None:
    """Return the version that an interpreter prints, or None after a message."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(  # noqa: S603 - an interpreter of this machine
            [path, "-c", code], capture_output=True, text=True, check=False
        )
    except OSError as error:
        say(f"skipped {path}: {error.strerror}")
        return None
    if done.returncode or not re.fullmatch(r"\d+\.\d+", done.stdout.strip()):
        # For example a shim of pyenv for a version that is not selected.
        say(f"skipped {path}: it does not tell its version")
        return None
    return tuple(map(int, done.stdout.split(".")))


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
        say(
            "WARNING: no test ran on a newer Python, because this machine has none.\n"
            "Install one, for example with pyenv, or name its path in NEWER_PYTHONS."
        )
        was_asked_for = paths_asked_for() or os.environ.get("REQUIRE_NEWER_PYTHON")
        return 1 if was_asked_for else 0
    failed = 0
    for version, interpreter in found.items():
        say(f"Python {version}: {interpreter}")
        python = make_environment(version, interpreter)
        command = [python, "-m", "pytest", *sys.argv[1:]]
        done = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603 - our tests
        failed += done.returncode != 0
    return failed


def say(message: str) -> None:
    """Print a message beside the output of the tests."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201 - a command line prints


if __name__ == "__main__":
    sys.exit(main())
