"""`headway eval`: runs suites of cases, and records turns as cases."""

import asyncio
import logging
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from headway import __version__
from headway.actions.installation import halts
from headway.evals.attempt import Workbench, check_access, check_cells, list_unpriced
from headway.evals.recorder import append_case, build_case, choose_name, load_existing, load_turn
from headway.evals.recordings import load_recording
from headway.evals.reports import Pacing, Report, SuiteEnd, SuiteRun, build_document, build_junit, is_ok, render_table
from headway.evals.results import AttemptResult, ResultsFile, find_newest_run
from headway.evals.suite import Case, MatrixCell, Suite, build_cells, filter_cases, list_attempts, load_suite
from headway.ledger.errors import Halted, Invalid, StorageError
from headway.ledger.money import to_dollars
from headway.ledger.text import to_one_line
from headway.settings import Settings
from headway.settings.redaction import build_redactor
from headway.storage.direct import DirectDatabase, is_sqlite
from headway.surfaces.cli.arguments import DOLLARS
from headway.surfaces.cli.context import (
    INSTALLATION_WIDE,
    TENANT_WIDE,
    UNFINISHED_EXIT_CODE,
    Command,
    CommandGroup,
    Invocation,
    pass_invocation,
)
from headway.surfaces.log_lines import configure_plain_logging

REPEAT_LIMIT = 100


@click.group(
    "eval",
    cls=CommandGroup,
    unused=TENANT_WIDE,
    examples=("headway eval run basics", "headway eval record TURN_ID --suite cases.toml"),
)
def evals() -> None:
    """Run suites of cases against models, and record new cases."""


@evals.command("run", cls=Command)
@click.argument("suite_name", metavar="SUITE")
@click.option(
    "--model", "models", multiple=True, metavar="NAME", help="Use this model instead of the matrix's; repeat for several."
)
@click.option(
    "-k", "--repeat", type=click.IntRange(1, REPEAT_LIMIT), metavar="N", help="Repeat every case (default: the suite's repeat)."
)
@click.option("--filter", "patterns", multiple=True, metavar="GLOB", help="Only cases with such a name or tag; repeat for several.")
@click.option("--list", "only_list", is_flag=True, help="List the cases and exit.")
@click.option("--replay", is_flag=True, help="Serve recorded results; an attempt stops at a call that has none.")
@click.option("--budget", type=DOLLARS, metavar="USD", help="The most that the run may cost (default: HEADWAY_BUDGET_USD).")
@click.option("--parallel", default=4, show_default=True, type=click.IntRange(1, 64), metavar="N", help="Attempts at a time.")
@click.option("--resume", is_flag=True, help="Continue the suite's newest run: skip what has a result.")
@click.option("--keep", is_flag=True, help="Keep the homes of the attempts, for `headway --home`.")
@click.option("--junit", metavar="FILE", type=click.Path(dir_okay=False), help="Also write JUnit XML.")
@pass_invocation
def run_evals(invocation: Invocation, /, suite_name: str, *, only_list: bool, junit: str | None, **options: Any) -> None:
    """Run the cases of SUITE, a TOML file or the name of a suite that comes with Headway (basics).

    Each attempt runs in a new home with an empty database; your data is not read. Exit code 0: all passed, 1: some failed,
    6: the run ended early (--resume continues it).
    """
    run_suite(invocation, suite_name, junit, options, only_list=only_list)


assert isinstance(run_evals, Command)
run_evals.refuse(INSTALLATION_WIDE)


@evals.command("record")
@click.argument("turn_id", metavar="TURN")
@click.option(
    "--suite", "suite_path", required=True, metavar="FILE", type=click.Path(dir_okay=False), help="The suite to add it to."
)
@click.option("--name", metavar="NAME", help="The name of the case (default: the first words of the message).")
@pass_invocation
def record_turn(invocation: Invocation, turn_id: str, suite_path: str, name: str | None) -> None:
    """Add a finished turn to a suite as a case.

    The case has the turn's message, the files that it found, and checks for what it did. Edit it afterwards. The results of its
    calls are recorded beside the suite, for `eval run --replay`.
    """
    record(invocation, turn_id, suite_path, name)


# `headway eval run`: runs the cases of a suite and reports on them.


FOLDER = "evals"  # of the home
FAILED_EXIT_CODE = 1
HALTED_EXIT_CODE = 5


def run_suite(invocation: Invocation, name: str, junit: str | None, options: dict[str, Any], *, only_list: bool) -> None:
    settings = invocation.settings()
    suite = filter_cases(load_suite(name), options["patterns"])
    suite = suite._replace(repeat=options["repeat"] or suite.repeat)
    if options["models"]:
        suite = suite._replace(matrix=suite.matrix._replace(models=tuple(dict.fromkeys(options["models"]))))
    cells = build_cells(suite, settings.model)
    if only_list:
        invocation.answer({"cases": [describe_case(case) for case in suite.cases]}, lambda: print_cases(suite, cells))
        return
    end = EvalCommand(invocation, settings, suite, cells, options).run()
    report = Report(suite, cells, end, load_recorded(suite))
    if junit:
        write_junit(junit, build_junit(report))
    invocation.answer({"eval": build_document(report)}, lambda: print_report(report))
    raise click.exceptions.Exit(choose_exit_code(end))


class EvalCommand:
    """One `eval run`: checks everything first, then runs the attempts and shows each result on standard error."""

    def __init__(
        self, invocation: Invocation, settings: Settings, suite: Suite, cells: Sequence[MatrixCell], options: dict[str, Any]
    ) -> None:
        self.invocation = invocation
        self.settings = settings
        self.suite = suite
        self.cells = cells
        self.replay: bool = options["replay"]
        self.options = options
        self.attempts = list_attempts(suite, cells, replay=self.replay)
        self.count = 0

    def run(self) -> SuiteEnd:
        configure_plain_logging(self.settings)
        check_cells(self.settings, self.suite, self.cells)
        if not self.replay:
            for case in self.suite.cases:
                check_access(self.settings, case)
        self.check_halt()
        for name in list_unpriced(self.settings, self.cells):
            click.echo(f"{to_one_line(name)} has no known price: its calls count as $0, so no budget stops them.", err=True)
        folder = Path(self.settings.home, FOLDER, self.suite.name)
        results = ResultsFile(find_newest_run(folder) if self.options["resume"] else folder / make_stamp())
        header = {"suite": self.suite.name, "headway": __version__, "replay": self.replay, "started_at": make_stamp()}
        with results.open(header) as kept:
            done = [result for result in kept if result.status != "error"]
            self.count = sum(attempt.key in {result.key for result in done} for attempt in self.attempts)
            if self.count:
                click.echo(f"{self.count} of {len(self.attempts)} attempts already have a result.", err=True)
            bench = Workbench(self.suite, self.settings, results.work_folder, self.replay, self.options["keep"])
            with silence_notices():
                end = asyncio.run(self.run_attempts(SuiteRun(bench, self.build_pacing(), results, done)))
            with suppress(OSError):  # it holds the homes that were kept, or was never needed
                results.work_folder.rmdir()
        click.echo(f"Results: {results.path}", err=True)
        return end

    def build_pacing(self) -> Pacing:
        budget = self.options["budget"] or to_dollars(self.settings.limits.budget)
        return Pacing(self.options["parallel"], budget, self.is_halted, self.show_result)

    async def run_attempts(self, run: SuiteRun) -> SuiteEnd:
        loop = asyncio.get_running_loop()
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signal_number, run.stop, "interrupted")
        return await run.run(self.attempts)

    def show_result(self, result: AttemptResult) -> None:
        self.count += 1
        mark = "✔" if result.passed else "✘"
        name = f"{result.case} #{result.repetition}" if self.suite.repeat > 1 else result.case
        cell = f" ({result.cell.label})" if len(self.cells) > 1 else ""
        problem = f"  {result.problems[0]}" if result.problems else ""
        line = f"{mark} {self.count}/{len(self.attempts)} {name}{cell}  {result.duration_s:.1f} s{problem}"
        click.echo(to_one_line(line)[:200], err=True)

    def check_halt(self) -> None:
        """Raise Halted while everything is halted. A database that does not exist yet is not created."""
        url = self.settings.database_url
        if is_sqlite(url) and not Path(url.removeprefix("sqlite:///")).exists():
            return
        with DirectDatabase(url) as database:
            database.read(halts.check)

    def is_halted(self) -> bool:
        try:
            self.check_halt()
        except Halted:
            return True
        except StorageError:
            return False  # it is checked again in a second
        return False


@contextmanager
def silence_notices() -> Iterator[None]:
    """Do not log the notices to the operator: the cases answer for the people."""
    log = logging.getLogger("headway.operator")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def make_stamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def load_recorded(suite: Suite) -> dict[str, Any]:
    return {case.name: load_recording(suite.find_file(case.recording)).trace for case in suite.cases if case.recording}


def describe_case(case: Case) -> dict[str, Any]:
    kind = "goal" if case.goal else "message"
    return {"name": case.name, "kind": kind, "tags": list(case.tags), "about": case.about, "recorded": bool(case.recording)}


def print_cases(suite: Suite, cells: Sequence[MatrixCell]) -> None:
    for case in suite.cases:
        about = case.about or case.message or case.goal
        click.echo(to_one_line(f"{case.name}\t{','.join(case.tags)}\t{about}"))
    attempts = len(suite.cases) * len(cells) * suite.repeat
    counts = f"cases: {len(suite.cases)}, cells: {len(cells)}, repetitions: {suite.repeat}, attempts: {attempts}"
    click.echo(counts, err=True)


def print_report(report: Report) -> None:
    for line in render_table(report):
        click.echo(line)


def write_junit(path: str, document: bytes) -> None:
    try:
        Path(path).write_bytes(document)
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}.") from None


def choose_exit_code(end: SuiteEnd) -> int:
    if end.reason == "halted":
        return HALTED_EXIT_CODE
    if end.not_run:
        return UNFINISHED_EXIT_CODE
    return 0 if is_ok(end) else FAILED_EXIT_CODE


# `headway eval record`: adds a finished turn to a suite.


def record(invocation: Invocation, turn_id: str, suite_path: str, name: str | None) -> None:
    settings = invocation.settings()
    path = Path(suite_path)
    content, suite = load_existing(path)
    with invocation.open_ledger() as ledger:
        record = ledger.read(load_turn, turn_id, settings.limits)
        workspace = settings.get_workspace(ledger.scope.tenant_id)
    redact = build_redactor(settings)
    case = build_case(record, choose_name(redact(record.turn["request"]), suite, name), workspace, redact)
    try:
        append_case(path, content, case)
    except OSError as error:
        raise Invalid(f"{suite_path} cannot be written: {error.strerror}.") from None
    for note in case.notes:
        click.echo(note, err=True)
    invocation.answer({"case": {"name": case.name, "suite": str(path)}}, lambda: click.echo(f"{case.name}\t{path}"))
