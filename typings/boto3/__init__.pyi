# What is used; boto3 ships no types.

from typing import Any

def client(service_name: str, **options: object) -> Any: ...
