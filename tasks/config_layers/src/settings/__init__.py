"""Settings in layers: what the program has built in, then a file, then the environment. Later layers win."""

from settings.environment import from_environment
from settings.layers import merge
from settings.text import parse


def load(builtin, text, environment, prefix):
    return merge(merge(builtin, parse(text)), from_environment(environment, prefix))
