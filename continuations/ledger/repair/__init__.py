"""Doctor, checks, erasing, pruning, the audit."""
