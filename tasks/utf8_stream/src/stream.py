"""Lines of text from a byte stream that arrives in pieces of any size."""


class LineReader:
    """Feed it pieces; it gives the lines that became complete. Bytes that are not UTF-8 become U+FFFD."""

    def __init__(self):
        self._rest = ""

    def feed(self, piece):
        text = self._rest + piece.decode("utf-8", "replace")
        *lines, self._rest = text.split("\n")
        return lines

    def finish(self):
        """The last line, if it has no end; then the reader starts anew."""
        rest, self._rest = self._rest, ""
        return [rest] if rest else []
