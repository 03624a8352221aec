"""Events of runs for applications: stored ones, and live words."""
