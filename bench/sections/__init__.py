"""What can be measured, by name; each is a function of one Context."""
from collections import namedtuple

from . import agent, gym, jobs, leftovers, library, memory, output, search, server, session, start, stream, tools

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
    "agent": agent.agent,
    "session": session.session,
    "stream": stream.stream,
    "output": output.output,
    "leftovers": leftovers.leftovers,
    "memory": memory.memory,
    "gym": gym.gym,
    "jobs": jobs.jobs,
    "server": server.server,
}
