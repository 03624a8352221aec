# What is used; botocore ships no types.

from email.message import Message

class AWSRequest:
    headers: Message
