"""Command lines that fail; the text is what stands on standard error."""

from __future__ import annotations

from tests.errors.case import Area, Case

_USAGE = "exit 2"
_APP = """
    (folder / "payroll.py").write_text(
        "from tests.errors.scene import clerk, talker\\nagent = clerk()\\ntalker = talker()\\n"
        "from continuations import Runner\\n"
        f"runner = Runner(agent, store='file:{folder}/runs')\\nnumber = 5\\n")
"""
_START = 'cli("start", TASK, "--run-id", "jane-1", "--app", "payroll:agent")'
STARTED = f"""{_APP}
    {_START}
    wait_id = cli("waiting", "--ids").strip()
"""
_UNKNOWN = """
    store = open_store(f"file:{folder}/runs")
    dying = faults.FaultyStore(store)
    @tool(name="book")
    def book_and_die(room: str) -> str:
        "Book a room; the process dies before it can say so."
        dying.has_crashed = True
        return "booked"
    agent = clerk(book_and_die, script=[ToolCall("book", {"room": "5"}), "done"])
    try: Runner(agent, store=dying, lease=0.3).start(TASK, run_id="jane-1")
    except BaseException: pass
    import time; time.sleep(0.31)
    (wait,) = Runner(agent, store=store).resume("jane-1").waits
    wait_id = wait.id
"""

USAGE = Area(
    "Command line: wrong usage",
    (
        Case(
            "cli-inbox-for",
            _USAGE,
            'cli("inbox", "--for", "kim", "--store", folder)',
            'cli("inbox", "--by", "kim", "--store", folder)',
            setup='(folder / "runs").mkdir()',
            names=("--for", "kim", "--by"),
        ),
        Case(
            "cli-setting-value",
            _USAGE,
            'cli("start", TASK, "--app", "payroll:agent", "--setting", "stop=[a")',
            'cli("start", TASK, "--app", "payroll:agent", "--setting", \'stop="[a"\')',
            setup=_APP,
            names=("--setting", "stop"),
        ),
        Case(
            "cli-trace-context",
            "exit 5",
            'cli("start", TASK, "--app", "payroll:agent", "--trace-context", "00-1")',
            """
                cli("start", TASK, "--app", "payroll:agent", "--trace-context",
                    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            """,
            setup=_APP,
            names=("trace_context", "traceparent"),
        ),
        Case(
            "cli-approver-and-due",
            _USAGE,
            'cli("waiting", "--approver", "kim", "--due")',
            'cli("waiting", "--approver", "kim")',
            setup='(folder / "runs").mkdir()',
            names=("--approver", "--due"),
        ),
        Case(
            "cli-app-type",
            _USAGE,
            'cli("start", TASK, "--app", "payroll:number")',
            _START,
            setup=_APP,
            names=("--app", "int"),
        ),
        Case(
            "cli-agent-without-store",
            _USAGE,
            'cli("start", TASK, "--app", "payroll:agent", store=False)',
            _START,
            setup=_APP,
            names=("--app", "--store"),
        ),
        Case(
            "cli-wait-for-run",
            _USAGE,
            'cli("resume", wait_id, "--app", "payroll:agent")',
            'cli("resume", "jane-1", "--app", "payroll:agent")',
            setup=STARTED,
            names=("approval-", "jane-1"),
        ),
        Case(
            "cli-arguments-file",
            _USAGE,
            'cli("approve", wait_id, "--arguments", "@edit.json")',
            """
                (folder / "edit.json").write_text('{"cents": 5}')
                cli("approve", wait_id, "--arguments", "@edit.json")
            """,
            setup=STARTED,
            names=("--arguments", "edit.json"),
        ),
        Case(
            "cli-answer-no-json",
            _USAGE,
            'cli("answer", wait_id, "booked 5")',
            'cli("answer", wait_id, "--text", "booked 5")',
            setup=_UNKNOWN,
            names=("--text", "booked 5"),
        ),
        Case(
            "cli-version-of-a-wait",
            _USAGE,
            'cli("show", wait_id, "--version", "1")',
            'cli("show", wait_id); cli("show", "jane-1", "--version", "1")',
            setup=STARTED,
            names=("--version",),
        ),
        Case(
            "cli-extra-missing",
            _USAGE,
            'cli("waiting")',
            "scene.close(); cli('--version', store=False)",
            setup='scene.without_module("typer.main", "continuations.cli.program")',
            names=("pip install", "typer", "rich"),
            is_list=True,
        ),
    ),
)

COMMANDS = Area(
    "Command line: commands that fail",
    (
        Case(
            "cli-sweep-errors",
            "exit 5",
            'cli("sweep", "--app", "payroll:agent")',
            """
                newest.write_bytes(kept)
                cli("resume", "jane-1", "--app", "payroll:agent")
            """,
            setup=f"""{STARTED}
    cli("approve", wait_id)
    newest = min((folder / "runs" / "runs" / "jane-1" / "v").iterdir())
    kept = newest.read_bytes()
    newest.write_bytes(kept[:-1])""",
            names=("jane-1", "Corrupt"),
        ),
        Case(
            "cli-doctor-nothing-left",
            "exit 5",
            'cli("doctor", "jane-1", "--repair")',
            """
                for path, body in kept.items(): path.write_bytes(body)
                cli("doctor", "jane-1")
            """,
            setup=f"""{STARTED}
    versions = list((folder / "runs" / "runs" / "jane-1" / "v").iterdir())
    kept = {{path: path.read_bytes() for path in versions}}
    for path in versions: path.write_bytes(kept[path][:-1])""",
            names=("jane-1",),
        ),
        Case(
            "cli-doctor-newer-format",
            "exit 5",
            'cli("doctor", "jane-1", "--repair")',
            """
                newest.write_bytes(body)
                cli("doctor", "jane-1")
            """,
            setup=f"""{STARTED}
    from continuations.wire.envelope import object_digest
    newest = min((folder / "runs" / "runs" / "jane-1" / "v").iterdir())
    body = newest.read_bytes()
    newer = body[:4] + bytes([0, 9]) + body[6:-16]
    newest.write_bytes(newer + object_digest(newer))""",
            names=("jane-1", "format 9"),
        ),
        Case(
            "cli-doctor-object-of-a-stranger",
            "exit 5",
            'cli("doctor", "jane-1", "--repair")',
            'stranger.unlink(); cli("doctor", "jane-1", "--repair")',
            setup=f"""{STARTED}
    stranger = folder / "runs" / "runs" / "jane-1" / "v" / "0-notes"
    stranger.write_bytes(b"")""",
            names=("jane-1", "0-notes"),
        ),
        Case(
            "cli-doctor-unreadable-object",
            "exit 5",
            'cli("doctor", "jane-1", "--repair")',
            'place.unlink(); cli("doctor", "jane-1", "--repair")',
            setup=f"""{STARTED}
    newest = min((folder / "runs" / "runs" / "jane-1" / "v").iterdir())
    place = newest.with_name(f"{{int(newest.name) - 1:010d}}")
    place.symlink_to(newest)""",
            names=("jane-1",),
        ),
        Case(
            "cli-doctor-run-is-held",
            "exit 4",
            'cli("doctor", "jane-1", "--repair")',
            """
                import time; time.sleep(3)
                cli("doctor", "jane-1", "--repair")
            """,
            setup="""
                store = open_store(f"file:{folder}/runs")
                plan = faults.on("create", faults.crashed("after"), prefix="runs/", skip=1)
                agent = clerk(book, script=[ToolCall("book", {"room": "5"}), "done"])
                try: Runner(agent, store=faults.FaultyStore(store, plan), lease=3).start(TASK, run_id="jane-1")
                except BaseException: pass
                newest = min((folder / "runs" / "runs" / "jane-1" / "v").iterdir())
                newest.write_bytes(newest.read_bytes()[:-1])
            """,
            names=("jane-1",),
        ),
    ),
)
