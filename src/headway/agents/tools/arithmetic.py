"""Evaluate arithmetic expressions by walking their syntax tree. Nothing is executed as code."""

import ast
import math
import operator
from collections.abc import Callable
from typing import Any, Final

from headway.ledger.errors import Invalid
from headway.ledger.text import MAX_INTEGER

Number = int | float

LENGTH_LIMIT: Final = 1_000
BITS_LIMIT: Final = 4_096  # for integers: more than a thousand digits, and fast to compute
DIGITS_LIMIT: Final = 300

TOO_LARGE: Final = "The result is too large."
SUPPORTED_SYNTAX: Final = "Supported: numbers, + - * / // % **, parentheses, sqrt, round, abs, min, max, sum, pi, e."


def calculate(expression: str) -> Number | str:
    """Evaluate an expression. An integer too large for most JSON readers is returned as a string of digits."""
    if len(expression) > LENGTH_LIMIT:
        raise Invalid(f"The expression has {len(expression):,} characters; at most {LENGTH_LIMIT:,} are allowed.")
    try:
        result = evaluate(ast.parse(" ".join(expression.split()), mode="eval").body)
    except SyntaxError as error:
        raise Invalid(f"This is not an arithmetic expression. {SUPPORTED_SYNTAX}") from error
    except ZeroDivisionError:
        raise Invalid("Division by zero.") from None
    except OverflowError:
        raise Invalid(TOO_LARGE) from None
    except (RecursionError, MemoryError):
        raise Invalid("The expression is nested too deeply.") from None
    except (ValueError, TypeError) as error:
        raise Invalid(f"This cannot be calculated: {error}.") from None
    return result if isinstance(result, float) or abs(result) <= MAX_INTEGER else str(result)


def evaluate(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return check_number(number)
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in SIGNS:
            return check_number(SIGNS[type(sign)](evaluate(operand)))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATIONS:
            return check_number(OPERATIONS[type(sign)](evaluate(left), evaluate(right)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return check_number(FUNCTIONS[name](*evaluate_arguments(arguments)))
    raise Invalid(f"The expression is not only arithmetic. {SUPPORTED_SYNTAX}")


def evaluate_arguments(arguments: list[ast.expr]) -> list[Number]:
    """Evaluate the arguments, given separately or as one list, because models write both sum(1, 2) and sum([1, 2])."""
    if len(arguments) == 1 and isinstance(arguments[0], ast.List | ast.Tuple):
        arguments = arguments[0].elts
    return [evaluate(argument) for argument in arguments]


def check_number(number: Any) -> Number:
    if isinstance(number, complex):
        raise Invalid("The result is not a real number.")
    if number.bit_length() > BITS_LIMIT if isinstance(number, int) else not math.isfinite(number):
        raise Invalid(TOO_LARGE)
    return number  # type: ignore[no-any-return]


def raise_to_power(base: Number, exponent: Number) -> Any:
    # Check the size first: Python would compute an integer power however much time and memory it takes.
    if isinstance(base, int) and isinstance(exponent, int) and (abs(base).bit_length() - 1) * exponent > BITS_LIMIT:
        raise Invalid(TOO_LARGE)
    return base**exponent


def round_number(number: Number, digits: Number = 0) -> Number:
    if not isinstance(digits, int) or abs(digits) > DIGITS_LIMIT:
        raise Invalid(f"round takes a whole number of digits, at most {DIGITS_LIMIT}.")
    return round(number, digits) if digits else round(number)


CONSTANTS: Final[dict[str, Number]] = {"pi": math.pi, "e": math.e}
SIGNS: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
OPERATIONS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: raise_to_power,
    ast.BitXor: raise_to_power,  # 2^3: models mean the power
}
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "sqrt": math.sqrt,
    "round": round_number,
    "abs": abs,
    "min": lambda *numbers: min(numbers),
    "max": lambda *numbers: max(numbers),
    "sum": lambda *numbers: sum(numbers),
}
