"""Thin doors: HTTP, AWS Lambda, people who are told. Each is imported by its path."""
