# The part of botocore that is used; botocore has no type hints.

from email.message import Message

class AWSRequest:
    headers: Message
