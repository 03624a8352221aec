"""Runs without a store, for asynchronous code.

from continuations.aio import resume, run
"""

from __future__ import annotations

from continuations.engine.runner.storeless import resume_async as resume
from continuations.engine.runner.storeless import resume_stream_async as resume_stream
from continuations.engine.runner.storeless import run_async as run
from continuations.engine.runner.storeless import run_stream_async as run_stream

__all__ = ["resume", "resume_stream", "run", "run_stream"]
