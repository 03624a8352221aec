"""examples/s3_demo.py, as `make demo-s3` runs it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.examples.example_process import example_output

if TYPE_CHECKING:
    from pathlib import Path


def test_s3_example_prints_every_step(tmp_path: Path) -> None:
    """SL-11, SL-12, SL-13, SL-19, PA-33: nothing but bytes between two events."""
    pytest.importorskip("ministack")
    pytest.importorskip("awslambdaric")

    printed = example_output("s3_demo.py", folder=tmp_path)

    titles = re.findall(r"^\d\. (.*?)(?:$|,| says| wakes)", printed, re.MULTILINE)
    turns = ["A webhook", "The queue"]
    assert ["Start", *turns, *turns, "The end", "The ledger of effects"] == titles
    assert 4 == printed.count("Yes: ")
    assert "NO: " not in printed
    assert 3 == printed.count("processes alive: none")
    pids = re.findall(r"process (\d+):", printed)
    assert 9 == len(pids) == len(set(pids))
    # At most three requests to decide, and the marker that goes (it costs nothing).
    decided = re.findall(r"/decision .*\n.*S3: (.*)", printed)
    assert ["1 DELETE, 1 GET, 2 PUT"] * 2 == decided
