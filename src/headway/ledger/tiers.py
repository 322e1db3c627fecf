"""Tiers of models, and how the models of a tier are asked."""

from typing import Final, Literal, NamedTuple, get_args

Tier = Literal["strong", "mid", "cheap"]

TIERS: Final[tuple[Tier, ...]] = get_args(Tier)
DEFAULT_OUTPUT_TOKENS: Final = 8_192
MIN_CONTEXT_TOKENS: Final = 2_048
MIN_OUTPUT_TOKENS: Final = 16  # OpenAI's Responses API accepts no less
MAX_TOKENS: Final = 100_000_000


class TierParameters(NamedTuple):
    """None means that the parameter is not sent, or that the model's own value applies."""

    context_tokens: int | None = None
    max_output_tokens: int = DEFAULT_OUTPUT_TOKENS
