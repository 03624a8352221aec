"""The rows of `drift`: what the code of this process would do with a stored run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.authoring.manifest import ManifestChange
    from continuations.core.run import RunStatus

DriftVerdict = Literal["accept", "reopen", "refuse"]
# From the best to the worst.
DRIFT_VERDICTS: tuple[DriftVerdict, ...] = ("accept", "reopen", "refuse")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReason:
    """Why the code does not accept a run as it is.

    Attributes:
        verdict: `"reopen"` or `"refuse"`.
        change: The kind of change:

            - `removed`: an agent, a tool or a function of a tool is missing
            - `schema`: the tool has other parameters
            - `contract`: the tool has another contract: its version or a detail of its
              schema
            - `approval`: the approval is not valid any more, for example because of
              another approval policy
            - `state`: a stored state does not fit the type of its agent
            - `model`: an agent has no model, or one that cannot answer
            - `context`: the given `context` has another type
            - `prices`: the run has a budget in money, and a price is missing
            - `policy`: the approval policy raised an exception, or denies the call now
            - `stored`: an object of the run is damaged or newer than this release
        agent: Name of the agent, as it is stored; empty if it is not known.
        path: Names from the root agent down to the tool or agent; may be empty.
        wait_id: Id of the wait that would be opened again, or whose answer would be
            refused; `None` for other reasons.
        text: The error that `resume` would raise, or the note of the new wait.
    """

    verdict: DriftVerdict
    change: str
    agent: str
    path: tuple[str, ...]
    wait_id: str | None = None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRow:
    """The effect that the code of this process would have on one run.

    Attributes:
        run_id: Id of the run.
        agent: Name of the root agent; empty if the run cannot be read.
        status: Status of the newest version, or `"unreadable"`.
        verdict: The worst verdict of `why`; `"accept"` without a reason.

            - `accept`: the run goes on, and open waits can be approved as they are
            - `reopen`: the run goes on, and an approved call waits again or is denied
            - `refuse`: `resume` raises an error and changes nothing, now or once an
              open wait is answered
        why: The reasons, in the order in which `resume` would meet them.
        code_changes: All differences between the stored code and the code of this
            process. Most of them stop nothing.
    """

    run_id: str
    agent: str = ""
    status: RunStatus | Literal["unreadable"] = "unreadable"
    verdict: DriftVerdict
    why: tuple[DriftReason, ...] = ()
    code_changes: tuple[ManifestChange, ...] = ()
