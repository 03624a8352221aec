"""The clients of these tests come from npm; without them, no test is collected."""

from __future__ import annotations

from tests.interop.agui import clients

collect_ignore_glob = [] if clients.is_installed() else ["test_*.py"]
