"""From the path of a request to the name of a file beneath the folder that is served."""


class Forbidden(Exception):
    """The path leads out of the folder."""


def normalise(path):
    """The path without empty parts, `.` and `..`, always relative."""
    parts = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part:
            parts.append(part)
    return "/".join(parts)


def locate(root, path):
    """The file that a request means; a folder means its index.html."""
    name = normalise(path)
    if path.endswith("/") or not name:
        name = f"{name}/index.html".lstrip("/")
    return f"{root}/{name}"
