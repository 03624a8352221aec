# The part of botocore that is used; botocore has no type hints.

class Loader:
    def list_available_services(self, type_name: str) -> list[str]: ...
