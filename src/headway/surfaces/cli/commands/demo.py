"""`headway demo`: a three-scene story in the terminal. It runs real commands in real processes, and kills one of them."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from headway import settings
from headway.actions.access import local_tenant
from headway.actions.goals import views
from headway.ledger.errors import HeadwayError, Invalid
from headway.ledger.tiers import REHEARSAL_MODEL
from headway.settings import PREFIX
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction
from headway.surfaces.cli.context import Command, Invocation, UnusedFlags, pass_invocation
from headway.surfaces.cli.render import is_terminal

INTRODUCTION = (
    "A dinner for friends, in three scenes. The agents use the rehearsal model, which follows rules,",
    "is not an LLM and needs no key. Everything else is real: the database, the tools, the processes",
    "and the crash.",
)
REQUEST = "Calculate 8*45, then write the result to budget.txt, and then list the files"
GOAL = (
    "Write menu.md: soup, lasagne, tiramisu; write music.md: Nina Simone, then Miles Davis; "
    "calculate 8*125 and save the result to pasta-grams.txt; list the files"
)
FRIENDS = ("ada", "alan", "edsger", "grace", "joan")
INVITATIONS = "; ".join([*(f"write {friend}.md: Friday at 8?" for friend in FRIENDS), "list the files"])
PACE_S = "0.25"  # slow enough to watch and to interrupt
KILL_TIMEOUT_S = 60
PROGRESS_POLL_S = 0.1
KILL_DELAY_S = 0.15  # how long the half-finished plan stays visible before the kill
SHOW_CURSOR = "\r\x1b[?25h"  # a killed process leaves the cursor hidden, in the middle of a line
WIDTH = 96
NEXT_COMMANDS = (
    ("headway serve", "the web page, the API and MCP, at one address"),
    ("headway chat", "chat with an agent and watch its todo list"),
    ('headway goal add "…"', "a goal that agents pursue without you"),
    ("HEADWAY_MODEL=openai:gpt-5-mini headway chat", "with a real model (needs the extra openai, and OPENAI_API_KEY)"),
)
OWN_LEDGER = UnusedFlags(("tenant", "conversation", "home", "database_url"), "creates its own ledger (--keep DIR)")
REPEAT_COMMAND = ("headway demo --keep DIR", "keep the results; see them with headway serve --home DIR")


@click.command(cls=Command, unused=OWN_LEDGER)
@click.option(
    "--keep", metavar="DIR", type=click.Path(file_okay=False), help="Keep the results in this folder (default: delete them)."
)
@pass_invocation
def demo(invocation: Invocation, keep: str | None) -> None:
    """Watch Headway work offline, in under a minute: it works through a plan, pursues a goal and survives a crash."""
    started_at = time.monotonic()
    with open_home(keep) as folder:
        runner = DemoRunner(folder, quiet=invocation.as_json)
        runner.say(*INTRODUCTION)
        turn = plan_and_drain(runner)
        goal = pursue_goal(runner)
        survivor_summary = survive_crash(runner)
        duration_s = round(time.monotonic() - started_at, 1)
        files = sorted(path.name for path in folder.glob("workspace/*/*"))
        show_next_commands(runner, keep, f"{len(files)} files in {duration_s:.0f} seconds: {', '.join(files)}.")
        document = {"turn": turn, "goal": goal, "survivor": survivor_summary, "files": files, "seconds": duration_s}
        invocation.answer({"demo": document}, lambda: None)


def show_next_commands(demo: "DemoRunner", keep: str | None, closing: str) -> None:
    demo.title("What to try next")
    last_command = (f"headway serve --home {shlex.quote(keep)}", "see the results of this demo") if keep else REPEAT_COMMAND
    for command, purpose in (*NEXT_COMMANDS, last_command):
        demo.say(f"  {demo.styled(f'{command:<51}', fg='cyan')} {purpose}")
    demo.say("", closing)


@contextmanager
def open_home(keep: str | None) -> Iterator[Path]:
    """Yield a folder for the demo's ledger, so that no existing data is touched. A temporary folder is deleted afterwards."""
    if keep is not None:
        if (Path(keep) / "headway.db").exists():
            raise Invalid(f"{keep} already contains a ledger. Choose another folder.")
        yield Path(keep).absolute()
        return
    folder = Path(tempfile.mkdtemp(prefix="headway-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class DemoRunner:
    """Runs each command of the story in its own process and prints it as a user would type it."""

    def __init__(self, folder: Path, *, quiet: bool) -> None:
        self.folder = folder
        self.quiet = quiet
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        self.environment = {
            **inherited,
            "HEADWAY_HOME": str(folder),
            "HEADWAY_MODEL": REHEARSAL_MODEL,
            "HEADWAY_REHEARSAL_PACE_S": PACE_S,
            "HEADWAY_DATABASE_URL": f"sqlite:///{folder / 'headway.db'}",
        }

    def say(self, *lines: str) -> None:
        if not self.quiet:
            click.echo("\n".join(lines))

    def styled(self, text: str, **style: Any) -> str:
        return click.style(text, **style) if is_terminal() else text

    def title(self, heading: str) -> None:
        self.say("", self.styled(f"━━ {heading} {'━' * (WIDTH - len(heading) - 4)}", bold=True))

    def begin(self, *arguments: str) -> "subprocess.Popen[str]":
        self.say(self.styled(f"$ headway {shlex.join(arguments)}", fg="cyan"))
        # Without -P, Python would import modules from the working folder, which may be one that everyone can write to.
        command = [sys.executable, "-P", "-m", "headway", *arguments, *(["--json"] if self.quiet else [])]
        sys.stdout.flush()
        return subprocess.Popen(  # noqa: S603  runs this program, with arguments from this module
            command, env=self.environment, cwd=self.folder.parent, text=True, stdout=subprocess.PIPE if self.quiet else None
        )

    def run(self, *arguments: str) -> None:
        process = self.begin(*arguments)
        process.communicate()
        if process.returncode:
            raise HeadwayError(f"`headway {shlex.join(arguments)}` ended with exit code {process.returncode}; the demo ends here.")

    def read(self, view: Callable[..., Any], *arguments: Any) -> Any:
        """Run a view on the demo's database, in the local tenant."""
        database_url = settings.load(
            {"home": str(self.folder), "database_url": self.environment["HEADWAY_DATABASE_URL"]}
        ).database_url
        with DirectDatabase(database_url) as database:
            return database.read(partial(read_local_tenant, view=view, arguments=arguments))


def read_local_tenant(tx: Transaction, view: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    tenant = local_tenant.find_local(tx)
    return view(tx, tenant.id, *arguments) if tenant else None


def plan_and_drain(demo: DemoRunner) -> str:
    demo.title("1 of 3: a plan, drained")
    demo.say("A request with several steps. The agent plans them as todos and may not stop while one is open.")
    demo.run("chat", REQUEST)
    return REQUEST


def pursue_goal(demo: DemoRunner) -> dict[str, Any]:
    demo.title("2 of 3: a goal, pursued without you")
    demo.say("The goal becomes a graph. Sub-agents work in parallel, and each outcome is evaluated.")
    demo.run("goal", "add", GOAL)
    demo.say("Three sub-agents did the work, started by one main agent:")
    demo.run("agent", "list", "--goal", "1")
    return find_goal_summary(demo, 1)


def survive_crash(demo: DemoRunner) -> dict[str, Any]:
    demo.title("3 of 3: killed halfway")
    demo.say("Five invitations. Halfway through, the process is killed with SIGKILL: it cannot clean up.")
    process = demo.begin("goal", "add", INVITATIONS)
    kill_after_first_outcome(demo, process)
    if is_terminal():
        demo.say(SHOW_CURSOR)
    progress = find_goal_summary(demo, 2)["progress"]
    state = f"✕ Killed. {progress['completed']} of {progress['total']} sub-goals were done, {progress['in_progress']} in progress."
    demo.say(demo.styled(state, fg="red", bold=True))
    demo.say("Another process takes over in about five seconds, when the lease of the killed one expires.")
    demo.run("goal", "watch", "2")
    journal = [entry.as_json() for entry in demo.read(views.list_entries, 2, 500)]
    ended = [entry["data"]["sub_goal_id"] for entry in journal if entry["kind"] == "sub_goal_ended"]
    repeated = len(ended) - len(set(ended))
    verdict = (
        f"✔ {len(set(ended))} sub-goals ended, {repeated} of them twice: {'a' if repeated else 'no'} friend was invited twice."
    )
    demo.say(demo.styled(verdict, fg="red" if repeated else "green", bold=True))
    return {
        **find_goal_summary(demo, 2),
        "interrupted": any(entry["kind"] == "interrupted" for entry in journal),
        "repeated": repeated,
    }


def kill_after_first_outcome(demo: DemoRunner, process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        progress = find_goal_summary(demo, 2).get("progress")
        if progress and progress["completed"] and progress["in_progress"]:
            time.sleep(KILL_DELAY_S)
            break
        time.sleep(PROGRESS_POLL_S)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def find_goal_summary(demo: DemoRunner, goal_id: int) -> dict[str, Any]:
    """Return the id, description, status and progress of a goal, or an empty dictionary if it does not exist yet."""
    page = demo.read(views.list_goals, None, 10)
    fields = ("id", "description", "status", "progress")
    return next(({name: goal[name] for name in fields} for goal in (page.goals if page else ()) if goal["id"] == goal_id), {})
