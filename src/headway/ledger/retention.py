"""How long rows are kept. Without the setting, nothing is deleted because of its age."""

from collections.abc import Mapping
from typing import Final, Literal, get_args

from headway.ledger.errors import SettingsError

Group = Literal["events", "transcripts", "runs", "conversations", "goals", "files", "receipts", "audit"]
Retention = Mapping[Group, int]  # days by group; a group that is missing is kept

GROUPS: Final[tuple[Group, ...]] = get_args(Group)
MAX_DAYS: Final = 36_500
DAY_MS: Final = 86_400_000
RESTORE_DAYS: Final = 1  # how long a deleted conversation can be restored


def parse_retention(variable: str, value: str) -> Retention:
    """Parse a list such as `events:30d,transcripts:90d`."""
    retention: dict[Group, int] = {}
    for item in filter(None, (part.strip() for part in value.split(","))):
        name, _, age = item.partition(":")
        group = next((known for known in GROUPS if known == name.strip()), None)
        days = age.strip().removesuffix("d")
        if group is None:
            raise SettingsError(f"{variable}: {name.strip()[:40]!r} is unknown. Known: {', '.join(GROUPS)}.")
        if not (age.strip().endswith("d") and days.isascii() and days.isdigit() and len(days) < 6 and 1 <= int(days) <= MAX_DAYS):
            raise SettingsError(f"{variable}: {item[:60]!r} must name a number of days from 1 to {MAX_DAYS}, such as {group}:30d.")
        if group in retention:
            raise SettingsError(f"{variable} names {group} twice.")
        retention[group] = int(days)
    return retention


def describe_retention(retention: Retention) -> str:
    """Return one sentence about what is deleted when."""
    if not retention:
        return "everything is kept"
    ages = ", ".join(f"{group} after {days} day{'s' if days != 1 else ''}" for group, days in retention.items())
    kept = [group for group in GROUPS if group not in retention]
    return f"deleted: {ages}" + (f"; kept: {', '.join(kept)}" if kept else "")
