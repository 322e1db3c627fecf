"""`headway doctor`: check the installation and say how to fix problems."""

from typing import Any

import click

from headway.extras import describe_missing, is_installed
from headway.ledger.errors import HeadwayError, UntrustedFolder
from headway.ledger.tenancy import describe_retention
from headway.ledger.text import to_one_line
from headway.settings import Settings, get_environment, inspect_current_folder, list_misspelled
from headway.settings.redaction import build_redactor
from headway.surfaces.cli.commands.cell import inspect_cells, inspect_databases
from headway.surfaces.cli.commands.costs import describe_unpriced, list_unpriced
from headway.surfaces.cli.context import INSTALLATION_WIDE, Command, Invocation, pass_invocation
from headway.surfaces.cli.health import Finding, inspect_dispatch, inspect_models, inspect_policy, inspect_sandbox
from headway.trust import Inspection, summarize


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@click.option("--call", "may_call", is_flag=True, help="Try each model with one small request, which costs a little.")
@pass_invocation
def doctor(invocation: Invocation, may_call: bool) -> None:  # noqa: FBT001  named by click
    """Check the database, engine, models, notification channels, policy and sandbox, and say how to fix problems."""
    inspection = inspect_current_folder(invocation.home)
    try:
        settings = invocation.loaded_settings = invocation.load_settings()
    except UntrustedFolder as error:  # nothing else can be checked without using what is in the folder
        findings = [Finding("home", inspection.home), Finding("trust", str(error), ok=False)]
    else:
        findings = [
            Finding("home", settings.home),
            build_trust_finding(inspection),
            *inspect_variables(inspection),
            *inspect_databases(invocation, settings),
            *inspect_dispatch(settings),
            *inspect_cells(settings),
            *inspect_models(settings, may_call=may_call),
            *inspect_prices(settings),
            *inspect_channels(settings),
            *inspect_policy(settings),
            *inspect_sandbox(settings),
            *inspect_mcp(settings),
            *inspect_skills(settings),
            *inspect_git(settings),
            Finding("retention", describe_retention(settings.retention)),
        ]
    healthy = all(finding.ok for finding in findings)
    document = {"ok": healthy, "checks": [finding.to_document() for finding in findings]}
    invocation.answer(document, lambda: click.echo("\n".join(format_finding(finding) for finding in findings)))
    if not healthy:
        raise click.exceptions.Exit(1)


def format_finding(finding: Finding) -> str:
    cell = f"{finding.cell}: " if finding.cell else ""
    return f"{'✕' if not finding.ok else '!' if finding.warning else '✔'} {finding.name:<9} {cell}{to_one_line(finding.detail)}"


def build_trust_finding(inspection: Inspection) -> Finding:
    """Say what the folder contains that was trusted, or that is not read."""
    named = "the home was named explicitly; " if not inspection.home else ""
    contents = summarize(inspection.list_contents())
    if not inspection.needs_trust:
        return Finding("trust", f"{named}nothing else here needs it" if named else "nothing here needs it")
    if inspection.home or inspection.is_env_trusted:
        return Finding("trust", f"{named}trusted: {contents}")
    return Finding("trust", f"{named}not read: {contents}. To use it, run `headway trust`.", warning=True)


def inspect_variables(inspection: Inspection) -> list[Finding]:
    """Name the variables that were probably meant as settings."""
    dotenv = inspection.env.variables if inspection.env and inspection.is_env_trusted else ()
    return [Finding("setting", sentence, warning=True) for sentence in list_misspelled({*get_environment(), *dotenv})]


def inspect_channels(settings: Settings) -> list[Finding]:
    """Check that each notification URL can be parsed. Nothing is sent, and no URL is shown because it may contain a key."""
    if not settings.notify:
        return [Finding("operator", "no channels: notices go to the inbox and the log only; set HEADWAY_NOTIFY to send them")]
    if not is_installed("notify"):
        return [Finding("operator", describe_missing("notify", "HEADWAY_NOTIFY"), ok=False)]
    import apprise  # noqa: PLC0415  slow to import

    return [
        Finding("operator", f"channel {number}: {describe_channel(channel)}", ok=channel is not None)
        for number, channel in enumerate((apprise.Apprise.instantiate(url) for url in settings.notify), 1)
    ]


def inspect_skills(settings: Settings) -> list[Finding]:
    """List the skills, and name the ones that are broken and skipped. An installation without skills has nothing to report."""
    from headway.agents.instructions import skills  # noqa: PLC0415  other commands do not need it

    findings = []
    for tenant_id, folder in skills.list_folders(settings.home):
        loaded = skills.load(folder)
        owner = f" of tenant {tenant_id}" if tenant_id else ""
        if loaded.skills:
            names = summarize([skill.name for skill in loaded.skills])
            findings.append(Finding("skills", f"{len(loaded.skills)}{owner}: {names}"))
        findings += [Finding("skills", f"skipped: {problem}", warning=True) for problem in loaded.problems]
    return findings


def inspect_git(settings: Settings) -> list[Finding]:
    """Check git, if a role names a repository."""
    from pathlib import Path  # noqa: PLC0415  this import and the next take longer than most commands

    from headway.agents.instructions.role_files import read_role_file  # noqa: PLC0415

    paths = sorted(Path(settings.home, "agents").glob("*.toml"))
    try:
        named = [(path.stem, repository) for path in paths if (repository := read_role_file(path).repository)]
        if not named:
            return []
        from headway.agents.repositories.git import check_version  # noqa: PLC0415

        roles = ", ".join(f"{role} works in {repository}" for role, repository in named)
        return [Finding("git", f"{check_version(settings.sandbox)}; {roles}")]
    except HeadwayError as error:
        return [Finding("git", str(error), ok=False)]


def describe_channel(channel: Any) -> str:
    return str(channel.service_name) if channel else "this entry of HEADWAY_NOTIFY is not the URL of a known service"


def inspect_mcp(settings: Settings) -> list[Finding]:
    """Start each MCP server and list its tools."""
    import asyncio  # noqa: PLC0415  only needed if there are servers
    from pathlib import Path  # noqa: PLC0415

    from headway.agents.mcp.config import FILE_NAME, load_servers  # noqa: PLC0415

    try:
        configs = load_servers(Path(settings.home, FILE_NAME), get_environment())
    except HeadwayError as error:
        return [Finding("mcp", str(error), ok=False)]
    if not configs:
        return []
    if not is_installed("mcp"):
        return [Finding("mcp", describe_missing("mcp", "Connecting to MCP servers"), ok=False)]
    from headway.agents.mcp.tools import check_servers  # noqa: PLC0415

    secrets = [secret for config in configs for secret in config.secrets]
    return [
        Finding("mcp", error or f"{name}: {count} tools", ok=not error)
        for name, count, error in asyncio.run(check_servers(configs, build_redactor(settings, *secrets)))
    ]


def inspect_prices(settings: Settings) -> list[Finding]:
    """Name the models without a known price, because no budget can stop them."""
    try:
        return [Finding("price", describe_unpriced(model, settings), warning=True) for model in list_unpriced(settings)]
    except HeadwayError as error:
        return [Finding("price", str(error), ok=False)]
