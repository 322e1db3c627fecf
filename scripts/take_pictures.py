"""Take the pictures for the documentation: screenshots of the page, and a recording of `headway demo`.

    make pictures

The pictures show real runs: a server and commands in a temporary home, the rehearsal model, a browser and a terminal. The manifest
beside them holds digests of the files that decide how they look, so a test reports when they are out of date.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import animate_terminal
from playwright.sync_api import ViewportSize

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "headway"
PICTURES = ROOT / "docs" / "pictures"
MANIFEST = PICTURES / "manifest.json"
LARGEST = 250_000
WINDOW: ViewportSize = {"width": 1280, "height": 760}
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
PATIENCE_MS = 60_000
PROMPT = "\x1b[36m$ headway demo\x1b[0m"

# Changes to other files do not affect the pictures.
DRAWN_BY = (
    "src/headway/surfaces/web/static/**/*",
    "src/headway/surfaces/cli/commands/demo.py",
    "src/headway/surfaces/cli/goal_view.py",
    "src/headway/actions/inspection/sentences.py",
    "scripts/animate_terminal.py",
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


def drawn_by() -> dict[str, str]:
    """Return one digest per pattern, over the files that decide how the pictures look."""
    digests = {}
    for pattern in DRAWN_BY:
        digest = hashlib.sha256()
        for path in sorted(path for path in ROOT.glob(pattern) if path.is_file()):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
        digests[pattern] = digest.hexdigest()
    return digests


def surroundings(home: Path, **settings: str) -> dict[str, str]:
    """Return an environment without the user's own settings."""
    inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "HOME", "TMPDIR")}
    return {**inherited, "HEADWAY_HOME": str(home), "TZ": "UTC", "TERM": "xterm-256color", "COLORTERM": "truecolor", **settings}


# The page


@contextmanager
def serving(home: Path, pace_s: float) -> Iterator[dict[str, str]]:
    """Run a server, and yield the JSON that it prints at the start."""
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


def photograph_page(folder: Path) -> None:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  only the screenshots need a browser

    program = os.environ.get("HEADWAY_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    home = folder / "home"
    for request in EARLIER:
        headway(home, "chat", request)
    with sync_playwright() as playwright, serving(home, pace_s=1.5) as served:
        browser = playwright.chromium.launch(executable_path=program, args=["--headless=new", "--no-sandbox"])
        context = browser.new_context(viewport=WINDOW, reduced_motion="reduce", locale="en-GB", timezone_id="UTC")
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.goto(served["login_url"])
        photograph_chat(page)
        photograph_goal(page, home, served["url"])
        browser.close()


def photograph_chat(page: Any) -> None:
    """Photograph a turn halfway through its plan."""
    page.get_by_label("Message", exact=True).fill(REQUEST)
    page.keyboard.press("Enter")
    panel = page.get_by_role("region", name="Todos", exact=True)
    panel.get_by_role("button", name="Expand", exact=True).click()
    page.mouse.move(0, 0)
    panel.get_by_text("3 remaining").wait_for()
    photograph_themes(page, "chat")


def photograph_goal(page: Any, home: Path, url: str) -> None:
    """Photograph a goal while some sub-agents are done and others still work."""
    headway(home, "goal", "add", GOAL, "--criteria", CRITERIA, "--no-wait")
    page.goto(f"{url}/goals/1")
    page.locator(".node.status-done").nth(2).wait_for()
    photograph_themes(page, "goal")


def photograph_themes(page: Any, name: str) -> None:
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.screenshot(path=PICTURES / f"{name}-{theme}.png", animations="disabled")


# The terminal


def record_demo(folder: Path) -> None:
    chunks = animate_terminal.record([sys.executable, "-m", "headway", "demo"], folder, surroundings(folder))
    picture = animate_terminal.draw(animate_terminal.frames(chunks, PROMPT), title="headway demo")
    (PICTURES / "demo.svg").write_text(picture, encoding="utf-8")


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    takers: dict[str, Callable[[Path], None]] = {"page": photograph_page, "terminal": record_demo}
    for name in sys.argv[1:] or takers:
        with tempfile.TemporaryDirectory(prefix="headway-pictures-", ignore_cleanup_errors=True) as folder:
            takers[name](Path(folder))
    sizes = {path.name: path.stat().st_size for path in sorted(PICTURES.iterdir()) if path != MANIFEST}
    assert all(size <= LARGEST for size in sizes.values()), sizes
    MANIFEST.write_text(json.dumps({"drawn_by": drawn_by(), "pictures": sorted(sizes)}, indent=1) + "\n", encoding="utf-8")
    print(*(f"{name}: {size // 1000} KB" for name, size in sizes.items()), sep="\n")


if __name__ == "__main__":
    main()
