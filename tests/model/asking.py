"""What the probe says, and what tests ask about it."""
import json

KEY = "sk-test-0123456789"


class Heard:
    def __init__(self, lines):
        self.lines = lines
        self.replies = [line for line in lines if "reply" in line]
        self.errors = [line for line in lines if "error" in line]
        self.waits = [line for line in lines if line.get("event") == "wait"]
        self.backs = [line for line in lines if line.get("event") == "back"]

    @property
    def text(self):
        """What a screen would hold."""
        seen = b""
        for line in self.lines:
            if line.get("event") == "text":
                seen += line["text"].encode()
            elif line.get("event") == "back":
                seen = seen[:line["keep"]]
        return seen.decode()

    @property
    def said(self):
        """How often each text was handed out."""
        return [line["text"] for line in self.lines if line.get("event") == "text"]


def listen(process):
    out, err = process.communicate(timeout=300)
    assert err == b"" and process.returncode == 0
    return Heard([json.loads(line) for line in out.splitlines()])


def reply_text(heard):
    return "".join(block.get("text", "") for block in heard.replies[-1]["reply"])


def only_error(heard):
    assert heard.replies == []
    assert len(heard.errors) == 1, heard.lines
    return heard.errors[0]["error"], heard.errors[0]["text"]
