"""The stack of a run, bound to the agents and tools of this process."""
