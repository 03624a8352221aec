# What is used; botocore ships no types.

class Loader:
    def list_available_services(self, type_name: str) -> list[str]: ...
