"""`headway costs`: what the agents of a tenant have spent."""

import os
from collections.abc import Sequence
from typing import Any

import click

from headway.actions.access import spending
from headway.actions.access.spending import MOST_DAYS
from headway.cells.rules import Cell
from headway.ledger.errors import Invalid
from headway.ledger.money import to_nanos
from headway.ledger.run import SpendingGroup
from headway.ledger.text import to_one_line
from headway.ledger.tiers import REHEARSAL_MODEL
from headway.settings import Settings
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import within_tenant
from headway.surfaces.cli.arguments import Dollars
from headway.surfaces.cli.context import TENANT_WIDE, Command, Invocation, get_local_tenant, pass_invocation
from headway.surfaces.cli.every_cell import CellAnswer, ask_every_cell, print_lines, report_failures
from headway.surfaces.cli.tables import print_table


@click.command(cls=Command, unused=TENANT_WIDE)
@click.option("--days", metavar="N", type=click.IntRange(1, MOST_DAYS), help="Show the costs per day, for this many days.")
@click.option("--by", type=click.Choice(["model", "role", "goal"]), help="With --days: the groups of the totals (default: model).")
@click.option("--limit", "limit_usd", type=Dollars(allows_zero=True), metavar="USD", help="Set the limit of the tenant first.")
@pass_invocation
def costs(invocation: Invocation, days: int | None, by: SpendingGroup | None, limit_usd: float | None) -> None:
    """Show what agents spent in the last 24 hours: the total, the limit, and the calls and tokens by model.

    With cells and without --tenant, show what all tenants of each cell spent, and which of them spent the most.
    """
    if limit_usd is not None:
        with invocation.open_ledger() as ledger:
            ledger.write(spending.set_limit, to_nanos(limit_usd))
    if by is not None and days is None:
        raise Invalid("--by needs --days.")
    if days is not None:
        print_history(invocation, days, by or "model")
        return
    unpriced = list_unpriced(invocation.settings())
    if invocation.tenant is not None:
        with invocation.open_ledger() as ledger:
            document = ledger.read(spending.build_costs, invocation.settings().limits.budget, unpriced)
        print_costs(invocation, document)
        return
    budget = invocation.settings().limits.budget

    def read(cell: Cell | None, database: DirectDatabase) -> dict[str, Any]:
        if cell:
            return database.read(lambda tx: spending.build_all_costs(tx, budget))
        tenant_id = get_local_tenant(database).id
        return database.read(within_tenant(tenant_id, lambda tx: spending.build_costs(tx, tenant_id, budget, unpriced)))

    answers = ask_every_cell(invocation, read)
    if answers[0].cell:
        print_costs_of_cells(invocation, answers, unpriced)
    else:
        print_costs(invocation, answers[0].value or {})


def print_history(invocation: Invocation, days: int, group: SpendingGroup) -> None:
    with invocation.open_ledger() as ledger:
        history = ledger.read(spending.build_history, days, group)

    def draw() -> None:
        spent: dict[str, float] = {}
        for row in history["rows"]:
            spent[row["day"]] = spent.get(row["day"], 0) + row["cost_usd"]
        print_lines(f"{day}  ${cost:.4f}" for day, cost in spent.items())
        click.echo(f"${history['total']['cost_usd']:.4f} from {history['first_day']} to {history['last_day']}")
        if history["groups"]:
            print_table((), (build_row({**row, "model": row["label"]}) for row in history["groups"]), "")

    invocation.answer({"history": history}, draw)


def print_costs(invocation: Invocation, costs: dict[str, Any]) -> None:
    settings, cell = invocation.settings(), {"cell": invocation.cell} if invocation.cell else {}
    invocation.answer({"costs": costs, **cell}, lambda: draw_costs(costs, settings))


def print_costs_of_cells(invocation: Invocation, answers: list[CellAnswer[dict[str, Any]]], unpriced: list[str]) -> None:
    known = [answer.value for answer in answers if answer.value is not None]
    total = {"spent_usd": round(sum(costs["spent_usd"] for costs in known), 9), "window_s": spending.WINDOW_S, "unpriced": unpriced}

    def draw() -> None:
        for answer in answers:
            draw_cell_costs(answer.cell, answer.value)
        cells = f"{len(answers)} cells" if len(known) == len(answers) else f"{len(known)} of {len(answers)} cells"
        click.echo(f"${total['spent_usd']:.4f} in the last 24 hours in {cells}")
        print_lines(f"! {describe_unpriced(model, invocation.settings())}" for model in unpriced)

    cells = [answer.build_document(lambda costs: {"costs": costs}) for answer in answers]
    invocation.answer({"costs": total, "cells": cells}, draw)
    report_failures(answers)


def list_unpriced(settings: Settings) -> list[str]:
    """List the configured models without a known price."""
    if settings.model_names == [REHEARSAL_MODEL]:
        return []
    from pathlib import Path  # noqa: PLC0415  this import and the next take a second

    from headway.agents.models.prices import Prices, load_prices  # noqa: PLC0415

    return Prices(load_prices(Path(get_prices_path(settings)))).list_unpriced(settings.model_names)


def get_prices_path(settings: Settings) -> str:
    return os.path.join(settings.home, "prices.toml")


def describe_unpriced(model: str, settings: Settings) -> str:
    return (
        f"{to_one_line(model)} has no known price: its calls are counted as $0, so the budget cannot stop it. "
        f"Add its price to {get_prices_path(settings)} (0 if it is free)."
    )


def draw_costs(costs: dict[str, Any], settings: Settings) -> None:
    click.echo(f"${costs['spent_usd']:.4f} of ${costs['limit_usd']:.2f} in the last 24 hours")
    if costs["by_model"]:
        print_table((), map(build_row, costs["by_model"]), "")
    print_lines(f"! {describe_unpriced(model, settings)}" for model in costs["unpriced"])


def draw_cell_costs(cell: str, costs: dict[str, Any] | None) -> None:
    """Print what the tenants of a cell spent. Nothing, if the cell is down."""
    if costs is None:
        return
    click.echo(f"{cell}: ${costs['spent_usd']:.4f} in the last 24 hours")
    tenants = [
        (f"tenant {row['tenant']}", f"${row['spent_usd']:.4f} of ${row['limit_usd']:.2f}", "", "") for row in costs["by_tenant"]
    ]
    if rows := [*map(build_row, costs["by_model"]), *tenants]:
        print_table((), ((f"{cell}:", *row) for row in rows), "")


def build_row(row: dict[str, Any]) -> Sequence[str]:
    """Return what a model cost, its calls and its tokens."""
    calls = f"{row['calls']:,} {'call' if row['calls'] == 1 else 'calls'}"
    tokens = f"{row['input_tokens']:,} tokens in{format_cached(row)}, {row['output_tokens']:,} out"
    return row["model"], f"${row['cost_usd']:.4f}", calls, tokens


def format_cached(row: dict[str, Any]) -> str:
    """Format the share of the input that was read from the provider's cache."""
    cached = row["cached_tokens"]
    return f" ({cached / row['input_tokens']:.0%} from the cache)" if cached else ""
