"""Pure values and functions: the state of a run and the events that change it."""
