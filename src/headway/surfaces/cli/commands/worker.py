"""`headway worker`: run one more process that works on jobs."""

import asyncio
import json
import signal

import click

from headway.settings import Settings, redact_database_url
from headway.surfaces.cli.context import INSTALLATION_WIDE, Command, Invocation, pass_invocation
from headway.surfaces.log_lines import configure_json_logging


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@click.option("--log-level", default="warning", show_default=True, type=click.Choice(["debug", "info", "warning", "error"]))
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve metrics for Prometheus on this port of HEADWAY_HOST.")
@pass_invocation
def worker(invocation: Invocation, log_level: str, metrics_port: int | None) -> None:
    """Run jobs of this database until Ctrl-C: turns, sub-agents, goals and schedules. `serve` runs jobs, too."""
    settings = invocation.settings()
    configure_json_logging(log_level, settings)
    asyncio.run(run_worker(invocation, settings, metrics_port))


async def run_worker(invocation: Invocation, settings: Settings, metrics_port: int | None) -> None:
    from headway.assembly import Headway  # noqa: PLC0415  loads the agent libraries, which `--help` does not need

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
