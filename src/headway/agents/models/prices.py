"""The cost of a model call, in billionths of a dollar.

Models without a known price cost nothing unless the installation sets one.
"""

import tomllib
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

from genai_prices import Usage, calc_price
from pydantic_ai.usage import RequestUsage

from headway.ledger.errors import SettingsError
from headway.ledger.money import NANOS_PER_DOLLAR
from headway.ledger.tiers import REHEARSAL_MODEL

# The price list's provider names, where they differ from the ones in model names.
PROVIDERS: Final = {"openai-chat": "openai", "openai-responses": "openai", "google-gla": "google", "google-vertex": "google"}


class Price(NamedTuple):
    """Dollars per million tokens. Cache reads and writes cost as much as other input unless they have prices of their own."""

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None


class Prices:
    def __init__(self, overrides: Mapping[str, Price] | None = None) -> None:
        self.overrides = overrides or {}

    def cost(self, model: str, usage: RequestUsage) -> int:
        """Return the cost of a call that was made. `model` is `provider:name`."""
        price = self.overrides.get(model)
        return compute_own_cost(price, usage) if price else compute_list_cost(model, usage)

    def estimate(self, model: str, input_tokens: int, output_tokens: int) -> int:
        """Return the most that a call with these tokens can cost. Some providers charge more for input that they cache."""
        plain = RequestUsage(input_tokens=input_tokens, output_tokens=output_tokens)
        cached = RequestUsage(input_tokens=input_tokens, cache_write_tokens=input_tokens, output_tokens=output_tokens)
        return max(self.cost(model, plain), self.cost(model, cached))

    def is_free(self, model: str) -> bool:
        return model not in self.overrides and not has_list_price(model)

    def costs_money(self, model: str) -> bool:
        """Whether a call of the model can cost anything. An installation may set a price of zero."""
        price = self.overrides.get(model)
        return has_list_price(model) if price is None else any(price)

    def list_unpriced(self, models: Iterable[str]) -> list[str]:
        """List the models without a known price, without duplicates. The rehearsal is left out: it makes no calls that cost."""
        return [model for model in dict.fromkeys(models) if model != REHEARSAL_MODEL and self.is_free(model)]


class CacheUse(NamedTuple):
    """The input tokens that a provider read from its prompt cache, and the ones it wrote to it."""

    read: int = 0
    written: int = 0


def count_cached(usage: RequestUsage) -> CacheUse:
    """Return the cached tokens of a call. Impossible counts are ignored, so that the whole input is charged at the full price."""
    return CacheUse(usage.cache_read_tokens, usage.cache_write_tokens) if has_possible_cache(usage) else CacheUse()


def has_possible_cache(usage: RequestUsage) -> bool:
    """Return whether the cached tokens can be part of the input. Some servers report more of them than there are tokens."""
    counts = usage.cache_read_tokens, usage.cache_write_tokens
    return all(isinstance(count, int) and count >= 0 for count in counts) and sum(counts) <= usage.input_tokens


def compute_own_cost(price: Price, usage: RequestUsage) -> int:
    cached = count_cached(usage)
    dollars_per_million = (
        (usage.input_tokens - sum(cached)) * price.input
        + cached.read * (price.input if price.cached_input is None else price.cached_input)
        + cached.written * (price.input if price.cache_write is None else price.cache_write)
        + usage.output_tokens * price.output
    )
    return max(0, int(dollars_per_million * NANOS_PER_DOLLAR / 1_000_000))


def compute_list_cost(model: str, usage: RequestUsage) -> int:
    if not has_list_price(model):
        return 0
    provider, _, name = model.partition(":")
    price = partial(calc_price, model_ref=name, provider_id=PROVIDERS.get(provider, provider))
    totals = Usage(input_tokens=max(0, usage.input_tokens), output_tokens=max(0, usage.output_tokens))
    try:
        priced = price(usage if has_possible_cache(usage) else totals)
    except ValueError:  # for example, a negative number of tokens; a provider's miscount must not fail the run
        priced = price(totals)
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
    """Load an installation's own prices: one TOML table per model, with `input`, `output` and perhaps `cached_input` and
    `cache_write`, in dollars per million tokens."""
    if not path.is_file():
        return {}
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
        return {model: parse_price(table) for model, table in tables.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(f'{path} cannot be read: {error!r}. Write ["provider:name"] with input and output.') from None


def parse_price(table: Mapping[str, Any]) -> Price:
    price = Price(**{name: float(table[name]) for name in Price._fields if name in table})
    if not all(0 <= dollars < inf for dollars in price if dollars is not None):
        raise ValueError("a price is a number of dollars, 0 or more")
    return price
