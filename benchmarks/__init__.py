"""Measure the costs of the library beside the costs of an alternative."""
