"""JSON pointers (RFC 6901): `/orders/0/item` names a place in a document."""


class NotThere(LookupError):
    """The document has no such place."""


def parse(pointer):
    """The parts of a pointer, unescaped: `~1` stands for a slash, `~0` for a tilde."""
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise ValueError("a pointer is empty or begins with a slash")
    return [part.replace("~0", "~").replace("~1", "/") for part in pointer[1:].split("/")]


def step(value, part):
    if isinstance(value, dict):
        if part in value:
            return value[part]
    elif isinstance(value, list):
        if part.isdigit() and int(part) <= len(value):
            return value[int(part)]
    raise NotThere(part)


def resolve(document, pointer):
    for part in parse(pointer):
        document = step(document, part)
    return document
