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
_VOTING = """
    (folder / "voting.py").write_text(
        "from continuations import Agent, ApprovalPolicy, Runner, tool\\n"
        "from continuations.models.scripted import ScriptedModel, ToolCall\\n"
        "@tool(approval=ApprovalPolicy(approvers=['group:finance']))\\n"
        "def pay(cents: int) -> str:\\n"
        "    'Pay.'\\n"
        "    return 'paid'\\n"
        "model = ScriptedModel([ToolCall('pay', {'cents': 5}), 'done'])\\n"
        "agent = Agent('boss', tools=[pay], model=model)\\n"
        f"runner = Runner(agent, store='file:{folder}/runs', groups=lambda name: ['finance'])\\n")
    cli("start", TASK, "--run-id", "jane-1", "--app", "voting:runner")
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
_APPROVE = 'cli("approve", wait_id)'

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
            "cli-unknown-conversation",
            _USAGE,
            'cli("show", "talker", "--key", "42")',
            'cli("runs")',
            setup=f'{_APP}\n    (folder / "runs").mkdir()',
            names=("--key",),
        ),
        Case(
            "cli-rewind-plan-with-yes",
            _USAGE,
            'cli("rewind", "jane-1", "--version", "1", "--plan", "--yes")',
            'cli("rewind", "jane-1", "--version", "1", "--plan")',
            setup=STARTED,
            names=("--plan", "--yes"),
        ),
        Case(
            "cli-chat-id-without-message",
            _USAGE,
            'cli("chat", "--key", "42", "--id", "m-1", "--app", "payroll:talker")',
            'cli("chat", "--key", "42", "--message", TASK, "--id", "m-1",'
            ' "--app", "payroll:talker")',
            setup=_APP,
            names=("--id", "--message"),
        ),
        Case(
            "cli-without-app",
            _USAGE,
            'cli("start", TASK)',
            _START,
            setup=_APP,
            names=("--app", "MODULE:NAME"),
        ),
        Case(
            "cli-groups",
            _USAGE,
            'cli("approve", wait_id, "--app", "voting:agent")',
            'cli("approve", wait_id, "--app", "voting:runner")',
            setup=_VOTING,
            names=("--app", "groups"),
        ),
        Case(
            "cli-file",
            _USAGE,
            'cli("start", TASK, "--app", "payroll:agent", "--file", "none.png")',
            _START,
            setup=_APP,
            names=("--file", "none.png"),
        ),
        Case(
            "cli-file-too-large",
            _USAGE,
            """
                with (folder / "large.bin").open("wb") as file:
                    file.truncate((64 << 20) + 1)
                cli("start", TASK, "--app", "payroll:agent", "--file", str(folder / "large.bin"))
            """,
            _START,
            setup=_APP,
            names=("--file", "large.bin", "67108864"),
        ),
        Case(
            "cli-chat-file-without-message",
            _USAGE,
            'cli("chat", "--key", "42", "--file", "a.png", "--app", "payroll:talker")',
            'cli("chat", "--key", "42", "--message", TASK, "--app", "payroll:talker")',
            setup=_APP,
            names=("--file", "--message"),
        ),
        Case(
            "cli-context-form",
            _USAGE,
            'cli("start", TASK, "--app", "payroll:agent", "--context", "payroll.py")',
            'cli("start", TASK, "--app", "payroll:agent", "--context", "payroll:number")',
            setup=_APP,
            names=("--context", "payroll.py"),
        ),
        Case(
            "cli-label",
            _USAGE,
            'cli("start", TASK, "--app", "payroll:agent", "--label", "finance")',
            'cli("start", TASK, "--app", "payroll:agent", "--label", "team=finance")',
            setup=_APP,
            names=("--label", "finance", "team=finance"),
        ),
        Case(
            "cli-setting",
            _USAGE,
            'cli("start", TASK, "--app", "payroll:agent", "--setting", "temperature")',
            'cli("start", TASK, "--app", "payroll:agent", "--setting", "temperature=0")',
            setup=_APP,
            names=("--setting", "temperature"),
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
            "cli-without-store",
            _USAGE,
            'cli("waiting", store=False)',
            'cli("waiting")',
            setup='(folder / "runs").mkdir()',
            names=("--store",),
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
            "cli-app-form",
            _USAGE,
            'cli("start", TASK, "--app", "payroll.py")',
            _START,
            setup=_APP,
            names=("--app", "payroll.py"),
        ),
        Case(
            "cli-app-module",
            _USAGE,
            'cli("start", TASK, "--app", "payrol:agent")',
            _START,
            setup=_APP,
            names=("--app", "payrol"),
        ),
        Case(
            "cli-app-name",
            _USAGE,
            'cli("start", TASK, "--app", "payroll:agents")',
            _START,
            setup=_APP,
            names=("--app", "payroll", "agents"),
        ),
        Case(
            "cli-app-import-fails",
            _USAGE,
            'cli("start", TASK, "--app", "broken:agent")',
            _START,
            setup=f"""{_APP}
    (folder / "broken.py").write_text("import json\\nraise LookupError('no such region')\\n")""",
            names=("--app", "broken", "LookupError"),
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
            "cli-two-stores",
            _USAGE,
            'cli("start", TASK, "--app", "payroll:runner", "--store", "file:other", store=False)',
            'cli("start", TASK, "--app", "payroll:runner")',
            setup=_APP,
            names=("--app", "--store", "file:other"),
        ),
        Case(
            "cli-run-for-wait",
            _USAGE,
            'cli("approve", "jane-1")',
            _APPROVE,
            setup=STARTED,
            names=("jane-1",),
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
            "cli-run-again-of-an-approval",
            _USAGE,
            'cli("approve", wait_id, "--run-again")',
            _APPROVE,
            setup=STARTED,
            names=("--run-again", "jane-1"),
        ),
        Case(
            "cli-who-decides",
            _USAGE,
            'cli("approve", wait_id)',
            'cli("approve", wait_id, "--by", "kim")',
            setup=f"""{STARTED}
    import os, pwd
    os.environ.pop("CONTINUATIONS_BY", None)
    scene.patch(pwd, "getpwuid", {{}}.__getitem__)""",
            names=("--by", "CONTINUATIONS_BY"),
        ),
        Case(
            "cli-arguments-no-json",
            _USAGE,
            'cli("approve", wait_id, "--arguments", "cents=5")',
            "cli('approve', wait_id, '--arguments', '{\"cents\": 5}')",
            setup=STARTED,
            names=("--arguments", "cents=5"),
        ),
        Case(
            "cli-arguments-rounded",
            _USAGE,
            "cli('approve', wait_id, '--arguments', '{\"cents\": 5.00000000000000001}')",
            "cli('approve', wait_id, '--arguments', '{\"cents\": 5}')",
            setup=STARTED,
            names=("--arguments", "5.00000000000000001"),
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
            "cli-remember-no-grant",
            _USAGE,
            "cli('approve', wait_id, '--remember', '[]')",
            "cli('approve', wait_id, '--remember', '{\"tool\": \"pay\"}')",
            setup=STARTED,
            names=("--remember",),
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
            "cli-approve-unknown-outcome",
            _USAGE,
            'cli("approve", wait_id)',
            'cli("approve", wait_id, "--run-again")',
            setup=_UNKNOWN,
            names=("--run-again", "answer"),
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
            "cli-timeout-without-wait",
            _USAGE,
            'cli("resume", "jane-1", "--app", "payroll:agent", "--timeout", "5")',
            'cli("resume", "jane-1", "--app", "payroll:agent", "--timeout", "5", "--wait-if-busy")',
            setup=STARTED,
            names=("--timeout", "--wait-if-busy"),
        ),
        Case(
            "cli-stream-without-work",
            _USAGE,
            'cli("start", TASK, "--app", "payroll:agent", "--no-work", "--stream")',
            'cli("start", TASK, "--app", "payroll:agent", "--stream")',
            setup=_APP,
            names=("--stream", "--no-work"),
        ),
        Case(
            "cli-extra-missing",
            _USAGE,
            'cli("waiting")',
            "scene.close(); cli('--version', store=False)",
            setup='scene.without_module("typer.main", "continuations.cli.entry_point")',
            names=("pip install", "typer", "rich"),
            is_list=True,
        ),
    ),
)

COMMANDS = Area(
    "Command line: commands that fail",
    (
        Case(
            "cli-missing-folder",
            "exit 5",
            'cli("inbox", "--for", "all")',
            f'{_START}; cli("inbox", "--for", "all")',
            setup=_APP,
            names=("StoreUnavailable", "the folder does not exist", "start a run"),
        ),
        Case(
            "cli-unknown-run",
            "exit 5",
            'cli("show", "jane-2")',
            'cli("show", "jane-1")',
            setup=STARTED,
            names=("RunNotFound", "jane-2"),
        ),
        Case(
            "cli-decide-twice",
            "exit 5",
            'cli("deny", wait_id, "--by", "kim")',
            'cli("resume", "jane-1", "--app", "payroll:agent")',
            setup=f'{STARTED}\n    cli("approve", wait_id, "--by", "jo")',
            names=("AlreadyDecided", "jo"),
        ),
        Case(
            "cli-busy",
            "exit 4",
            'cli("resume", "jane-1", "--app", "payroll:agent")',
            'cli("resume", "jane-1", "--app", "payroll:agent", "--wait-if-busy")',
            setup=f"""{_APP}
    store = open_store(f"file:{{folder}}/runs")
    plan = faults.on("create", faults.crashed("after"), prefix="runs/")
    try: Runner(clerk(), store=faults.FaultyStore(store, plan), lease=3).start(TASK, run_id="jane-1")
    except BaseException: pass""",
            names=("RunBusy", "jane-1"),
        ),
        Case(
            "cli-cancel-ended-run",
            "exit 1",
            'cli("cancel", "jane-1")',
            'cli("show", "jane-1")',
            setup=f"""{STARTED}
    cli("approve", wait_id); cli("resume", "jane-1", "--app", "payroll:agent")""",
            names=("jane-1", "finished"),
            is_list=True,
        ),
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
            "cli-doctor-finds-damage",
            "exit 1",
            'cli("doctor", "jane-1")',
            """
                cli("doctor", "jane-1", "--repair")
                cli("resume", "jane-1", "--app", "payroll:agent")
            """,
            setup=f"""{_APP}
    import time
    Runner(clerk(), store=folder / "runs", lease=0.1).start(TASK, run_id="jane-1")
    newest = min((folder / "runs" / "runs" / "jane-1" / "v").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    time.sleep(0.1)""",
            names=("jane-1", "--repair"),
            is_list=True,
        ),
        Case(
            "cli-doctor-unknown-run",
            "exit 5",
            'cli("doctor", "jane-2")',
            'cli("doctor", "jane-1")',
            setup=STARTED,
            names=("jane-2",),
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
