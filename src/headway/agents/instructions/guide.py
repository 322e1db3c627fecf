"""The workspace's AGENTS.md: how agents should work there. It is a message of the transcript, right after the one that opens a run.

Agents can write the file, so its text counts as something that a run has read: a writ in it does not run.
"""

import logging
import os
from collections.abc import Sequence
from typing import Final

from pydantic_ai.messages import ModelRequest, UserPromptPart

from headway.agents.tools.files import contents
from headway.agents.transcripts.transcript import TranscriptEntry, build_runtime_message
from headway.ledger.errors import HeadwayError
from headway.ledger.framing import escape_frames, format_frame

log = logging.getLogger("headway.guide")

GUIDE_FILE: Final = "AGENTS.md"
FRAME: Final = "WORKSPACE GUIDE"
HEAD: Final = f"[{FRAME}]\n"  # cannot be forged: other text is escaped
LIMIT: Final = 20_000  # characters
INTRODUCTION: Final = (
    "AGENTS.md of the workspace: how to work here. The user's messages and your instructions take precedence over it."
)
REPLACEMENT: Final = " It has changed: this text replaces the earlier one."


def exists(workspace: str) -> bool:
    return bool(workspace) and os.path.lexists(os.path.join(workspace, GUIDE_FILE))


def read(workspace: str, limit: int = LIMIT) -> str:
    """Read the file, cut at the limit. Empty if it has no text or cannot be read."""
    try:
        result = contents.read(workspace, GUIDE_FILE)
    except HeadwayError as error:
        log.warning("AGENTS.md in %s is not used: %s", workspace, error)
        return ""
    text: str = result["content"].removeprefix("\ufeff").strip()
    limit = min(limit, LIMIT)
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n… (cut after {limit:,} characters; the file has the rest)"


def build_message(text: str, history: Sequence[TranscriptEntry]) -> ModelRequest | None:
    """Build the message that shows the file; None if an earlier turn has shown the same text and it is still sent."""
    body, shown = escape_frames(text), find_shown(history)
    if body == shown:
        return None
    return build_runtime_message(render_frame(body, has_changed=shown is not None), {"guide": True})


def render_frame(body: str, *, has_changed: bool = False) -> str:
    return format_frame(FRAME, [INTRODUCTION + (REPLACEMENT if has_changed else ""), body], f"END {FRAME}")


def find_shown(entries: Sequence[TranscriptEntry]) -> str | None:
    """Return the text that the last of these messages to show the file shows."""
    for entry in reversed(entries):
        if "guide" in entry.facts:
            (part,) = entry.message.parts
            assert isinstance(part, UserPromptPart)
            frame = str(part.content).rpartition(HEAD)[2]
            return frame.partition("\n")[2].partition(f"\n[END {FRAME}]")[0]
    return None


def strip_frame(text: str) -> str:
    """Return a runtime message without the frame at its end."""
    return text.rpartition(HEAD)[0].rstrip() if HEAD in text else text
