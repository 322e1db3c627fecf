"""Times as people write them, in UTC. A day without a time of day means its end."""

import re
from typing import Any, Final

from headway.ledger.errors import Invalid

LATEST_SECOND: Final = 253_402_300_799  # the end of the year 9999, the last that ISO 8601 can express
DAY_S: Final = 86_400
ISO_TIME: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?")
MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def parse_time(value: Any, field: str) -> int:
    """Parse epoch seconds, or a date or a time of ISO 8601. Without an offset, it is in UTC."""
    seconds = value
    if isinstance(value, str):
        seconds = int(value) if re.fullmatch(r"[0-9]{1,12}", value) else parse_iso(value)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 1 <= seconds <= LATEST_SECOND or seconds != int(seconds):
        raise Invalid(f"{field} must be a date such as 2026-12-01, a time such as 2026-12-01T14:00Z, or epoch seconds.")
    return int(seconds)


def parse_iso(value: str) -> int:
    """Return the epoch seconds; 0 if it is not a time."""
    match = ISO_TIME.fullmatch(value.strip().upper())
    if not match:
        return 0
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    is_valid = 1 <= month <= 12 and 1 <= day <= count_month_days(year, month) and hour < 24 and minute < 60 and second < 60
    if not is_valid:
        return 0
    midnight = count_days(year, month, day) * DAY_S
    if match[4] is None:
        return midnight + DAY_S - 1
    return midnight + hour * 3600 + minute * 60 + second - parse_offset(match[7])


def parse_offset(offset: str | None) -> int:
    if offset in (None, "Z"):
        return 0
    digits = offset[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -seconds if offset[0] == "-" else seconds


def format_time(seconds: int) -> str:
    """Format a time so that `parse_time` returns it: a date alone if it is the end of a day."""
    days, second = divmod(seconds, DAY_S)
    date = "{:04}-{:02}-{:02}".format(*find_date(days))
    return date if second == DAY_S - 1 else f"{date}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def count_month_days(year: int, month: int) -> int:
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and is_leap else MONTH_DAYS[month - 1]


def count_days(year: int, month: int, day: int) -> int:
    """Count the days since 1970-01-01. Years begin in March here, so that a leap day is the last of its year."""
    year -= month <= 2
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + day_of_year - 719_468


def find_date(days: int) -> tuple[int, int, int]:
    """Return the year, month and day of a number of days since 1970-01-01."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return era * 400 + year_of_era + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1
