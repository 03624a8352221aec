"""examples/s3_demo.py, as `make demo-s3` runs it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.examples.example_process import example_output


def test_s3_example_prints_every_step(tmp_path: Path) -> None:
    """Between two events the run is only bytes in S3."""
    pytest.importorskip("ministack")
    pytest.importorskip("awslambdaric")

    printed = example_output("s3_demo.py", folder=tmp_path)

    titles = re.findall(r"^\d\. (.*?)(?:$|,| decides| resumes)", printed, re.MULTILINE)
    turns = ["An HTTP request", "The queue"]
    assert ["Start", *turns, *turns, "The end", "The effects"] == titles
    assert 4 == printed.count("Yes: ")
    assert "NO: " not in printed
    assert 3 == printed.count("processes alive: none")
    pids = re.findall(r"process (\d+):", printed)
    assert 9 == len(pids) == len(set(pids))
    # Three billed requests to decide; S3 does not bill the DELETE.
    decided = re.findall(r"/decision .*\n.*S3: (.*)", printed)
    assert ["1 DELETE, 1 GET, 2 PUT"] * 2 == decided
