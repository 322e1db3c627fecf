"""Numbers that follow from others in the one simple way that the words of an item mean, so that they need no calculation."""

import re
from collections.abc import Callable, Sequence
from math import factorial, isclose, nan, prod, sqrt
from typing import Final, NamedTuple

from headway.ledger.items.request_items import strip_introduction
from headway.ledger.items.work import list_all_numbers

OPERANDS: Final = 40  # numbers that are combined
TEXT_LIMIT: Final = 2_000  # characters of a text with numbers
PRECISION: Final = 1e-4
RATE: Final = r"\d (?!per ?cent)\w+ (?:of|at) (?:\w+ )?\d|\beach\b|\bper\b"  # as in `12 boxes of 7 kg`
OFF: Final = r"(?:%|per ?cent) (?:off|less|cheaper|discount)|\breduced by\b|\bdiscount of\b"
EXPONENT_LIMIT: Final = 64
BASE_LIMIT: Final = 10_000
DIRECT: Final = re.compile(r"(?:\b(?:sum|product|average|mean|difference|quotient|square|double|half|percent)|%) (?:of|between) \d")
FUNCTION: Final = re.compile(r"[a-z]\(")


class Operation(NamedTuple):
    """A calculation that words mean."""

    words: re.Pattern[str]
    signs: str  # of which an expression needs one
    calculate: Callable[[Sequence[float]], float]  # with the numbers in the order of the text
    is_single: bool = False  # it has one operand


def divide(number: float, by: float) -> float:
    return number / by if by else nan


def raise_to(number: float, power: float) -> float:
    return float(number**power) if number > 0 and abs(power) <= EXPONENT_LIMIT and number <= BASE_LIMIT else nan


def count_orders(number: float) -> float:
    return float(factorial(int(number))) if 0 <= number <= EXPONENT_LIMIT and number == int(number) else nan


OPERATIONS: Final = (
    Operation(re.compile(r"\badd\b|\bsum\b|\bplus\b|\baltogether\b"), "+", sum),
    Operation(re.compile(rf"^(?!.*(?:{RATE})).*\btotal\b"), "+*", sum),
    Operation(re.compile(rf"{RATE}|\bmultipl|\bproduct\b|\btimes\b|\barea\b|\bwages?\b|\d\s*[*×]\s*\d"), "*", prod),
    Operation(
        re.compile(r"\bminus\b|\bdifference\b|\bless\b|\bremain|\bleft\b"), "-", lambda numbers: 2 * numbers[0] - sum(numbers)
    ),
    Operation(re.compile(r"\bsubtract\b"), "-", lambda numbers: numbers[1] - numbers[0]),
    Operation(re.compile(r"\bdivid|\bquotient\b|\bper\b"), "/", lambda numbers: divide(numbers[0], numbers[1])),
    Operation(re.compile(r"\baverage\b|\bmean\b"), "/", lambda numbers: sum(numbers) / len(numbers)),
    # 7 litres per 100 km, 250 km, and the other way round
    Operation(re.compile(r"\b(?:per|for|every) \d"), "*/", lambda numbers: divide(numbers[0] * numbers[-1], numbers[1])),
    Operation(re.compile(r"\b(?:per|for|every) \d"), "*/", lambda numbers: divide(numbers[0] * numbers[1], numbers[-1])),
    Operation(re.compile(rf"^(?!.*(?:{OFF})).*(?:%|\bper ?cent)"), "*/", lambda numbers: numbers[0] * numbers[1] / 100),
    Operation(re.compile(OFF), "*-", lambda numbers: max(numbers) - numbers[0] * numbers[1] / 100),
    Operation(re.compile(r"\bpower\b"), "*^", lambda numbers: raise_to(numbers[0], numbers[1])),
    Operation(re.compile(r"\baround\b|\bperimeter\b|\bfence\b"), "*+", lambda numbers: 2 * (numbers[0] + numbers[1])),
    Operation(
        re.compile(r"\b(?:hours?|minutes?) (?:and )?\d+ (?:minutes?|seconds?)\b"),
        "*+",
        lambda numbers: numbers[0] * 60 + numbers[1],
    ),
    Operation(re.compile(r"\bsquare root\b"), "*^", lambda numbers: sqrt(max(numbers[0], 0)), is_single=True),
    Operation(re.compile(r"\bfactorial\b"), "*!", lambda numbers: count_orders(numbers[0]), is_single=True),
    Operation(re.compile(r"\bsquares?\b(?! root)"), "*", lambda numbers: numbers[0] * numbers[0], is_single=True),
    Operation(re.compile(r"\bdouble\b|\btwice\b"), "*+", lambda numbers: numbers[0] * 2, is_single=True),
    Operation(re.compile(r"\bhalf\b|\bhalves\b"), "/*", lambda numbers: numbers[0] / 2, is_single=True),
)


CHOICES: Final = (
    (re.compile(r"\b(?:larger|largest|greater|greatest|bigger|biggest|higher|highest|maximum) (?:one )?of\b"), max),
    (re.compile(r"\b(?:smaller|smallest|lesser|least|lower|lowest|minimum) (?:one )?of\b"), min),
)
PERCENT: Final = re.compile(r"(\d{1,6}(?:\.\d{1,4})?) ?(?:%|per ?cent)")


def choose_number(item: str) -> str:
    """Return the number that `the larger of 3 and 5` means."""
    own_words = strip_introduction(item)[:TEXT_LIMIT].lower()
    choose = next((choose for words, choose in CHOICES if words.search(own_words)), None)
    numbers = list_all_numbers(own_words)
    return choose(numbers, key=float) if choose and len(numbers) > 1 else ""


def list_factors(item: str) -> set[str]:
    """List the factors that percentages of an item may mean: 0.2, 0.8 and 1.2 for `20 %`."""
    rates = [float(rate) / 100 for rate in PERCENT.findall(item[:TEXT_LIMIT])]
    return {f"{factor:.6g}" for rate in rates for factor in (rate, 1 - rate, 1 + rate)}


def list_named(text: str) -> list[Operation]:
    """List the operations that the words of a text mean."""
    return [operation for operation in OPERATIONS if operation.words.search(text[:TEXT_LIMIT].lower())]


def is_arithmetic(item: str) -> bool:
    """Whether an item's own words name an operation."""
    return bool(list_named(strip_introduction(item)))


def is_direct(item: str) -> bool:
    """Whether an item says all of its calculation, such as `15 percent of 240` or `the average of 2 and 6`."""
    own_words = strip_introduction(item)
    return (
        bool(DIRECT.search(own_words[:TEXT_LIMIT].lower())) and len({operation.words for operation in list_named(own_words)}) == 1
    )


def has_sign_for(item: str, expression: str) -> bool:
    """Whether an expression may be the calculation that the item's own words name: no sum where they say `average`."""
    named = list_named(strip_introduction(item))
    signs = {sign for operation in named for sign in operation.signs}
    return not named or bool(FUNCTION.search(expression)) or not signs.isdisjoint(expression)


def can_derive(item: str, number: str, text: str) -> bool:
    """Whether a number follows from the numbers of a text in the way that the item, or else its introduction, means. If they say
    nothing, any way will do."""
    if chosen := choose_number(item):
        return number == chosen
    operands = [float(operand) for operand in list_all_numbers(text[:TEXT_LIMIT])]
    if not 0 < len(operands) <= OPERANDS or len(text) > TEXT_LIMIT:
        return False
    meant = list_named(strip_introduction(item)) or list_named(item) or OPERATIONS
    fitting = [operation for operation in meant if operation.is_single == (len(operands) == 1)]
    return any(isclose(float(number), operation.calculate(operands), rel_tol=PRECISION) for operation in fitting)
