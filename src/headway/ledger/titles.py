"""Titles of conversations, from what was asked first."""

import re
from typing import Final

from headway.ledger.text import to_one_line

TITLE_LENGTH: Final = 60
READ_LENGTH: Final = 2_000  # characters of a request that are looked at
MIN_LENGTH: Final = 8  # a shorter first line or sentence, such as `Hi.`, says too little
# What Markdown writes in front of a line: headings, quotations, bullets, numbers and check boxes.
LINE_MARK: Final = re.compile(r"[#>*+-]{1,6} +|[0-9]{1,3}[.)] +|\[[ xX]\] +")
LINK: Final = re.compile(r"!?\[([^\[\]()\n]{1,200})\]\([^()\n]{0,500}\)")
EMPHASIS: Final = re.compile(r"(?<![\w*`~])[*`~]{1,3}(?=[^\s*`~])|(?<=[^\s*`~])[*`~]{1,3}(?![\w*`~])")
SENTENCE_END: Final = re.compile(r"[.!?](?=[\"”’)]?(?: [^a-z]|$))|[。！？]")


def make_title(request: str) -> str:
    """Return the first sentence of a request as a title of at most TITLE_LENGTH characters, without Markdown. If it is longer, it
    ends at a word."""
    title = ""
    for line in list_prose(request[:READ_LENGTH]):
        title = f"{title} {line}".strip()
        if len(title) >= MIN_LENGTH:
            break
    return cut_at_word(cut_sentence(title))


def list_prose(request: str) -> list[str]:
    """List the lines that are not blank, without what Markdown adds to them. Blocks of code count only if there is nothing else."""
    parts = re.split(r"^ *```.*$", request, flags=re.MULTILINE)
    prose = [clean_line(line) for part in parts[::2] for line in part.splitlines()]
    code = [clean_line(line) for part in parts[1::2] for line in part.splitlines()]
    return [line for line in prose if line] or [line for line in code if line]


def clean_line(line: str) -> str:
    line = " ".join(to_one_line(line).split())
    while mark := LINE_MARK.match(line):
        line = line[mark.end() :]
    return EMPHASIS.sub("", LINK.sub(r"\1", line)).strip()


def cut_sentence(line: str) -> str:
    """Return the line up to the end of its first sentence, without a full stop."""
    end = next((match for match in SENTENCE_END.finditer(line) if match.start() >= MIN_LENGTH), None)
    sentence = line if end is None else line[: end.end()]
    return sentence.rstrip(".。")


def cut_at_word(line: str) -> str:
    if len(line) <= TITLE_LENGTH:
        return line
    room = line[: TITLE_LENGTH - 1]
    words = room if line[TITLE_LENGTH - 1] == " " else room.rpartition(" ")[0] or room
    return f"{words.rstrip(' ,;:-–—(')}…"
