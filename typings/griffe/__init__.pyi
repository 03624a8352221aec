class Alias:
    target_path: str

class Module:
    members: dict[str, object]

class Extension: ...
