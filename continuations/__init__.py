"""Agents that cost nothing while they wait, and come back whole."""
