"""Text and JSON forms of runs, waits and decisions.

The command line, HTTP, AWS Lambda, webhooks and mail show the same values. Each value
has one JSON form (`json_forms`), described by one JSON Schema file
(`schemas`, `docs/schemas/continuations.schema.json`). A wait has one view for people
(`wait_view`), made of one set of words (`wait_words`). `requests` has the bodies of
requests and their reader, and `problems` names errors.
"""
