"""Agents: their options and classes."""
