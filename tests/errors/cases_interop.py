"""Adopting runs and reading files of other programs."""

from __future__ import annotations

from continuations.errors import FormatError, InvalidInput, RunExists
from tests.errors.case import Area, Case

_PAUSED = """
    paused = run(clerk(), TASK).continuation
    ended = run(talker(), TASK).continuation
"""
_FILE = """
    import json
    from continuations.interop import snaplogic
    from tests.interop.snaplogic_files import completed, flat, make_desk
    def write(name, value):
        (folder / name).write_text(json.dumps(value))
        return folder / name
    desk = make_desk()
    good = write("good.json", flat())
"""
_APP = """
    (folder / "travel.py").write_text(
        "from tests.interop.snaplogic_files import make_desk\\ndesk = make_desk()\\n")
"""

ADOPTING = Area(
    "Adopting runs",
    (
        Case(
            "adopt-ended",
            InvalidInput,
            "runner.adopt(ended)",
            'runner.adopt(paused, run_id="jane-1")',
            setup=_PAUSED,
            names=("continuation", "nothing is paused"),
        ),
        Case(
            "adopt-type",
            InvalidInput,
            'runner.adopt("jane-1")',
            'runner.adopt(paused, run_id="jane-1")',
            setup=_PAUSED,
            names=("continuation", "str"),
        ),
        Case(
            "adopt-taken",
            RunExists,
            'runner.adopt(paused, run_id="jane-1")',
            'runner.adopt(paused, run_id="jane-2")',
            setup=_PAUSED + '    start("jane-1")',
            names=("run_id", "jane-1"),
        ),
        Case(
            "snaplogic-field",
            FormatError,
            'snaplogic.read(write("bad.json", {**flat(), "continuation": 7}), desk)',
            "snaplogic.read(good, desk)",
            setup=_FILE,
            names=("bad.json", "continuation"),
        ),
        Case(
            "snaplogic-ended",
            FormatError,
            'snaplogic.read(write("ended.json", completed()), desk)',
            "snaplogic.read(good, desk)",
            setup=_FILE,
            names=("ended.json", "nothing is paused"),
        ),
        Case(
            "snaplogic-agent",
            InvalidInput,
            'snaplogic.read(good, "desk")',
            "snaplogic.read(good, desk)",
            setup=_FILE,
            names=("agent",),
        ),
        Case(
            "snaplogic-source",
            InvalidInput,
            "snaplogic.read(7, desk)",
            "snaplogic.read(good, desk)",
            setup=_FILE,
            names=("source",),
        ),
        Case(
            "snaplogic-path-of",
            InvalidInput,
            "snaplogic.read(good, desk).path_of(start())",
            """
                paused = snaplogic.read(good, desk)
                adopted = Runner(desk, store=store).adopt(paused.continuation)
                paused.path_of(adopted.waits[0])
            """,
            setup=_FILE,
            names=("wait",),
        ),
        Case(
            "cli-adopt-decisions",
            "exit 2",
            'cli("adopt", str(good), "--decisions", "--run-id", "jane-1")',
            """
                cli("adopt", str(good), "--decisions", "--as", "snaplogic",
                    "--app", "travel:desk", "--run-id", "jane-1")
            """,
            setup=_FILE + _APP,
            names=("--decisions", "--as snaplogic"),
        ),
        Case(
            "cli-adopt-file",
            "exit 2",
            'cli("adopt", "gone.bytes", "--run-id", "jane-1")',
            """
                data = run(clerk(), TASK).continuation.to_bytes()
                (folder / "run.bytes").write_bytes(data)
                cli("adopt", str(folder / "run.bytes"), "--run-id", "jane-1")
            """,
            names=("FILE", "gone.bytes"),
        ),
    ),
)
