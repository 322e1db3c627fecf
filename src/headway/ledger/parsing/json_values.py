"""Counts the values of a JSON text without parsing it. Parsing many values takes long, and stops everything else meanwhile."""

QUOTE = b'"'
SEPARATORS = (b",", b"[", b"{")


class ValueCounter:
    """Counts values in a text that arrives in pieces, until there are too many. Separators inside of strings do not count."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self.is_in_string = False
        self.rest = b""  # a backslash whose next character has not arrived

    @property
    def has_exceeded(self) -> bool:
        return self.total > self.limit

    def feed(self, piece: bytes) -> None:
        text = self.rest + piece
        is_escaping = (len(text) - len(text.rstrip(b"\\"))) % 2 == 1
        self.rest, text = (b"\\", text[:-1]) if is_escaping else (b"", text)
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
        start = 0
        while start < len(text) and not self.has_exceeded:
            end = text.find(QUOTE, start)
            if not self.is_in_string:
                self.total += count_separators(text[start : end if end >= 0 else len(text)])
            if end < 0:
                return
            self.is_in_string, start = not self.is_in_string, end + 1

    def start_line(self) -> None:
        """Go on with a new line. No string of a JSON text goes beyond a line."""
        self.is_in_string, self.rest = False, b""

    def start_over(self) -> None:
        self.total = 0
        self.start_line()


def count_separators(text: bytes) -> int:
    return sum(text.count(sign) for sign in SEPARATORS)


def has_more_values(text: bytes, limit: int) -> bool:
    """Return whether a whole text has more values than that."""
    counter = ValueCounter(limit)
    counter.feed(text)
    return counter.has_exceeded
