# What is used; botocore ships no types.

class Config:
    def __init__(self, **options: object) -> None: ...
