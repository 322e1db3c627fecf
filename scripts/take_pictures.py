"""Maintainer's tool: take the pictures of the README again, of the real page and of a real terminal.

    make pictures

Everything on them happened: a server and commands in a temporary home, the rehearsal model at work, a browser, a terminal. The
manifest beside them records what they show was drawn by, so that a test can tell when they are out of date.
"""

import fcntl
import hashlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from struct import pack
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "headway"
PICTURES = ROOT / "docs" / "pictures"
MANIFEST = PICTURES / "manifest.json"
LARGEST = 250_000
WIDTH = 100  # columns of the terminal
WINDOW = {"width": 1280, "height": 760}
PATIENCE_MS = 60_000
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
DEMO = "\x1b[36m$ headway demo\x1b[0m   \x1b[2m… its last scene, half way:\x1b[0m"
LEFT_OUT = "\x1b[2m   ⋮\x1b[0m"

# What is drawn on them, and nothing else: a change of any other file leaves them as they are.
DRAWN_BY = (
    "src/headway/surfaces/web/static/**/*",
    "src/headway/surfaces/cli/demo_command.py",
    "src/headway/surfaces/cli/goal_drawing.py",
    "src/headway/surfaces/cli/goal_sentences.py",
    "scripts/take_pictures.py",
)

EARLIER = (
    "Calculate 24*60, then write the result to minutes.txt",
    "What time is it?",
    "Write packing.md: boots, map, rain coat; then read packing.md",
)
REQUEST = (
    "Calculate 8*45, then write the result to budget.txt, then write menu.md: soup, lasagne, tiramisu, "
    "then write guests.md: Ada, Alan, Edsger, Grace, Katherine, then read menu.md, and then list the files"
)
GOAL = (
    "Write menu.md: soup, lasagne, tiramisu; write music.md: Nina Simone, Miles Davis; calculate 8*125 and save the result to "
    "pasta-grams.txt; read menu.md; write for-ada.md: Friday at eight?; write for-alan.md: Friday at eight?; "
    "write for-grace.md: Friday at eight?; list the files"
)
CRITERIA = "Everybody has an invitation, and there is enough pasta."

# As rich draws a terminal, without the fonts that it would fetch from elsewhere.
SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px;
  line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: ui-sans-serif, Arial, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def drawn_by() -> dict[str, str]:
    """The files that decide how the pictures look, as one digest for each pattern."""
    digests = {}
    for pattern in DRAWN_BY:
        whole = hashlib.sha256()
        for path in sorted(path for path in ROOT.glob(pattern) if path.is_file()):
            whole.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
        digests[pattern] = whole.hexdigest()
    return digests


def surroundings(home: Path, **settings: str) -> dict[str, str]:
    """Nothing of whoever runs this gets into the pictures."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "HOME", "TMPDIR")}
    return {**kept, "HEADWAY_HOME": str(home), "TZ": "UTC", "TERM": "xterm-256color", "COLORTERM": "truecolor", **settings}


# The page


@contextmanager
def serving(home: Path, pace_s: float) -> Iterator[dict[str, str]]:
    """A real server; what it announces."""
    command = [sys.executable, "-m", "headway", "serve", "--json", "--port", "0"]
    env = surroundings(home, HEADWAY_REHEARSAL_PACE_S=str(pace_s))
    with subprocess.Popen(command, cwd=home.parent, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


def headway(home: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "headway", *arguments]
    subprocess.run(command, cwd=home.parent, env=surroundings(home), check=True, stdout=subprocess.DEVNULL)


def picture_of_page(folder: Path) -> None:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  only this half needs a browser

    program = os.environ.get("HEADWAY_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    home = folder / "home"
    for words in EARLIER:
        headway(home, "chat", words)
    with sync_playwright() as playwright, serving(home, pace_s=1.5) as served:
        browser = playwright.chromium.launch(executable_path=program, args=["--headless=new", "--no-sandbox"])
        context = browser.new_context(viewport=WINDOW, reduced_motion="reduce", locale="en-GB", timezone_id="UTC")
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.goto(served["login_url"])
        chat(page)
        goal(page, home, served["url"])
        browser.close()


def chat(page: Any) -> None:
    """A turn half way through its plan."""
    page.get_by_label("Message", exact=True).fill(REQUEST)
    page.keyboard.press("Enter")
    panel = page.get_by_role("region", name="Todos", exact=True)
    panel.get_by_role("button", name="Expand", exact=True).click()
    page.mouse.move(0, 0)
    panel.get_by_text("3 remaining").wait_for()
    in_both_themes(page, "chat")


def goal(page: Any, home: Path, url: str) -> None:
    """A goal whose sub-agents are at work, while some of them are done."""
    headway(home, "goal", "add", GOAL, "--criteria", CRITERIA, "--no-wait")
    page.goto(f"{url}/goals/1")
    page.locator(".node.status-done").nth(2).wait_for()
    in_both_themes(page, "goal")


def in_both_themes(page: Any, name: str) -> None:
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.screenshot(path=PICTURES / f"{name}-{theme}.png", animations="disabled")


# The terminal


def picture_of_terminal(folder: Path) -> None:
    """The last scene of `headway demo`: a process is killed, and the work goes on."""
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    rows = left_on_screen(on_a_terminal(folder, "demo"))
    shown = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor")
    for row in (DEMO, "", *excerpt(rows, "goal #2", "last checkpoint"), LEFT_OUT, *excerpt(rows, "✔ goal #2", "invited twice")):
        shown.print(Text.from_ansi(row), overflow="fold")
    shown.save_svg(str(PICTURES / "terminal.svg"), title="headway demo", code_format=SVG, unique_id="headway")


def excerpt(rows: list[str], first: str, last: str) -> list[str]:
    """From the line with the first words to the one with the last."""
    begin = next(place for place, row in enumerate(rows) if first in row)
    return rows[begin : next(place for place, row in enumerate(rows) if last in row and place > begin) + 1]


def on_a_terminal(folder: Path, *arguments: str) -> str:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, pack("HHHH", 50, WIDTH, 0, 0))
    command = [sys.executable, "-m", "headway", *arguments]
    with subprocess.Popen(command, cwd=folder, env=surroundings(folder), stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        try:
            while more := os.read(ours, 65536):
                seen += more
        except OSError:  # how Linux says that everybody has left the terminal
            pass
        os.close(ours)
    assert process.returncode == 0, seen.decode()
    return seen.decode()


def left_on_screen(seen: str) -> list[str]:
    """The lines that are left of all that was shown, with their colours. Lines are wiped and drawn anew as a whole."""
    rows, row = [""], 0
    for moves, code, control, words in re.findall(r"\x1b\[([?\d;]*)([AKhl])|([\r\n])|((?:\x1b\[[\d;]*m|[^\x1b\r\n])+)", seen):
        if code == "A":
            row = max(0, row - int(moves or 1))
        elif code == "K":
            rows[row] = ""
        elif control == "\n":
            row += 1
            rows += [""] * (row - len(rows) + 1)
        elif words:
            rows[row] += words
    return rows


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    wanted: dict[str, Callable[[Path], None]] = {"page": picture_of_page, "terminal": picture_of_terminal}
    for name in sys.argv[1:] or wanted:
        with tempfile.TemporaryDirectory(prefix="headway-pictures-", ignore_cleanup_errors=True) as folder:
            wanted[name](Path(folder))
    sizes = {path.name: path.stat().st_size for path in sorted(PICTURES.iterdir()) if path != MANIFEST}
    assert all(size <= LARGEST for size in sizes.values()), sizes
    MANIFEST.write_text(json.dumps({"drawn_by": drawn_by(), "pictures": sorted(sizes)}, indent=1) + "\n", encoding="utf-8")
    print(*(f"{name}: {size // 1000} KB" for name, size in sizes.items()), sep="\n")


if __name__ == "__main__":
    main()
