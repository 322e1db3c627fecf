"""The cost of a model call, in billionths of a dollar.

Models without a known price cost nothing unless the installation sets one.
"""

import tomllib
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from genai_prices import Usage, calc_price
from pydantic_ai.usage import RequestUsage

from headway.ledger.errors import SettingsError
from headway.ledger.run import NANOS_PER_DOLLAR

# The price list's provider names, where they differ from those in model names.
PROVIDERS: Final = {"openai-chat": "openai", "openai-responses": "openai", "google-gla": "google", "google-vertex": "google"}


class Price(NamedTuple):
    """Dollars per million tokens."""

    input: float
    output: float


class Prices:
    def __init__(self, overrides: Mapping[str, Price] | None = None) -> None:
        self.overrides = overrides or {}

    def cost(self, model: str, usage: RequestUsage) -> int:
        """Return the cost of a call that was made. `model` is `provider:name`."""
        if price := self.overrides.get(model):
            return max(
                0, int((usage.input_tokens * price.input + usage.output_tokens * price.output) * NANOS_PER_DOLLAR / 1_000_000)
            )
        return compute_list_cost(model, usage)

    def estimate(self, model: str, input_tokens: int, output_tokens: int) -> int:
        """Return the most that a call with these tokens can cost. Some providers charge more for input that they cache."""
        plain = RequestUsage(input_tokens=input_tokens, output_tokens=output_tokens)
        cached = RequestUsage(input_tokens=input_tokens, cache_write_tokens=input_tokens, output_tokens=output_tokens)
        return max(self.cost(model, plain), self.cost(model, cached))

    def is_free(self, model: str) -> bool:
        return model not in self.overrides and not has_list_price(model)


def compute_list_cost(model: str, usage: RequestUsage) -> int:
    if not has_list_price(model):
        return 0
    provider, _, name = model.partition(":")
    price = partial(calc_price, model_ref=name, provider_id=PROVIDERS.get(provider, provider))
    try:
        priced = price(usage)
    except ValueError:  # for example, more cached tokens than tokens; a provider's miscount must not fail the run
        priced = price(Usage(input_tokens=max(0, usage.input_tokens), output_tokens=max(0, usage.output_tokens)))
    return int(priced.total_price * NANOS_PER_DOLLAR)


@lru_cache(maxsize=256)
def has_list_price(model: str) -> bool:
    """Return whether the price list has this model. Cached, because a failed lookup is slow."""
    provider, colon, name = model.partition(":")
    if not colon:
        return False
    try:
        calc_price(Usage(input_tokens=1), name, provider_id=PROVIDERS.get(provider, provider))
    except LookupError:
        return False
    return True


def load_prices(path: Path) -> dict[str, Price]:
    """Load an installation's own prices: one TOML table per model, with `input` and `output` in dollars per million tokens."""
    if not path.is_file():
        return {}
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
        return {model: Price(float(table["input"]), float(table["output"])) for model, table in tables.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(f'{path} cannot be read: {error!r}. Write ["provider:name"] with input and output.') from None
