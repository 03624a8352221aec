"""Read the paused agents of other programs."""
