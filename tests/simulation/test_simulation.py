"""Schedules of many processes with every kind of fault keep all laws.

The real engine, ledger and wire run against a simulated store, clock and network.
`tests/README.md` shows how to read a failing seed:

    python -m tests.simulation.simulate --seeds 976
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sampling import RUNS_ALL_CASES
from tests.simulation.families import FAMILIES
from tests.simulation.laws import LAWS
from tests.simulation.schedule import run, run_uninterrupted, shrunk_text
from tests.simulation.simulate import main

SEEDS = int(os.environ.get("SIMULATE_SEEDS", "5000" if RUNS_ALL_CASES else "100"))
# The schedules of each family but the general one.
FAMILY_SEEDS = max(1, SEEDS // 20)
CHUNKS = 10
_LATER = [name for name, family in FAMILIES.items() if family.number]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_schedule_breaks_a_law(chunk: int) -> None:
    """Promises 1 to 4: same end, one decision, one worker, crash anywhere."""
    for seed in range(chunk, SEEDS, CHUNKS):
        report = run(seed)

        assert {} == report.broken, shrunk_text(report)


@pytest.mark.parametrize("chunk", range(5))
@pytest.mark.parametrize("name", _LATER)
def test_no_schedule_of_a_family_breaks_a_law(name: str, chunk: int) -> None:
    """Promises 1 to 4 hold for every capability with schedules of its own."""
    first = FAMILIES[name].first_seed
    for seed in range(first + chunk, first + FAMILY_SEEDS, 5):
        report = run(seed)

        assert {} == report.broken, shrunk_text(report)


_OF_FAMILIES = [
    *(1_000_863, 3_008_248, 4_000_534, 4_000_785, 4_500_939),
    *(7_000_057, 7_000_093, 7_000_199, 11_006_239),
    *(11_002_469, 12_500_301, 14_500_378, 16_000_139, 16_001_257),
    *(16_001_606, 16_001_688, 16_002_679, 16_003_341, 19_006_423, 20_001_019),
]
_ONCE_BROKEN = [1234, 6922, 7795, 10_523, 12_246, 18_812, 22_352, *_OF_FAMILIES]


@pytest.mark.parametrize("seed", _ONCE_BROKEN)
def test_seeds_that_once_broke_a_law_pass(seed: int) -> None:
    """Each of them found a fault, of the code or of a law."""
    assert {} == run(seed).broken


@pytest.mark.parametrize("seed", [0, 7, 340, 976])
def test_a_seed_is_the_same_schedule_every_time(seed: int) -> None:
    """A failing seed can be run again."""
    assert run(seed).log == run(seed).log


def test_agent_that_needs_approval_waits_for_it() -> None:
    """The tree with such an agent would otherwise be like a plain one."""
    evidence = run_uninterrupted("approved_agent")

    assert ["clerk"] == [record.wait.tool for record in evidence.waits.values()]


def test_law_registry_is_complete() -> None:
    """The search finds the laws of each folder that has some."""
    folders = {law.__module__.split(".")[2] for law in LAWS.values()}

    assert {file.parent.name for file in Path(__file__).parent.glob("*/laws*.py")} == (
        folders
    )
    assert 75 <= len(LAWS)


# The command ------------------------------------------------------------------------


def test_command_counts_what_it_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A search that was stopped continues after the seeds in its progress file."""
    progress = ["--progress-file", str(tmp_path / "progress")]

    assert 0 == main(["--seeds", "0:3", *progress])
    assert 0 == main(["--seeds", "0:5", *progress])

    assert "broken laws 0, schedules 5, effects" in capsys.readouterr().out


def test_command_shrinks_a_broken_schedule_and_prints_how_to_replay_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The replay command runs exactly the shrunk schedule."""
    mutant = ["--mutant", "a_version_is_overwritten"]
    assert 1 == main(["--seeds", "0:5", *mutant, "--law", "versions_are_linear"])
    printed, _, replay = capsys.readouterr().out.partition("replay: ")

    seed = printed.split()[1]
    assert printed.startswith(f"seed {seed} breaks ")
    assert "\nversions_are_linear: " in printed
    _, _, excluded = replay.strip().partition("--exclude ")
    command = f"python -m tests.simulation.simulate --seeds {seed} --mutant "
    assert replay.startswith(command)

    assert 1 == main(["--seeds", seed, *mutant, "--exclude", excluded.strip("'")])
    replayed, _, again = capsys.readouterr().out.partition("replay: ")
    assert replayed.splitlines()[1:] == printed.splitlines()[2:]
    assert again == replay


def test_command_refuses_unknown_fault_kinds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A mistyped kind would allow no faults at all."""
    with pytest.raises(SystemExit):
        main(["--fault-kinds", "crash,freezes"])

    assert "unknown kinds: freezes" in capsys.readouterr().err
