"""What a scripted model answers, in a form that belongs to no protocol (model_protocols.py renders it).

    Reply("I will look.", call("bash", command="ls"))                  text, then a tool call
    Reply(think("hm"), "Done.", usage=Usage(input=900, output=20))      thinking, then text
    Reply("x", status=529, retry_after="0")                             a refusal with HTTP status 529
    Reply("long…", stall=0.5)                                           stops half way until reply.release()

Faults are members of a Reply; see there. A script is a list of replies, handed out one per request, or a function
of the request; a member of the list may be such a function too.
"""
import itertools
import threading
from dataclasses import dataclass, field

_numbers = itertools.count(1)


@dataclass
class Call:
    name: str
    input: dict
    id: str = ""
    raw: str = None  # the input's text as it is sent, where it is not the input's JSON

    def __post_init__(self):
        self.id = self.id or f"call_{next(_numbers):06d}"


@dataclass
class Think:
    text: str
    redacted: bool = False
    signature: str = ""

    def __post_init__(self):
        self.signature = self.signature or f"signature+{next(_numbers):06d}/=="


@dataclass
class Usage:
    input: int = None  # all of it; None: what the request's size suggests
    output: int = None
    cache_read: int = 0
    cache_write: int = 0


def call(name, **input):
    return Call(name, input)


def think(text, **more):
    return Think(text, **more)


class Reply:
    """One answer, or one fault.

    stop         a stop reason in Anthropic's words; None: tool_use with calls, end_turn without
    piece        characters per delta
    split        bytes per chunk of the transfer: 1 is every byte by itself; None: one event each
    eol          line ending of the stream: "\\n", "\\r\\n", "\\r"
    pings        pings, comments and unknown events between all events
    pace         seconds between events
    stall        the part (0…1) of the stream's bytes behind which it stops until release(); reached is set then
    drop         the part of the stream's bytes behind which the connection is closed; -1: before the status line
    error        the part of the stream's events behind which an error event comes, of the type error_type
    status       an HTTP status other than 200, with `body` (or the provider's form of an error) and retry_after
    whole        the answer as one JSON document, though a stream was asked for
    quirks       of compatible servers: no-id, index-0, whole-call, stop-anyway, no-usage (chat only)
    """

    def __init__(self, *blocks, stop=None, usage=None, piece=24, split=None, eol="\n", pings=False, pace=0.0, stall=None,
                 drop=None, error=None, error_type="overloaded_error", status=200, retry_after=None, body=None, whole=False,
                 quirks=(), headers=None):
        self.blocks, self.usage, self.piece, self.split, self.eol = list(blocks), usage or Usage(), piece, split, eol
        self.pings, self.pace, self.stall, self.drop, self.error = pings, pace, stall, drop, error
        self.error_type, self.status, self.retry_after, self.body, self.whole = error_type, status, retry_after, body, whole
        self.quirks, self.headers = set(quirks), dict(headers or {})
        self.stop = stop or ("tool_use" if self.calls else "end_turn")
        self.reached, self.released = threading.Event(), threading.Event()

    @property
    def calls(self):
        return [b for b in self.blocks if isinstance(b, Call)]

    @property
    def text(self):
        return "".join(b for b in self.blocks if isinstance(b, str))

    def release(self):
        self.released.set()

    def pieces(self, text):
        return [text[i:i + self.piece] for i in range(0, len(text), self.piece)]


@dataclass
class Result:
    """A tool's result, as the model sees it."""
    id: str
    text: str
    is_error: bool = False


@dataclass
class Request:
    """What hutch asked, in the neutral form: `body` is the JSON that came, `raw` its bytes."""
    api: str
    body: dict
    raw: bytes
    headers: dict
    system: str = ""
    tools: list = field(default_factory=list)      # names
    answers: int = 0                               # messages of the assistant in the conversation
    said: list = field(default_factory=list)       # texts of the user, in order
    spoken: list = field(default_factory=list)     # texts of the assistant
    calls: list = field(default_factory=list)      # (id, name, input) of the assistant, in order
    results: list = field(default_factory=list)    # all results, in order
    problems: list = field(default_factory=list)   # rules that it breaks
    arrived: float = 0.0
    reply: Reply = None
    broken: bool = False                           # the client left before the answer's end

    @property
    def result(self):
        """The text of the last tool's result."""
        return self.results[-1].text if self.results else ""
