"""The fields of a todo as people and models write them: priority, labels, and a due date as a calendar time."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

from headway.ledger import text
from headway.ledger.errors import Invalid

LATEST_SECOND: Final = 253_402_300_799  # the end of the year 9999, the last that ISO 8601 can express
DAY_S: Final = 86_400
ISO_TIME: Final = r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?"
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
    match = re.fullmatch(ISO_TIME, value.strip().upper())
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


# The fields of a todo that say how urgent it is and what it belongs to. Every surface takes them from FIELDS: their rules,
# how they are stored, and how people write them (`priority:high due:2026-12-01 label:home`).


Priority = Literal["urgent", "high", "normal", "low"]

PRIORITIES: Final[tuple[Priority, ...]] = get_args(Priority)  # stored as their indexes, which is how they are ordered
NORMAL: Final = PRIORITIES.index("normal")
DEFAULT_PRIORITY: Final = ("priority", "normal")  # in documents
NO_DUE: Final = (LATEST_SECOND + 1) * 1000  # after every time, so that todos without one come last
LABELS_LIMIT: Final = 20
LABEL_LIMIT: Final = 50
LABEL_PATTERN: Final = rf'^[^{text.CONTROLS}"]*[^{text.CONTROLS}{text.SPACES}"][^{text.CONTROLS}"]*$'
SEPARATOR: Final = "\n"  # around each stored label, so that a query can look for a whole one


class TodoField(NamedTuple):
    """A field, as surfaces offer it."""

    name: str  # in documents: labels
    word: str  # in options and texts, where each has one value: --label home, label:home
    metavar: str
    meaning: str
    default: Any  # as it is stored
    parse: Callable[[Any], Any]  # what a caller gives, as JSON or text. Returns what is stored, or raises Invalid
    format: Callable[[Any], tuple[str, ...]]  # what is stored, as people write it
    is_list: bool = False


def parse_priority(value: Any) -> int:
    if value not in PRIORITIES:
        raise Invalid(f"priority must be {', '.join(PRIORITIES[:-1])} or {PRIORITIES[-1]}.")
    return PRIORITIES.index(value)


def parse_due(value: Any) -> int:
    return NO_DUE if value in (None, "") else parse_time(value, "due") * 1000


def parse_labels(value: Any) -> str:
    if not isinstance(value, list | tuple):
        raise Invalid("labels must be a list of texts.")
    labels = sorted({check_label(label) for label in value})
    if len(labels) > LABELS_LIMIT:
        raise Invalid(f"A todo has at most {LABELS_LIMIT} labels; these are {len(labels)}.")
    return "".join(f"{SEPARATOR}{label}" for label in labels) + SEPARATOR if labels else ""


def check_label(label: Any) -> str:
    if not isinstance(label, str):
        raise Invalid("A label must be text.")
    if '"' in label:
        raise Invalid("A label must not contain quotation marks.")
    name = text.check_name(label, "label")
    if len(name) > LABEL_LIMIT:
        raise Invalid(f"A label has at most {LABEL_LIMIT} characters; this one has {len(name)}.")
    return name


def list_labels(stored: str) -> list[str]:
    return stored.split(SEPARATOR)[1:-1] if stored else []


FIELDS: Final = (
    TodoField(
        "priority",
        "priority",
        "WORD",
        "How urgent it is: urgent, high, normal or low",
        NORMAL,
        parse_priority,
        lambda index: () if index == NORMAL else (PRIORITIES[index],),
    ),
    TodoField(
        "due",
        "due",
        "TIME",
        "When it should be done: 2026-12-01, 2026-12-01T14:00Z or epoch seconds",
        NO_DUE,
        parse_due,
        lambda at: () if at == NO_DUE else (format_time(at // 1000),),
    ),
    TodoField(
        "labels", "label", "TEXT", "What it belongs to", "", parse_labels, lambda stored: tuple(list_labels(stored)), is_list=True
    ),
)
FIELDS_BY_WORD: Final = {field.word: field for field in FIELDS}
WORDS: Final = "|".join(FIELDS_BY_WORD)  # in patterns
WORD: Final = rf'({WORDS}):("[^"]*"|\S+)'


def parse_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the fields that a document has. Null is as if the field were absent."""
    return {field.name: field.parse(document[field.name]) for field in FIELDS if document.get(field.name) is not None}


def parse_words(words: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Parse fields from pairs such as ("label", "home"). The last value counts, unless the field is a list. Empty text clears."""
    values: dict[str, list[str]] = {}
    for word, value in words:
        values.setdefault(word, []).append(value)
    fields = [(FIELDS_BY_WORD[word], given) for word, given in values.items()]
    return {field.name: field.parse([*filter(None, given)] if field.is_list else given[-1]) for field, given in fields}


def cut_words(line: str) -> tuple[str, dict[str, Any]]:
    """Cut the fields from the end of a line: `Buy milk priority:high label:home`. Returns the rest and the parsed fields."""
    words: list[tuple[str, str]] = []
    while match := re.compile(WORD).fullmatch(line, find_last_word(line)):
        words.insert(0, (match[1], match[2].strip('"')))
        line = line[: match.start()].rstrip()
    return line, parse_words(words)


def find_last_word(line: str) -> int:
    """Return where the last word begins. A value in quotation marks may have spaces."""
    end = line.rfind(':"') if line.endswith('"') else len(line)
    return line.rfind(" ", 0, max(end, 0)) + 1


def list_words(todo: Any) -> list[tuple[str, str]]:
    """List the fields that a todo has set, as pairs such as ("label", "home")."""
    return [(field.word, value) for field in FIELDS for value in field.format(getattr(todo, field.name))]


def format_words(todo: Any) -> str:
    """Return the fields that a todo has set, as people write them, with a space before each."""
    return "".join(f' {word}:"{value}"' if " " in value else f" {word}:{value}" for word, value in list_words(todo))


# Filters by these fields


class FieldFilters(NamedTuple):
    """Selects todos by their fields."""

    priority: int | None = None
    labels: tuple[str, ...] = ()  # all of them
    due_before: int | None = None
    open_only: bool = False


class FilterOption(NamedTuple):
    """A filter, as surfaces offer it."""

    name: str  # as a parameter
    metavar: str  # empty: it is on or off
    meaning: str
    is_list: bool = False


FILTERS: Final = (
    FilterOption("priority", "WORD", "Only of this priority."),
    FilterOption("label", "TEXT", "Only with this label (repeatable: all of them).", is_list=True),
    FilterOption("due_before", "TIME", "Only todos that are due before this time."),
    FilterOption("overdue", "", "Only open todos whose time has passed."),
)


def parse_filters(given: Mapping[str, Any], now: int) -> FieldFilters:
    """Parse the filters that a caller has set. Only open todos are overdue."""
    priority, due_before, overdue = given.get("priority"), given.get("due_before"), bool(given.get("overdue"))
    limits = [*([] if due_before is None else [parse_due(due_before)]), *([now] if overdue else [])]
    return FieldFilters(
        None if priority is None else parse_priority(priority),
        tuple(dict.fromkeys(map(check_label, given.get("label", ())))),
        min(limits, default=None),
        overdue,
    )
