"""Fork, rewind and adoption of runs, and their drift."""
