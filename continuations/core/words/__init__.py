"""Texts for people: summaries, evidence, secret arguments."""
