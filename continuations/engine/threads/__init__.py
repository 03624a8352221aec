"""Threads: conversations of many messages."""
