"""The turns of a model: its request, its reply, compaction."""
