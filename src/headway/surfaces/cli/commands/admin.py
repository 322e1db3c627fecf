"""`headway admin`: the commands that only the operator of an installation needs."""

import click

from headway.surfaces.cli.lazy_group import LazyCommand, LazyGroup

SECTIONS = {
    "Commands": {
        "tenant": LazyCommand("tenant:tenant", "Add, move, export and delete tenants, and show their quotas."),
        "cell": LazyCommand("cell:cell", "Manage cells: several databases that share the tenants."),
        "job": LazyCommand("jobs:jobs", "Inspect the queue; retry or delete dead jobs."),
        "audit": LazyCommand("operators:audit", "Show who changed access, limits or rules."),
    }
}
EXAMPLES = ("headway admin tenant add acme", "headway admin job list --dead", "headway admin audit --since 7d")


@click.group(cls=LazyGroup, sections=SECTIONS, examples=EXAMPLES)
def admin() -> None:
    """Manage the installation: its tenants and cells, its queue of jobs, and the log of changes to access and limits."""
