"""Runs whose events are read while they happen.

from continuations.streams import AsyncRunStream, RunStream
"""

from __future__ import annotations

from continuations.engine.runner.sync_storeless import resume_stream, run_stream
from continuations.engine.sync.run_streams import AsyncRunStream, RunStream

__all__ = [
    "AsyncRunStream",
    "RunStream",
    "resume_stream",
    "run_stream",
]
