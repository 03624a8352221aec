"""The parts of `continuations.serve.aws_lambda`, and dispatchers for SQS and Lambda."""
