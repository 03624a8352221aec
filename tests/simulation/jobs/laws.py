"""Laws of jobs of other systems: who stops them, and when."""

from __future__ import annotations

from itertools import pairwise

from tests.simulation.evidence import Evidence


def stopped_before_its_end(evidence: Evidence) -> str | None:
    """A job without a result is stopped at least once before its wait is gone.

    And `on_cancel` is never called for a job whose wait has left the versions.
    """
    stops: dict[str, list[float]] = {}
    for wait_id, at in evidence.environment.stops:
        stops.setdefault(wait_id, []).append(at)
    for history in evidence.runs.values():
        for before, after in pairwise(history.versions):
            for wait in before.state.waits.values():
                if wait.id in after.state.waits or not wait.cancels:
                    continue
                decision, _ = evidence.decisions.get(wait.id, (None, 0.0))
                if decision is None or decision.kind not in ("cancel", "expire"):
                    continue
                times = stops.get(wait.id, [])
                if not any(at < after.at for at in times):
                    return f"{wait.id} ended by {decision.kind} and was not stopped"
                if any(at > after.at for at in times):
                    return f"{wait.id} was stopped after its end"
    return None


def job_with_a_result_is_not_stopped(evidence: Evidence) -> str | None:
    """A job whose result was recorded is never stopped."""
    for wait_id, at in evidence.environment.stops:
        decision, decided_at = evidence.decisions.get(wait_id, (None, 0.0))
        if decision is None:
            return f"{wait_id} was stopped at {at} without a decision"
        if decision.kind not in ("cancel", "expire"):
            return f"{wait_id} was stopped at {at}, and had a result at {decided_at}"
    return None
