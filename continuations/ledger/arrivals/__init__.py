"""Arrivals of a run: messages, signals, requests, records of decisions."""
