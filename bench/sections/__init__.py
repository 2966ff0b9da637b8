"""What can be measured, by name; each is a function of one Context."""
from collections import namedtuple

from . import leftovers, library, memory, output, search, start, tools

Context = namedtuple("Context", "stage user report quick")

ALL = {
    "start": start.start,
    "pool": library.pool,
    "exec": library.execute,
    "fork": library.fork,
    "rate": library.rate,
    "tools": tools.calls,
    "search_files": search.search_files,
    "list_files": search.list_files,
    "output": output.output,
    "leftovers": leftovers.leftovers,
    "memory": memory.memory,
}
