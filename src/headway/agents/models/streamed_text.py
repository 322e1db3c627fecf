"""Passes a model's text on while it streams, but keeps back what begins like a tool call written as text.

Users would otherwise read the JSON of a call until the answer is complete and the call is taken out of it.
"""

import re
from typing import Final, Protocol

DECISIVE_LENGTH: Final = 60  # characters, without leading space: what begins a call is shorter
FIRST_CHARACTERS: Final = ("{", "`", "<", "[")
CALL_START: Final = re.compile(
    r"""(?:```\w*+\s*+)?+  # a code fence
    (?:\[?+\s*+\{\{?+\s*+"(?:id"\s*+:\s*+"[^"]*+"\s*+,\s*+")?+(?:name|tool|tool_name|function|tool_calls|type"\s*+:\s*+"function)"
    |<(?:tool_call|function_call|tools|tool_response)>|<\|python_tag\|>|<｜tool|\[TOOL_CALLS\]
    |<[a-z]++(?:_[a-z]++)++[\s>])  # an element that is named after a tool""",
    re.VERBOSE,
)


class TextListener(Protocol):
    """Receives a model's text as it streams. `on_withdrawn` is called when the answer fails partway."""

    def on_text(self, text: str) -> None: ...

    def on_withdrawn(self) -> None: ...


class StreamedText:
    """The text of one answer on its way to a listener."""

    def __init__(self, listener: TextListener) -> None:
        self.listener = listener
        self.start = ""  # the first characters
        self.held: list[str] | None = []  # None: it does not begin like a call, and everything is passed on

    def on_text(self, text: str) -> None:
        if self.held is None:
            self.listener.on_text(text)
            return
        self.held.append(text)
        if len(self.start) < DECISIVE_LENGTH:
            self.start = (self.start + text[: 2 * DECISIVE_LENGTH]).lstrip()
            if self.start and not begins_like_call(self.start):
                self.release()

    def release(self) -> None:
        if self.held:
            self.listener.on_text("".join(self.held))
        self.held = None

    def finish(self, received: str | None, accepted: str | None) -> None:
        """End the answer with the text that is left of it without its calls."""
        if accepted == received:
            self.release()
            return
        if self.held is None:  # users saw the call
            self.listener.on_withdrawn()
        if accepted:
            self.listener.on_text(accepted)


def begins_like_call(start: str) -> bool:
    """Return whether the start of a text is that of a call, or too short to tell."""
    return bool(CALL_START.match(start)) or (len(start) < DECISIVE_LENGTH and start.startswith(FIRST_CHARACTERS))
