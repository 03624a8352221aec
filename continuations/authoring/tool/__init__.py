"""Tools: their options, classes and results."""
