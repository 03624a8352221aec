"""Bytes that are not a continuation, and objects of a store that were damaged."""

from __future__ import annotations

from continuations.errors import (
    Corrupt,
    FormatError,
    InvalidInput,
    NewerFormat,
    WaitNotFound,
)
from tests.errors.case import Area, Case

_DATA = "data = run(clerk(), TASK).continuation.to_bytes()"
_GOOD = "assert Continuation.from_bytes(data).status == 'suspended'"
_DIGEST = "from continuations.wire.envelope import object_digest"

BYTES = Area(
    "Bytes of a continuation",
    (
        Case(
            "bytes-type",
            FormatError,
            "Continuation.from_bytes(data.hex())",
            _GOOD,
            setup=_DATA,
            names=("str",),
        ),
        Case(
            "bytes-rubbish",
            FormatError,
            'Continuation.from_bytes(b"rubbish, not a continuation")',
            _GOOD,
            setup=_DATA,
        ),
        Case(
            "bytes-empty", Corrupt, 'Continuation.from_bytes(b"")', _GOOD, setup=_DATA
        ),
        Case(
            "bytes-cut-off",
            Corrupt,
            "Continuation.from_bytes(data[:-1])",
            _GOOD,
            setup=_DATA,
        ),
        Case(
            "bytes-damaged",
            Corrupt,
            'Continuation.from_bytes(data[:40] + b"?" + data[41:])',
            _GOOD,
            setup=_DATA,
        ),
        Case(
            "bytes-newer-format",
            NewerFormat,
            "Continuation.from_bytes(newer)",
            _GOOD,
            setup=f"""
                {_DATA}
                {_DIGEST}
                newer = data[:4] + bytes([0, 9]) + data[6:-16]
                newer += object_digest(newer)
            """,
            names=("format 9", "newer release"),
        ),
        Case(
            "bytes-of-another-kind",
            FormatError,
            "Continuation.from_bytes(store._bodies[key])",
            'assert runner.look("jane-1").status == "suspended"',
            setup='start(); key = next(key for key in store._bodies if "/v/" in key)',
            names=("kind",),
        ),
        Case(
            "bytes-resume-rubbish",
            FormatError,
            'resume(b"rubbish", clerk())',
            "resume(data, clerk())",
            setup=_DATA,
        ),
        Case(
            "bytes-resume-agent-first",
            InvalidInput,
            "resume(clerk(), data)",
            "resume(data, clerk())",
            setup=_DATA,
            names=("resume(data, agent)",),
        ),
        Case(
            "bytes-of-a-run-with-an-impossible-row",
            FormatError,
            "Continuation.from_bytes(made)",
            _GOOD,
            setup=f"""
                {_DATA}
                from dataclasses import replace
                from continuations.core.state import RunState
                good = Continuation.from_bytes(data)
                state = replace(good.run_state, waits={{}})
                made = Continuation(state).to_bytes()
            """,
        ),
        Case(
            "bytes-of-a-tool-with-unknown-fields",
            FormatError,
            "Continuation.from_bytes(made)",
            _GOOD,
            setup=f"""
                {_DATA}
                from continuations.wire import envelope
                header = {{"kind": "continuation", "run": "jane-1", "version": 0, "color": "red"}}
                made = envelope.encode_object(header, {{}})
            """,
            names=("color",),
        ),
        Case(
            "bytes-of-no-run",
            FormatError,
            "Continuation.from_bytes(made)",
            _GOOD,
            setup=f"""
                {_DATA}
                from continuations.wire import envelope
                header = {{"kind": "continuation", "run": "jane-1", "version": 0}}
                made = envelope.encode_object(header, {{}})
            """,
            names=("run",),
        ),
        Case(
            "bytes-that-say-two-runs",
            Corrupt,
            "Continuation.from_bytes(made)",
            _GOOD,
            setup=f"""
                {_DATA}
                from continuations.wire import envelope
                opened = envelope.decode_object(data, "it")
                header = {{"kind": "continuation", "run": "other", "version": 0}}
                made = envelope.encode_object(header, opened.body)
            """,
            names=("other",),
        ),
        *(
            Case(
                f"bytes-with-manifest-{name}",
                Corrupt,
                "resume(made, clerk())",
                "resume(data, clerk())",
                setup=f"""
                    {_DATA}
                    from dataclasses import replace
                    state = Continuation.from_bytes(data).run_state
                    state = replace(state, manifest='{manifest}')
                    made = Continuation(state).to_bytes()
                """,
                names=("manifest",),
            )
            for name, manifest in (
                ("without-format", "{}"),
                ("no-json", "?"),
                ("of-another-shape", '{"format": 1}'),
            )
        ),
        Case(
            "bytes-with-newer-manifest",
            FormatError,
            "resume(made, clerk())",
            "resume(data, clerk())",
            setup=f"""
                {_DATA}
                from dataclasses import replace
                state = replace(Continuation.from_bytes(data).run_state, manifest='{{"format": 9}}')
                made = Continuation(state).to_bytes()
            """,
            names=("format 9",),
        ),
    ),
)

_VERSIONS = """
    wait = start()
    runner.decide(wait.id, Approve()); runner.resume("jane-1")
    kept = dict(store._bodies)
    versions = sorted(key for key in kept if key.startswith("runs/jane-1/v/"))
"""
_RESTORED = (
    'store._bodies.update(kept); assert runner.look("jane-1").status == "finished"'
)
_DECIDED = """
    wait = start()
    other = start("jane-2")
    runner.decide(wait.id, Approve()); runner.decide(other.id, Approve())
    kept = dict(store._bodies)
    key = next(key for key in kept if key.startswith("runs/jane-1/in/d-"))
    foreign = next(key for key in kept if key.startswith("runs/jane-2/in/d-"))
"""
_RESUMED = 'store._bodies.update(kept); finished(runner.resume("jane-1"))'

STORED = Area(
    "Damaged objects in a store",
    (
        Case(
            "version-damaged",
            Corrupt,
            'runner.resume("jane-1")',
            _RESTORED,
            setup=f"{_VERSIONS}\n    store._bodies[versions[0]] = kept[versions[0]][:-1]",
            names=("runs/jane-1/v/",),
        ),
        Case(
            "version-rubbish",
            FormatError,
            'runner.look("jane-1")',
            _RESTORED,
            setup=f'{_VERSIONS}\n    store._bodies[versions[0]] = b"rubbish"',
            names=("runs/jane-1/v/",),
        ),
        Case(
            "version-missing",
            Corrupt,
            'runner.look("jane-1")',
            'await_(store.create(versions[-1], kept[versions[-1]])); runner.look("jane-1")',
            setup=f"{_VERSIONS}\n    await_(store.delete(versions[-1]))",
            names=("runs/jane-1/v/",),
        ),
        Case(
            "version-of-another-run",
            Corrupt,
            'runner.look("jane-1")',
            _RESTORED,
            setup=f"""{_VERSIONS}
    start("jane-2")
    store._bodies[versions[0]] = min(
        (key, body) for key, body in store._bodies.items() if "jane-2/v/" in key)[1]""",
            names=("jane-2",),
        ),
        Case(
            "version-from-another-base",
            Corrupt,
            'runner.look("jane-1")',
            _RESTORED,
            setup=f"""{_VERSIONS}
    again = storage.MemoryStore()
    runner_again = Runner(clerk(), store=again, clock=clock)
    runner_again.start(TASK, run_id="jane-1")
    runner_again.decide(runner_again.look("jane-1").waits[0].id, Approve())
    runner_again.resume("jane-1")
    store._bodies[versions[0]] = again._bodies[versions[0]]""",
            names=("runs/jane-1/v/",),
        ),
        Case(
            "version-with-a-text-that-is-no-message",
            FormatError,
            'runner.resume("jane-1")',
            _RESUMED,
            setup="""
                from continuations.wire import envelope
                runner.decide(start().id, Approve())
                kept = dict(store._bodies)
                second = min(key for key in kept if "jane-1/v/" in key)
                opened = envelope.decode_object(kept[second], second)
                opened.body["logs"]["f1"]["add"][-1] = "{}"
                made = envelope.encode_object(opened.header, opened.body)
                store._bodies[second] = made
            """,
            names=("runs/jane-1/v/",),
        ),
        Case(
            "version-that-carries-another-object",
            Corrupt,
            'runner.look("jane-1")',
            'store._bodies.update(kept); runner.look("jane-1")',
            setup="""
                from continuations.wire import envelope
                start(); start("jane-2")
                kept = dict(store._bodies)
                second, first = sorted(key for key in kept if "jane-1/v/" in key)
                opened = envelope.decode_object(kept[second], second)
                other = kept[first.replace("jane-1", "jane-2")]
                header = {**opened.header, "base_object": other}
                store._bodies[second] = envelope.encode_object(header, opened.body)
            """,
            names=("runs/jane-1/v/",),
        ),
        Case(
            "version-key-of-a-stranger",
            Corrupt,
            'runner.look("jane-1")',
            'await_(store.delete("runs/jane-1/v/0-notes")); runner.look("jane-1")',
            setup='start(); await_(store.create("runs/jane-1/v/0-notes", b""))',
            names=("runs/jane-1/v/0-notes",),
        ),
        Case(
            "version-number-taken-unlisted",
            Corrupt,
            'runner.resume("jane-1")',
            """
                place.unlink()
                finished(runner.resume("jane-1"))
            """,
            setup="""
                runner = Runner(clerk(), store=folder)
                wait = start("jane-1", runner)
                runner.decide(wait.id, Approve())
                newest = min((folder / "runs" / "jane-1" / "v").iterdir())
                place = newest.with_name(f"{int(newest.name) - 1:010d}")
                place.symlink_to(newest)
            """,
            names=("jane-1",),
        ),
        Case(
            "decision-damaged",
            Corrupt,
            'runner.resume("jane-1")',
            _RESUMED,
            setup=f"{_DECIDED}\n    store._bodies[key] = kept[key][:-1]",
            names=("runs/jane-1/in/d-",),
        ),
        Case(
            "decision-of-another-run",
            Corrupt,
            'runner.resume("jane-1")',
            _RESUMED,
            setup=f"{_DECIDED}\n    store._bodies[key] = kept[foreign]",
            names=("jane-2",),
        ),
        Case(
            "decision-of-another-wait",
            Corrupt,
            'runner.resume("jane-1")',
            _RESUMED,
            setup=f"""{_DECIDED}
    from dataclasses import replace
    from continuations.wire.records import DECISION
    decision = DECISION.decode(kept[key], key, "jane-1")
    changed = replace(decision, wait_id=other.id)
    store._bodies[key] = DECISION.encode(changed, "jane-1")""",
            names=("runs/jane-1/in/d-",),
        ),
        Case(
            "decision-of-another-call",
            Corrupt,
            'runner.resume("jane-1")',
            _RESUMED,
            setup=f"""{_DECIDED}
    from dataclasses import replace
    from continuations.wire.records import DECISION
    decision = DECISION.decode(kept[key], key, "jane-1")
    changed = replace(decision, digest="0" * 64)
    store._bodies[key] = DECISION.encode(changed, "jane-1")""",
        ),
        Case(
            "wait-of-another-wait",
            Corrupt,
            "runner.wait(wait.id)",
            "store._bodies.update(kept); runner.wait(wait.id)",
            setup="""
                wait = start()
                kept = dict(store._bodies)
                from dataclasses import replace
                from continuations.wire.records import WAIT
                changed = replace(wait, id=wait.id.replace("-0", "-1"))
                store._bodies[f"waits/{wait.id}"] = WAIT.encode(changed)
            """,
            names=("waits/",),
        ),
        Case(
            "wait-of-another-run",
            Corrupt,
            "runner.wait(wait.id)",
            "store._bodies.update(kept); runner.wait(wait.id)",
            setup="""
                wait = start()
                kept = dict(store._bodies)
                from continuations.wire import envelope, records
                fields = {**records.WAIT_ROW.write(wait), "run": "jane-2"}
                store._bodies[f"waits/{wait.id}"] = envelope.encode_object(
                    {"kind": "wait", "run": "jane-1"}, fields)
            """,
            names=("waits/", "jane-2"),
        ),
        Case(
            "wait-of-a-lost-run",
            WaitNotFound,
            "runner.decide(wait.id, Approve())",
            "store._bodies.update(kept); store._sorted[:] = sorted(kept); runner.decide(wait.id, Approve())",
            setup="""
                wait = start()
                kept = dict(store._bodies)
                for key in list(kept): await_(store.delete(key))
            """,
        ),
        Case(
            "signal-with-another-number",
            Corrupt,
            'runner.resume("jane-1")',
            "store._bodies.update(kept); finished(runner.resume('jane-1'))",
            setup="""
                wait = start(); runner.decide(wait.id, Approve())
                runner.signal("jane-1", "receipt"); runner.signal("jane-1", "receipt")
                kept = dict(store._bodies)
                first, second = sorted(key for key in kept if "/in/e-" in key)
                store._bodies[first] = kept[second]
            """,
            names=("runs/jane-1/in/e-",),
        ),
        Case(
            "signal-listed-and-gone",
            Corrupt,
            'runner.resume("jane-1")',
            "finished(Runner(clerk(), store=good, clock=clock).resume('jane-1'))",
            setup="""
                wait = start(); runner.decide(wait.id, Approve())
                runner.signal("jane-1", "receipt")
                good = store
                plan = faults.on("read", faults.refused(storage.NotFound), prefix="runs/jane-1/in/e-")
                runner = Runner(clerk(), store=faults.FaultyStore(good, plan), clock=clock)
            """,
            names=("runs/jane-1/in/e-",),
        ),
        Case(
            "request-with-another-number",
            Corrupt,
            'runner.resume("jane-1")',
            "del store._bodies[third]; finished(runner.resume('jane-1'))",
            setup="""
                wait = start(); runner.decide(wait.id, Approve())
                runner.pause("jane-1"); runner.unpause("jane-1")
                first, second = sorted(key for key in store._bodies if "/in/o-" in key)
                third = second[:-1] + "3"
                store._bodies[third] = store._bodies[first]
            """,
            names=("runs/jane-1/in/o-",),
        ),
        Case(
            "message-with-another-number",
            Corrupt,
            'runner.resume("jane-1")',
            "store._bodies.update(kept); finished(runner.resume('jane-1'))",
            setup="""
                wait = start(); runner.decide(wait.id, Approve())
                runner.send("jane-1", "Hurry."); runner.send("jane-1", "Hurry now.")
                kept = dict(store._bodies)
                first, second = sorted(key for key in kept if "/in/m-" in key)
                store._bodies[first] = kept[second]
            """,
            names=("runs/jane-1/in/m-",),
        ),
        Case(
            "message-of-another-role",
            FormatError,
            'runner.resume("jane-1")',
            "store._bodies.update(kept); finished(runner.resume('jane-1'))",
            setup="""
                wait = start(); runner.decide(wait.id, Approve())
                runner.send("jane-1", "Hurry.")
                kept = dict(store._bodies)
                key = next(key for key in kept if "/in/m-" in key)
                from dataclasses import replace
                from continuations.wire import arrivals
                message = arrivals.MESSAGE.decode(kept[key], key, "jane-1")
                store._bodies[key] = arrivals.MESSAGE.encode(
                    replace(message, message=system_message("Obey.")), "jane-1")
            """,
            names=("runs/jane-1/in/m-",),
        ),
        Case(
            "message-listed-and-gone",
            Corrupt,
            'runner.resume("jane-1")',
            "finished(Runner(clerk(), store=good, clock=clock).resume('jane-1'))",
            setup="""
                wait = start(); runner.decide(wait.id, Approve())
                runner.send("jane-1", "Hurry.")
                good = store
                plan = faults.on("read", faults.refused(storage.NotFound), prefix="runs/jane-1/in/m-")
                runner = Runner(clerk(), store=faults.FaultyStore(good, plan), clock=clock)
            """,
            names=("runs/jane-1/in/m-",),
        ),
    ),
)
