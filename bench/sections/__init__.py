"""What can be measured, by name; each is a function of one Context."""
from collections import namedtuple

from . import leftovers, library, memory, output, start, tools

Context = namedtuple("Context", "stage user report quick")

ALL = {
    "start": start.start,
    "pool": library.pool,
    "exec": library.execute,
    "fork": library.fork,
    "rate": library.rate,
    "tools": tools.calls,
    "output": output.output,
    "leftovers": leftovers.leftovers,
    "memory": memory.memory,
}
