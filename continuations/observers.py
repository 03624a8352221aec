"""The types of observers: `runner.observe(observer)` shows them the work on runs.

from continuations.observers import ObservedCall, WorkObserver
"""

from __future__ import annotations

from continuations.engine.work_observers import (
    ActionObserver,
    ObservedCall,
    ObservedEnd,
    ObservedFrame,
    ObservedRequest,
    ObservedSession,
    ObservedVersion,
    ObservedWait,
    SessionObserver,
    WorkObserver,
)

__all__ = [
    "ActionObserver",
    "ObservedCall",
    "ObservedEnd",
    "ObservedFrame",
    "ObservedRequest",
    "ObservedSession",
    "ObservedVersion",
    "ObservedWait",
    "SessionObserver",
    "WorkObserver",
]
