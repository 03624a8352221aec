"""Published events in a bucket: processes that race."""

from __future__ import annotations

from tests.engine.test_threads_in_processes import check_no_event_is_lost
from tests.run_environment import RunEnvironment


def test_no_event_is_lost_in_a_bucket(environment: RunEnvironment) -> None:
    """Publishers and runs begin at the same moment."""
    check_no_event_is_lost(environment, "tea", 6)
