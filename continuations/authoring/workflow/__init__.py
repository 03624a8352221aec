"""Workflows: the declaration, what their code calls, and the loop that it runs on."""
