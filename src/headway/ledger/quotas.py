"""Quotas: the most that one tenant may use of what all tenants share."""

from typing import Final, NamedTuple

from headway.ledger.errors import SettingsError

GIBIBYTE: Final = 2**30
UNITS: Final = {"M": 2**20, "G": GIBIBYTE, "T": 2**40}
UNLIMITED: Final = 2**62
EXAMPLE: Final = "turns:200,storage:5G"


class Quotas(NamedTuple):
    turns: int = 1_000  # turns that have not ended
    jobs: int = 256  # jobs that one process runs at once; more of them wait
    streams: int = 1_000  # open event streams of one process
    storage: int = 20 * GIBIBYTE  # bytes of stored text and files


def parse_quotas(variable: str, spelling: str) -> Quotas:
    """Parse a list such as `turns:200,storage:5G`. A quota that it does not name keeps its default; `none` removes one."""
    quotas = Quotas()
    for item in filter(None, (item.strip() for item in spelling.split(","))):
        name, _, amount = item.partition(":")
        if name not in Quotas._fields:
            known = ", ".join(Quotas._fields)
            raise SettingsError(f"{variable} names an unknown quota {name[:40]!r}. Known quotas: {known}. Example: {EXAMPLE}.")
        quotas = quotas._replace(**{name: parse_amount(variable, name, amount)})
    return quotas


def parse_amount(variable: str, name: str, amount: str) -> int:
    if amount == "none":
        return UNLIMITED
    unit = UNITS.get(amount[-1:], 0) if name == "storage" else 1
    digits = amount[:-1] if name == "storage" else amount
    if not (unit and digits.isascii() and digits.isdigit() and len(digits) <= 9 and int(digits) > 0):
        form = "a whole number with M, G or T" if name == "storage" else "a whole number from 1"
        raise SettingsError(f"{variable}: {name} must be {form}, or none, not {amount[:40]!r}. Example: {EXAMPLE}.")
    return int(digits) * unit


def format_size(number: int) -> str:
    return next((f"{number / unit:.1f} {name}iB" for name, unit in reversed(UNITS.items()) if number >= unit), f"{number:,} bytes")


def count_bytes(*texts: str | None) -> int:
    """Count the bytes of texts as the database stores them."""
    return sum(len(text) if text.isascii() else len(text.encode()) for text in texts if text)
