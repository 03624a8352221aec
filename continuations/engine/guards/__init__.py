"""Hooks and guardrails of calls and of turns."""
