# The part of botocore that is used; botocore has no type hints.

class Config:
    def __init__(self, **options: object) -> None: ...
