"""Workflows in the engine: the replay before the claim, and the steps after it."""
