"""Replay the workflows of a run in other processes, each with another hash seed.

A workflow whose calls follow the order of a set of texts goes on in its own process.
In the next process, it differs. A test sees that only with another hash seed.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from continuations import Runner
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ANSWER = "continuations.testing: "
_PROGRAM = "from continuations.testing.replays import main; main()"


class ImportedName(NamedTuple):
    """A global name of a module, by which another process finds an agent."""

    module: str
    name: str

    @classmethod
    def of(cls, agent: object) -> ImportedName:
        """Return the name of an agent, or of the function that makes it.

        Raises:
            InvalidInput: No module has it as a global name.
        """
        first = getattr(getattr(agent, "function", agent), "__module__", "")
        for module in (first, *sys.modules):
            members: dict[str, Any] = getattr(sys.modules.get(module), "__dict__", {})
            for name, value in [*members.items()]:
                if value is agent and module != "__main__":
                    return cls(module, name)
        raise InvalidInput(
            f"{agent!r} cannot be replayed: no module has it as a global name, so "
            "another process cannot import it. Define it outside of functions, and not "
            "in the program that is run."
        )


def find_differences(
    agent: ImportedName,
    versions: Mapping[str, bytes],
    hash_seed: int,
    renamed: Mapping[str, str] | None = None,
) -> list[str]:
    """Return how the code differs from histories, in a process with a hash seed.

    Args:
        agent: The name of the root agent.
        versions: The continuation of each version, by the run id that it gets.
        hash_seed: The hash seed of the process.
        renamed: The renames of the runner.

    Returns:
        A text for each version that differs.

    Raises:
        InvalidInput: The other process could not import the agent.
    """
    texts = {key: base64.b64encode(data).decode() for key, data in versions.items()}
    given = {"agent": agent, "versions": texts, "renamed": renamed}
    paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    done = subprocess.run(  # noqa: S603 - our own program, and the names of a test
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": paths},
    )
    if done.returncode:
        raise InvalidInput(
            f"{agent.module}.{agent.name} was not replayed: the other process "
            f"failed.\n{done.stderr}"
        )
    lines = done.stdout.splitlines()
    answer = next(line for line in lines if line.startswith(_ANSWER))
    found: list[str] = json.loads(answer.removeprefix(_ANSWER))
    return found


def main() -> None:
    """Replay the versions that stand in the input, and print what differs."""
    given = json.load(sys.stdin)
    agent = ImportedName(*given["agent"])
    made: Any = getattr(import_module(agent.module), agent.name)
    if not hasattr(made, "tools_by_name"):  # a function that makes the agent
        made = made()
    differences = _differences(made, given["versions"], given["renamed"])
    sys.stdout.write(f"\n{_ANSWER}{json.dumps(differences)}\n")


def _differences(
    agent: Any, versions: Mapping[str, str], renamed: Mapping[str, str] | None
) -> Sequence[str]:
    runner = Runner(agent, store="memory:", renamed=renamed)
    found: list[str] = []
    for run_id, text in versions.items():
        runner.adopt(base64.b64decode(text), run_id=run_id)
        for row in runner.drift(run=run_id):
            found += [why.text for why in row.why if why.verdict == "refuse"]
    return found
