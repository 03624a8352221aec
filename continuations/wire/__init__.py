"""Stored bytes: encode core values, and decode and check bytes."""
