"""Hooks and guardrails at work."""
