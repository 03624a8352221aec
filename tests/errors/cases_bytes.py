"""Bytes that are not a continuation, and objects of a store that were damaged."""

from __future__ import annotations

from continuations import errors
from tests.errors.case import Area, Case

_DATA = "data = run(clerk(), TASK).continuation.to_bytes()"
_GOOD = "assert Continuation.from_bytes(data).status == 'suspended'"
_DIGEST = "from continuations.wire.envelope import object_digest"

BYTES = Area(
    "Bytes of a continuation",
    (
        Case(
            "bytes-of-another-kind",
            errors.FormatError,
            "Continuation.from_bytes(store._bodies[key])",
            'assert runner.look("jane-1").status == "suspended"',
            setup='start(); key = next(key for key in store._bodies if "/v/" in key)',
            names=("kind",),
        ),
        Case(
            "bytes-newer-format",
            errors.NewerFormat,
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
        *(
            Case(
                f"bytes-with-manifest-{name}",
                errors.Corrupt,
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
    ),
)


STORED = Area(
    "Damaged objects in a store",
    (
        Case(
            "signal-with-another-number",
            errors.Corrupt,
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
            errors.Corrupt,
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
            errors.Corrupt,
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
    ),
)
