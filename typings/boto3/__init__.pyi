# The part of boto3 that is used; boto3 has no type hints.

from typing import Any

def client(service_name: str, **options: object) -> Any: ...
