"""Record a command on a terminal and draw the recording as one animated SVG.

The SVG needs no script and no font: every distinct line is defined once, every frame is a column of references to lines, and CSS
keyframes move the strip of frames past the window. It plays inside an `<img>`.
"""

import fcntl
import os
import pty
import re
import subprocess
import termios
import time
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from struct import pack
from typing import NamedTuple

COLUMNS = 100
ROWS = 28
SHORTEST_S = 0.12  # screens that change faster are merged into one frame
LONGEST_S = 1.2  # pauses, such as the start of a process, are cut to this
SCENE_S = 2.5  # how long the screen stays before the next headline
ENDING_S = 6.0  # how long the last screen stays before the recording starts over

CHARACTER = 8.4  # width of a column, in pixels
LINE = 18
MARGIN = 16
TITLE_BAR = 32
HEADLINE = "━━ "
SPINNER = re.compile("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]")

CODE = re.compile(r"\x1b\[[\d;]*m")
UNFINISHED = re.compile(r"\x1b(\[[?\d;]*)?$")  # an escape sequence that continues in the next read
PLAIN = "\x1b[0m"
TOKEN = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")
COLOURS = {30: "#5c6370", 31: "#f2777a", 32: "#8fc76b", 33: "#e3bd5b", 34: "#7aa2f7", 35: "#c594e6", 36: "#62c4d6", 37: "#d5d9e0"}
STYLES = """
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d5d9e0; white-space: pre; }
.b { font-weight: bold } .d { fill: #949cab }
.title { font: bold 13px ui-sans-serif, system-ui, Arial, sans-serif; text-anchor: middle; fill: #949cab; }
"""


Lines = tuple[str, ...]  # the lines of the screen, with their colour codes


class Chunk(NamedTuple):
    """Text that the command wrote at once."""

    at_s: float
    text: str


class Frame(NamedTuple):
    lines: Lines
    seconds: float


class Span(NamedTuple):
    column: int
    text: str
    style: str  # names of CSS classes


def record(command: Sequence[str], folder: Path, env: Mapping[str, str]) -> list[Chunk]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, pack("HHHH", ROWS, COLUMNS, 0, 0))
    started = time.monotonic()
    chunks: list[Chunk] = []
    with subprocess.Popen(command, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        decoder, buffer = getincrementaldecoder("utf-8")(), ""
        try:
            while output := os.read(ours, 65536):
                buffer += decoder.decode(output)
                if not UNFINISHED.search(buffer):
                    chunks.append(Chunk(time.monotonic() - started, buffer))
                    buffer = ""
        except OSError:  # Linux reports the end of a terminal as an error
            pass
        os.close(ours)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {process.returncode}.")
    return chunks


def screens(chunks: Sequence[Chunk]) -> Iterator[tuple[float, Lines]]:
    """Yield the time and the visible lines after each chunk. The recorded programs redraw whole lines, so a line is a string."""
    lines, row, style = [""], 0, ""
    for chunk in chunks:
        for codes, letter, control, text in TOKEN.findall(chunk.text):
            if letter == "m":
                style = "" if codes in ("", "0") else style + f"\x1b[{codes}m"
            elif letter == "A":
                row = max(0, row - int(codes or 1))
            elif letter == "K":
                lines[row] = ""
            elif control == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            else:
                for number, part in enumerate(wrap(SPINNER.sub("⠹", text), COLUMNS - len(CODE.sub("", lines[row])))):
                    row += number > 0
                    lines += [""] * (row + 1 - len(lines))
                    lines[row] += f"{style}{part}{PLAIN}" if style else part
        yield chunk.at_s, tuple(lines[-ROWS:])


def wrap(text: str, room: int) -> list[str]:
    """Split a text as a terminal does: the first part fits into the room that its line has left."""
    return [text[:room], *(text[start : start + COLUMNS] for start in range(room, len(text), COLUMNS))]


def frames(chunks: Sequence[Chunk], prompt: str) -> list[Frame]:
    """Join screens that change too fast to read, cut pauses, and keep the last screen of a scene in view."""
    screens_shown: list[tuple[float, Lines]] = [(0.0, (prompt,))]
    for at_s, lines in screens([Chunk(0.0, f"{prompt}\r\n\r\n"), *chunks]):
        since_s, before = screens_shown[-1]
        if at_s - since_s < SHORTEST_S and not begins_scene(before, lines):
            screens_shown[-1] = (since_s, lines)
        elif lines != before:
            screens_shown.append((at_s, lines))
    first, *others = [
        Frame(lines, SCENE_S if begins_scene(lines, after) else min(until_s - since_s, LONGEST_S))
        for (since_s, lines), (until_s, after) in pairwise(screens_shown)
    ]
    return [first._replace(seconds=LONGEST_S), *others, Frame(screens_shown[-1][1], ENDING_S)]


def begins_scene(before: Lines, after: Lines) -> bool:
    return any(HEADLINE in line for line in set(after) - set(before))


def spans(line: str) -> Iterator[Span]:
    """Yield the words of a line with their column and style, without the surrounding spaces."""
    column = 0
    codes: tuple[int, ...] = ()
    for numbers, letter, _, text in TOKEN.findall(line):
        if letter:
            new_codes = tuple(int(number or 0) for number in numbers.split(";"))
            codes = () if 0 in new_codes else (*codes, *new_codes)
        elif text:
            if text.strip():
                names = [f"c{code}" for code in codes if code in COLOURS] + ["b"] * (1 in codes) + ["d"] * (2 in codes)
                yield Span(column + len(text) - len(text.lstrip()), text.strip(), " ".join(names))
            column += len(text)


def draw_line(line: str) -> str:
    return "".join(
        f'<text class="{span.style}" x="{span.column * CHARACTER:g}" textLength="{len(span.text) * CHARACTER:g}">'
        f"{escape(span.text, quote=False)}</text>"
        for span in spans(line)
    )


def draw(recording: Sequence[Frame], title: str) -> str:
    width, height = round(COLUMNS * CHARACTER + 2 * MARGIN), TITLE_BAR + ROWS * LINE + 2 * MARGIN
    names: dict[str, str] = {}
    for frame in recording:
        for line in frame.lines:
            if line.strip():
                names.setdefault(line, f"l{len(names)}")
    total = sum(frame.seconds for frame in recording)
    keyframes, strip, elapsed = [], [], 0.0
    for number, frame in enumerate(recording):
        keyframes.append(f"{100 * elapsed / total:.3f}% {{ transform: translateX({-number * width}px) }}")
        elapsed += frame.seconds
        uses = "".join(
            f'<use href="#{names[line]}" y="{(row + 1) * LINE}"/>' for row, line in enumerate(frame.lines) if line in names
        )
        strip.append(f'<g transform="translate({number * width})">{uses}</g>')
    last = f"transform: translateX({-(len(recording) - 1) * width}px)"
    colours = " ".join(f".c{code} {{ fill: {colour} }}" for code, colour in COLOURS.items())
    lines = "\n".join(f'<g id="{name}">{draw_line(line)}</g>' for line, name in names.items())
    dots = "".join(
        f'<circle cx="{22 + 20 * n}" cy="20" r="6" fill="{c}"/>' for n, c in enumerate(("#f2777a", "#e3bd5b", "#8fc76b"))
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">
<title>{escape(title)}</title>
<style>{STYLES}{colours}
.strip {{ {last}; animation: play {total:.1f}s step-end infinite }}
@media (prefers-reduced-motion: reduce) {{ .strip {{ animation: none }} }}
@keyframes play {{ {" ".join(keyframes)} 100% {{ {last} }} }}
</style>
<defs>
{lines}
</defs>
<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10" fill="#20242c" stroke="#4b5263"/>
{dots}<text class="title" x="{width / 2:g}" y="25">{escape(title)}</text>
<svg x="{MARGIN}" y="{TITLE_BAR + MARGIN // 2}" width="{width - 2 * MARGIN}" height="{ROWS * LINE + MARGIN}"><g class="strip">
{chr(10).join(strip)}
</g></svg>
</svg>
"""
