"""How a run changes: events, the reducer, the plan."""
