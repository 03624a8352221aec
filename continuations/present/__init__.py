"""Text and JSON forms of runs, waits and decisions.

The command line, HTTP, AWS Lambda, webhooks and mail show the same values. Each value
has one JSON form (`json_forms`), described by one JSON Schema file
(`schemas`, `docs/schemas/continuations.schema.json`), and one set of words for people
(`wait_text`). `escaping` makes text of models and people safe to show, and `problems`
names errors.
"""
