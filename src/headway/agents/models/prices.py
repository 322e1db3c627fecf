"""What a model call costs, in billionths of a dollar. Unknown models cost nothing, unless the installation says what they do."""

import tomllib
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from genai_prices import Usage, calc_price
from pydantic_ai.usage import RequestUsage

from headway.ledger.errors import SettingsError
from headway.ledger.run import NANOS_PER_DOLLAR

# Names the price list knows providers by, where they differ from those in a model's name.
PROVIDERS: Final = {"openai-chat": "openai", "openai-responses": "openai", "google-gla": "google", "google-vertex": "google"}
CHARACTERS_PER_TOKEN: Final = 3
EXPECTED_OUTPUT_TOKENS: Final = 2_000


class Price(NamedTuple):
    """Dollars per million tokens."""

    input: float
    output: float


class Prices:
    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        self.own = own or {}

    def cost(self, model: str, usage: RequestUsage) -> int:
        """Of a call that was made; `model` is provider:name."""
        if price := self.own.get(model):
            return max(
                0, int((usage.input_tokens * price.input + usage.output_tokens * price.output) * NANOS_PER_DOLLAR / 1_000_000)
            )
        return compute_list_cost(model, usage)

    def estimate(self, model: str, characters: int) -> int:
        """Of a call that will send so much. Free models are free whatever is sent."""
        tokens = characters // CHARACTERS_PER_TOKEN
        return self.cost(model, RequestUsage(input_tokens=tokens, output_tokens=EXPECTED_OUTPUT_TOKENS))

    def is_free(self, model: str) -> bool:
        return model not in self.own and not has_list_price(model)


def compute_list_cost(model: str, usage: RequestUsage) -> int:
    if not has_list_price(model):
        return 0
    provider, _, name = model.partition(":")
    price = partial(calc_price, model_ref=name, provider_id=PROVIDERS.get(provider, provider))
    try:
        priced = price(usage)
    except ValueError:  # such as more tokens read from a cache than there were: a provider that cannot count ends nobody's work
        priced = price(Usage(input_tokens=max(0, usage.input_tokens), output_tokens=max(0, usage.output_tokens)))
    return int(priced.total_price * NANOS_PER_DOLLAR)


@lru_cache(maxsize=256)
def has_list_price(model: str) -> bool:
    """Whether the price list knows it; looking for what is not there takes long."""
    provider, colon, name = model.partition(":")
    if not colon:
        return False
    try:
        calc_price(Usage(input_tokens=1), name, provider_id=PROVIDERS.get(provider, provider))
    except LookupError:
        return False
    return True


def load_prices(path: Path) -> dict[str, Price]:
    """An installation's own prices: a TOML table per model, with dollars per million tokens as `input` and `output`."""
    if not path.is_file():
        return {}
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
        return {model: Price(float(table["input"]), float(table["output"])) for model, table in tables.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(f'{path} cannot be read: {error!r}. Write ["provider:name"] with input and output.') from None
