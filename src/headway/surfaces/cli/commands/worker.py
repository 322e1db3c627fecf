"""`headway worker`: run one more process that works on jobs, or list such processes."""

import asyncio
import json
import signal
from collections.abc import Sequence
from typing import Any

import click

from headway.actions.engine import dead_letters
from headway.settings import Settings, redact_database_url
from headway.surfaces.cli.context import INSTALLATION_WIDE, CommandGroup, Invocation, pass_invocation
from headway.surfaces.cli.render import format_time
from headway.surfaces.cli.tables import print_table
from headway.surfaces.log_lines import configure_json_logging

WORKER_HEADINGS = ("host", "pid", "state", "jobs", "started", "seen", "version")


@click.group(
    cls=CommandGroup,
    unused=INSTALLATION_WIDE,
    invoke_without_command=True,
    examples=("headway worker --metrics-port 9090", "headway worker list"),
)
@click.option(
    "--log-level",
    default="warning",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="The least important messages that are logged.",
)
@click.option(
    "--metrics-port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Serve metrics for Prometheus on this port of HEADWAY_HOST.",
)
@click.pass_context
def worker(context: click.Context, log_level: str, metrics_port: int | None) -> None:
    """Run jobs of this database until Ctrl-C: turns, sub-agents, goals and schedules. `headway serve` also runs jobs."""
    if context.invoked_subcommand is not None:
        return
    INSTALLATION_WIDE.check(context)
    invocation = context.ensure_object(Invocation)
    settings = invocation.settings()
    configure_json_logging(log_level, settings)
    asyncio.run(run_worker(invocation, settings, metrics_port))


async def run_worker(invocation: Invocation, settings: Settings, metrics_port: int | None) -> None:
    from headway.process.assembly import Headway  # noqa: PLC0415  loads the agent libraries, which `--help` does not need

    headway = Headway(settings)
    stopped = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stopped.set)
    headway.start()
    headway.start_agents()
    await headway.agents_ready()
    document = {"worker": headway.executor_id, "database": redact_database_url(settings.database_url), "model": settings.model}
    if metrics_port is not None:
        from headway.surfaces.metrics import serve_metrics  # noqa: PLC0415  only on request

        document["metrics_url"] = serve_metrics(headway, metrics_port)
    if invocation.as_json:
        click.echo(json.dumps(document))
    else:
        click.echo(f"Worker {headway.executor_id} on {document['database']}, model {settings.model}. Stop with Ctrl-C.")
    await stopped.wait()
    await headway.stop_agents()
    headway.close()


@worker.command("list")
@pass_invocation
def list_workers(invocation: Invocation) -> None:
    """List the processes that run jobs, and processes that stopped answering within a day."""
    with invocation.database() as database:
        rows, now_ms = database.read(lambda tx: (dead_letters.list_workers(tx), tx.now))
    documents = [dead_letters.encode_worker(row, now_ms) for row in rows]
    invocation.answer({"workers": documents}, lambda: print_table(WORKER_HEADINGS, map(build_worker_row, documents), "no workers"))


def build_worker_row(worker: dict[str, Any]) -> Sequence[str]:
    state = "lost" if not worker["is_alive"] else "working" if worker["takes_all_jobs"] else "own jobs only"
    started = format_time(worker["started_at"] * 1000) if worker["started_at"] else ""
    load = f"{worker['running']}/{worker['slots']}" if worker["slots"] else str(worker["running"])
    return worker["host"], str(worker["pid"]), state, load, started, format_time(worker["last_seen_at"] * 1000), worker["version"]
