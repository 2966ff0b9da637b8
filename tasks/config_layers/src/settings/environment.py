"""Settings from the environment: with the prefix APP, `APP_COLOUR=never` is colour, `APP_SERVER__PORT=80` is port of
the table server."""

from settings.text import value_of


def from_environment(environment, prefix):
    settings = {}
    for name, word in environment.items():
        if name.startswith(prefix + "_"):
            key = name[len(prefix) + 1:].lower()
            settings[key] = value_of(word)
    return settings
