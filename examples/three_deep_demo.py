"""The demonstration of three_deep.py: every command runs in a separate process.

`python examples/three_deep.py` starts this script. It has no agents and does not
advance the run: it starts processes, chooses the next decision and reads the store.

You can kill any process that it lists, also with SIGKILL. The script repeats its
command with --wait-if-busy, and the run has the same end. Every process gets the
options of this script, such as `--lease 2`.
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
RUN_ID = "onboard-jane"
MAX_ATTEMPTS = 10
OBJECT_KINDS = {
    "v": "versions of the run",
    "in": "decisions",
    "waits": "open waits",
    "markers": "markers",
    "index": "list of runs",
    "probe": "probe of the store",
}


class Demo:
    """A new folder with a store, the scripted API, and the processes of the run."""

    def __init__(self, folder: Path, *, offline: bool, options: list[str]) -> None:
        self.store = f"sqlite:{folder / 'runs.db'}"
        self.effects_file = folder / "effects.txt"
        self.offline = offline
        self.options = options
        self.server: subprocess.Popen[str] | None = None
        self.url = ""
        self.ended_pids: list[int] = []
        self._step_numbers = itertools.count(1)

    @property
    def effects(self) -> list[str]:
        """The lines of the effects file: the id of a call and its effect."""
        if not self.effects_file.exists():
            return []
        return self.effects_file.read_text().splitlines()

    def print_title(self, text: str) -> None:
        """Print the title of the next step."""
        print(f"\n{next(self._step_numbers)}. {text}")

    @property
    def model_server_exited(self) -> bool:
        """Whether the scripted API was started and has exited."""
        return self.server is not None and self.server.poll() is not None

    def model_environment(self) -> dict[str, str]:
        """Return the environment variables with which a process finds its model."""
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
            print(f"   process {self.server.pid}: scripted_api.py at {self.url}")
        return {
            **os.environ,
            "OPENAI_BASE_URL": self.url,
            "OPENAI_API_KEY": "offline",
        }

    def run_step(self, *command: str) -> None:
        """Run a command of three_deep.py; repeat it if its process is killed."""
        options = ["--effects", str(self.effects_file), *self.options]
        self.run(
            str(HERE / "three_deep.py"),
            *command,
            options=options,
            retry_option="--wait-if-busy",
        )

    def run(self, *program: str, options: list[str], retry_option: str = "") -> None:
        """Run a program; repeat it if its process or the scripted API is killed."""
        command = [sys.executable, *program, "--store", self.store, *options]
        name = " ".join([Path(program[0]).name, *program[1:]]).removeprefix("-m ")
        for _ in range(MAX_ATTEMPTS):
            with subprocess.Popen(
                command,
                env=self.model_environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process:
                print(f"   process {process.pid}: {name}", flush=True)
                for line in process.stdout or ():
                    print(f"   | {line}", end="")
            print(f"   process {process.pid} exited with code {process.returncode}")
            self.ended_pids.append(process.pid)
            if process.returncode == 0:
                return
            if process.returncode > 0 and not self.model_server_exited:
                break
            command += [retry_option] if retry_option else []
        sys.exit(f"{name} failed.")

    def close(self) -> None:
        """Stop the scripted API, which exits when its standard input is closed."""
        if self.server is not None:
            self.server.communicate()
            self.ended_pids.append(self.server.pid)
            self.server = None


def run_demo(demo: Demo) -> None:
    """Start the run, then decide and resume until it has no open wait."""
    runner = Runner([], store=demo.store)
    demo.print_title("Start the run")
    demo.run_step("start")
    demo.print_title("Show the suspended stack; this process loads no agents")
    demo.run("-m", "continuations", "show", RUN_ID, options=[])
    print_stored(demo)
    for _ in range(MAX_ATTEMPTS):
        waits = runner.look(RUN_ID).waits
        if not waits:
            return
        # Chosen by tool name, because a real model may call the tools in another order.
        wait = max(waits, key=lambda wait: wait.tool == "transfer")
        command = decision_command(wait, demo.effects)
        demo.print_title(f"{command[0].capitalize()} {' > '.join(wait.path)}")
        demo.run_step(*command)
        demo.print_title("Resume the run")
        demo.run_step("resume", RUN_ID)
    sys.exit(f"The run still waits after {MAX_ATTEMPTS} decisions.")


def decision_command(wait: Wait, effects: list[str]) -> list[str]:
    """Return the command that decides a wait: approve the money, deny the access."""
    if wait.kind == "unknown":
        # The process was killed during the call; the effects file shows the outcome.
        for call_id, _, effect in (line.partition(" ") for line in effects):
            if call_id == wait.call_id:
                return ["answer", wait.id, effect]
        return ["approve", wait.id]
    return ["approve" if wait.tool == "transfer" else "deny", wait.id]


def stored_sizes(url: str) -> dict[str, list[int]]:
    """Return the size of every object in a store, by kind."""
    sizes: dict[str, list[int]] = defaultdict(list)
    with SyncStore(open_store(url)) as store:
        for key in store.all_keys(""):
            kind = key.split("/")[2 if key.startswith("runs/") else 0]
            sizes[OBJECT_KINDS[kind]].append(len(store.read(key)))
    return sizes


def living_pids(pids: list[int]) -> list[int]:
    """Return the ids of the processes that still run."""
    living: list[int] = []
    for pid in pids:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        living.append(pid)
    return living


def print_stored(demo: Demo) -> None:
    """Print the stored objects and the number of running processes."""
    print("   In the store:")
    for kind, sizes in stored_sizes(demo.store).items():
        print(f"     {len(sizes):3} {kind:20} {sum(sizes):6,} bytes")
    still_running = living_pids(demo.ended_pids) or "none"
    print(
        f"   Processes so far: {len(demo.ended_pids)}, still running: {still_running}"
    )


def check(demo: Demo) -> None:
    """Print the end of the run; exit with an error if a promise is broken."""
    demo.print_title("What is left")
    print_stored(demo)
    demo.print_title("Effects of the tools")
    for effect in demo.effects:
        print(f"   {effect}")
    transfers = [effect for effect in demo.effects if "Transferred" in effect]
    status = Runner([], store=demo.store).look(RUN_ID).status
    promises = {
        "the run is finished": status == "finished",
        "the money was transferred once": len(transfers) == 1,
        "the denied call did not run": transfers == demo.effects,
        "no process is still running": not living_pids(demo.ended_pids),
    }
    print()
    for promise, is_kept in promises.items():
        print(f"{'Yes' if is_kept else 'NO'}: {promise}.")
    if not all(promises.values()):
        sys.exit(1)


def main() -> None:
    """Run the demonstration in a new folder and check its promises."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--offline", action="store_true", default="OPENAI_API_KEY" not in os.environ
    )
    options, other_options = parser.parse_known_args()
    folder = Path(tempfile.mkdtemp(prefix="three-deep-"))
    demo = Demo(folder, offline=options.offline, options=other_options)
    print("Three agents deep: orchestrator > hr > accounts.")
    print(f"The store and the effects are in {folder} and are kept.")
    try:
        run_demo(demo)
    finally:
        demo.close()
    check(demo)


if __name__ == "__main__":
    main()
