"""The file: `[table]` lines, `key = value` lines, comments after a `#`. Values are numbers, true, false or strings."""


def value_of(word):
    if word.startswith('"') and word.endswith('"') and len(word) >= 2:
        return word[1:-1]
    if word in ("true", "false"):
        return word == "true"
    return int(word) if word.lstrip("-").isdecimal() else word


def strip_comment(line):
    """The line up to its comment. A `#` within quotes begins none."""
    return line.split("#")[0].strip()


def parse(text):
    settings = table = {}
    for line in map(strip_comment, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            table = settings.setdefault(line[1:-1].strip(), {})
        elif line:
            key, equals, word = line.partition("=")
            if not equals:
                raise ValueError(f"neither a table nor a setting: {line}")
            table[key.strip()] = value_of(word.strip())
    return settings
