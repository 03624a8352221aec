"""The demonstration of three_deep.py: each command as a process of its own.

It is started by `python examples/three_deep.py`. It has no agents and moves no run on:
it starts processes, decides which decision comes next, and reads what is in the store.
A process that somebody kills meanwhile is started again with --wait-if-busy, so try that: it
ends the same. Options, such as `--lease 2`, are handed on to every process.
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from continuations import Runner, Wait, open_store
from continuations_storage import SyncStore

HERE = Path(__file__).parent
RUN = "onboard-jane"
MAX_ATTEMPTS = 10
OBJECT_KINDS = {
    "v": "versions of the run",
    "in": "decisions",
    "waits": "open waits",
    "markers": "markers",
    "probe": "proof of the store",
}


class Demo:
    """Where it plays: a fresh folder, a model, and the processes that there were."""

    def __init__(self, home: Path, *, offline: bool, options: list[str]) -> None:
        self.store = f"file:{home / 'runs'}"
        self.effects_file = home / "ledger.txt"
        self.offline = offline
        self.options = options
        self.server: subprocess.Popen[str] | None = None
        self.url = ""
        self.ended_pids: list[int] = []
        self._titles = itertools.count(1)

    @property
    def effects(self) -> list[str]:
        """The lines of the ledger: each a call's id and what it did."""
        return (
            self.effects_file.read_text().splitlines()
            if self.effects_file.exists()
            else []
        )

    def print_title(self, text: str) -> None:
        """Print what comes next."""
        print(f"\n{next(self._titles)}. {text}")

    @property
    def model_server_exited(self) -> bool:
        """Tell whether the scripted API was killed."""
        return self.server is not None and self.server.poll() is not None

    def model_environment(self) -> dict[str, str]:
        """Return the environment in which a process finds its model."""
        if not self.offline:
            return dict(os.environ)
        if self.server is None or self.model_server_exited:
            self.server = subprocess.Popen(
                [sys.executable, HERE / "scripted_api.py"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.url = next(iter(self.server.stdout or ())).strip()
            print(f"   process {self.server.pid}: the scripted API, {self.url}")
        return {
            **os.environ,
            "OPENAI_BASE_URL": self.url,
            "OPENAI_API_KEY": "offline",
        }

    def run_step(self, *words: str) -> None:
        """Run a command of three_deep.py; if it is killed, again with --wait-if-busy."""
        options = ["--ledger", str(self.effects_file), *self.options]
        self.run(
            str(HERE / "three_deep.py"),
            *words,
            options=options,
            retry_option="--wait-if-busy",
        )

    def run(self, *program: str, options: list[str], retry_option: str = "") -> None:
        """Run a process to its end; repeat it if it was killed, or its model was."""
        command = [sys.executable, *program, "--store", self.store, *options]
        shown = " ".join([Path(program[0]).name, *program[1:]])
        for _ in range(MAX_ATTEMPTS):
            with subprocess.Popen(
                command,
                env=self.model_environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process:
                print(f"   process {process.pid}: {shown}", flush=True)
                for line in process.stdout or ():
                    print(f"   | {line}", end="")
            print(f"   process {process.pid} ended with {process.returncode}")
            self.ended_pids.append(process.pid)
            if process.returncode == 0:
                return
            if process.returncode > 0 and not self.model_server_exited:
                break
            command += [retry_option] if retry_option else []
        sys.exit(f"{shown} was to succeed.")

    def close(self) -> None:
        """End the scripted API, which does so when nobody is left to write to it."""
        if self.server is not None:
            self.server.communicate()
            self.ended_pids.append(self.server.pid)
            self.server = None


def run_demo(demo: Demo) -> None:
    """Start, then decide and resume until nothing waits any more."""
    desk = Runner([], store=demo.store)
    demo.print_title("Start")
    demo.run_step("start")
    demo.print_title("The paused stack, read by a process that has no agents")
    demo.run("-m", "continuations", "show", RUN, options=[])
    print_stored(demo)
    for _ in range(MAX_ATTEMPTS):
        waits = desk.look(RUN).waits
        if not waits:
            return
        # By the name of the tool: a real model may ask in another order.
        wait = max(waits, key=lambda wait: wait.tool == "transfer")
        words = decision_command(wait, demo.effects)
        demo.print_title(f"{words[0].capitalize()}: {' > '.join(wait.path)}")
        demo.run_step(*words)
        demo.print_title("Resume")
        demo.run_step("resume", RUN)
    sys.exit("The run was to end.")


def decision_command(wait: Wait, effects: list[str]) -> list[str]:
    """Return the command that decides a wait: yes to the money, no to the access."""
    if wait.kind == "unknown":
        # Its process was killed in the middle of the call. The ledger knows.
        for call, _, effect in (line.partition(" ") for line in effects):
            if call == wait.call_id:
                return ["answer", wait.id, effect]
        return ["approve", wait.id]
    return ["approve" if wait.tool == "transfer" else "deny", wait.id]


def stored_sizes(url: str) -> dict[str, list[int]]:
    """Return the sizes of all objects in a store, by their kind."""
    sizes: dict[str, list[int]] = defaultdict(list)
    with SyncStore(open_store(url)) as store:
        for key in store.all_keys(""):
            kind = key.split("/")[2 if key.startswith("runs/") else 0]
            sizes[OBJECT_KINDS[kind]].append(len(store.read(key)))
    return sizes


def living_pids(pids: list[int]) -> list[int]:
    """Return those of some processes that are still there."""
    there: list[int] = []
    for pid in pids:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        there.append(pid)
    return there


def print_stored(demo: Demo) -> None:
    """Say what there is between two processes: bytes, and nothing that runs."""
    for kind, sizes in stored_sizes(demo.store).items():
        print(f"   {len(sizes):3} x {kind:20} {sum(sizes):6,} bytes")
    still = living_pids(demo.ended_pids) or "none"
    print(
        f"   {len(demo.ended_pids)} processes worked on it so far; alive now: {still}"
    )


def check(demo: Demo) -> None:
    """Print how it ended, and exit with an error unless it is as promised."""
    demo.print_title("What is stored, and what runs")
    print_stored(demo)
    demo.print_title(f"The ledger of effects, {demo.effects_file}")
    for effect in demo.effects:
        print(f"   {effect}")
    transfers = [effect for effect in demo.effects if "Transferred" in effect]
    status = Runner([], store=demo.store).look(RUN).status
    kept = {
        "the run finished": status == "finished",
        "the money was transferred once": len(transfers) == 1,
        "what was denied never happened": transfers == demo.effects,
        "nothing is left running": not living_pids(demo.ended_pids),
    }
    print()
    for promise, holds in kept.items():
        print(f"{'Yes' if holds else 'NO'}: {promise}.")
    if not all(kept.values()):
        sys.exit(1)


def main() -> None:
    """Set the stage, play, and look whether it went as promised."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--offline", action="store_true", default="OPENAI_API_KEY" not in os.environ
    )
    options, rest = parser.parse_known_args()
    home = Path(tempfile.mkdtemp(prefix="three-deep-"))
    stage = Demo(home, offline=options.offline, options=rest)
    print(f"Store {stage.store}, ledger {stage.effects_file}: both are kept.")
    try:
        run_demo(stage)
    finally:
        stage.close()
    check(stage)


if __name__ == "__main__":
    main()
