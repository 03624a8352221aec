"""The tools and agents that an application declares."""
