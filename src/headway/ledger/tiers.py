"""Tiers of models, and how the models of a tier are asked: the tables of models.toml."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

from headway.ledger.errors import SettingsError

Tier = Literal["strong", "mid", "cheap"]
Drive = Literal["plan", "item"]  # the whole plan in one context, or what is left of it item by item
Effort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]

REHEARSAL_MODEL: Final = "rehearsal"  # the built-in stand-in for an LLM, which needs no API key
TIERS: Final[tuple[Tier, ...]] = get_args(Tier)
DRIVES: Final[tuple[Drive, ...]] = get_args(Drive)
EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
DEFAULT_OUTPUT_TOKENS: Final = 8_192
MIN_CONTEXT_TOKENS: Final = 2_048
MIN_OUTPUT_TOKENS: Final = 16  # OpenAI's Responses API accepts no less
MAX_TOKENS: Final = 100_000_000
MAX_TEMPERATURE: Final = 2
QUOTE_LIMIT: Final = 60


class TierParameters(NamedTuple):
    """None means that the parameter is not sent, or that the model's own value applies."""

    context_tokens: int | None = None
    max_output_tokens: int = DEFAULT_OUTPUT_TOKENS
    fallback: tuple[str, ...] = ()  # models to ask, in this order, when the tier's model is out of service
    temperature: float | None = None
    thinking: bool | Effort | None = None
    tools: bool = True  # False: the models have no function calling
    drive: Drive | None = None  # by default item for a model on this machine or in this network, otherwise plan


class Field(NamedTuple):
    allows: Callable[[Any], bool]
    expected: str


def is_number(value: Any, minimum: float, maximum: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and minimum <= value <= maximum


def is_count(value: Any, minimum: int) -> bool:
    return isinstance(value, int) and is_number(value, minimum, MAX_TOKENS)


def is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


FIELDS: Final[dict[str, Field]] = {
    "model": Field(is_name, '"provider:name"'),
    "fallback": Field(lambda value: isinstance(value, list) and all(map(is_name, value)), '["provider:name", …]'),
    "temperature": Field(lambda value: is_number(value, 0, MAX_TEMPERATURE), f"a number from 0 to {MAX_TEMPERATURE}"),
    "thinking": Field(
        lambda value: isinstance(value, bool) or value in EFFORTS,
        f"true, false or one of {', '.join(EFFORTS)}",
    ),
    "max_output_tokens": Field(lambda value: is_count(value, MIN_OUTPUT_TOKENS), f"a whole number, at least {MIN_OUTPUT_TOKENS}"),
    "context_tokens": Field(lambda value: is_count(value, MIN_CONTEXT_TOKENS), f"a whole number, at least {MIN_CONTEXT_TOKENS}"),
    "tools": Field(lambda value: isinstance(value, bool), "true or false"),
    "drive": Field(lambda value: value in DRIVES, " or ".join(f'"{drive}"' for drive in DRIVES)),
}


def check_tables(document: Mapping[str, Any], path: str) -> dict[str, dict[str, Any]]:
    """Return the tables of models.toml, or raise SettingsError with what to write instead."""
    for tier, table in document.items():
        if tier not in TIERS or not isinstance(table, dict):
            raise SettingsError(
                f"{path}: {tier[:QUOTE_LIMIT]!r} is not a tier. Write tables: {', '.join(f'[{one}]' for one in TIERS)}."
            )
        for name, value in table.items():
            if name not in FIELDS:
                raise SettingsError(f"{path}: [{tier}] cannot have {name[:QUOTE_LIMIT]!r}. It can have {', '.join(FIELDS)}.")
            if not FIELDS[name].allows(value):
                quoted = repr(value)[:QUOTE_LIMIT]
                raise SettingsError(f"{path}: [{tier}] {name} must be {FIELDS[name].expected}, not {quoted}.")
    return dict(document)


def build_parameters(table: Mapping[str, Any]) -> TierParameters:
    """Build a tier's parameters from its checked table."""
    values = {name: value for name, value in table.items() if name != "model"}
    return TierParameters(**values | {"fallback": tuple(values.get("fallback", ()))})
