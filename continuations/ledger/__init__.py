"""The versions, waits, decisions, inbox and markers of runs, as objects in a store."""
