"""`headway costs`: what the agents of a tenant have spent."""

import os
from collections.abc import Iterator
from typing import Any

import click

from headway.actions import spending
from headway.ledger.run import REHEARSAL_MODEL
from headway.ledger.text import to_one_line
from headway.settings import Settings
from headway.surfaces.cli.context import TENANT_WIDE, Command, Invocation, pass_invocation


@click.command(cls=Command, unused=TENANT_WIDE)
@pass_invocation
def costs(invocation: Invocation) -> None:
    """Show what agents spent in the last 24 hours: the total, the limit, and the calls and tokens by model."""
    settings = invocation.settings()
    unpriced = list_unpriced(settings)
    with invocation.open_ledger() as ledger:
        document = ledger.read(spending.build_costs, settings.limits.budget, unpriced)
    invocation.answer({"costs": document}, lambda: click.echo("\n".join(format_costs(document, settings))))


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


def format_costs(costs: dict[str, Any], settings: Settings) -> Iterator[str]:
    yield f"${costs['spent_usd']:.4f} of ${costs['limit_usd']:.2f} in the last 24 hours"
    for row in costs["by_model"]:
        calls = f"{row['calls']:,} {'call' if row['calls'] == 1 else 'calls'}"
        tokens = f"{row['input_tokens']:,} tokens in{format_cached(row)}, {row['output_tokens']:,} out"
        yield f"{to_one_line(row['model'])}  ${row['cost_usd']:.4f}  {calls}  {tokens}"
    for model in costs["unpriced"]:
        yield f"! {describe_unpriced(model, settings)}"


def format_cached(row: dict[str, Any]) -> str:
    """Format the share of the input that was read from the provider's cache."""
    cached = row["cached_tokens"]
    return f" ({cached / row['input_tokens']:.0%} from the cache)" if cached else ""
