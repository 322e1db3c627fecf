"""Amounts of money: stored as integers, in billionths of a dollar."""

from typing import Final

from headway.ledger.errors import Invalid

NANOS_PER_DOLLAR: Final = 1_000_000_000
LEAST_DOLLARS: Final = 0.000001  # of a limit or a budget; 0: none
MOST_DOLLARS: Final = 1_000_000


def to_dollars(nanos: int) -> float:
    return nanos / NANOS_PER_DOLLAR


def to_nanos(dollars: float) -> int:
    """Convert a limit or a budget to what is stored, or raise Invalid."""
    if dollars and not LEAST_DOLLARS <= dollars <= MOST_DOLLARS:
        raise Invalid(f"An amount of dollars must be from {LEAST_DOLLARS:f} to {MOST_DOLLARS:,}.")
    return int(dollars * NANOS_PER_DOLLAR)
