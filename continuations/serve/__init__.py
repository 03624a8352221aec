"""Serve runs over HTTP and in AWS Lambda, and notify people about waits.

Import each part by its path, so that the path shows its dependencies:

- `continuations.serve.http.api`: the HTTP API, without a framework.
- `continuations.serve.http.asgi`: the HTTP API as an ASGI application (extra `web`).
- `continuations.serve.http.links`: signed links.
- `continuations.serve.lifespan`: the worker loop inside a web application.
- `continuations.serve.aws_lambda`: the handler for AWS Lambda.
- `continuations.serve.aws.dispatch`: dispatchers for SQS and Lambda.
- `continuations.serve.dispatch`: the `Dispatcher` protocol.
- `continuations.serve.notify.webhook`, `continuations.serve.notify.mail`: notifiers.
- `continuations.serve.wait_texts`: the view of a wait, for doors of your own.
"""
