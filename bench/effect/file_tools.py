"""The five tools that all other frameworks get: names and arguments as Headway's, results in short sentences."""

import ast
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

READ_LIMIT: Final = 50_000
OPERATIONS: Final[dict[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
LARGEST_POWER: Final = 100


def make_file_tools(workspace: Path) -> list[Callable[..., str]]:
    """Return the tools for one workspace. Errors are results, so that every framework shows them to the model."""
    root = workspace.resolve()

    def read_file(path: str) -> str:
        """Read a text file in the workspace."""
        return answer(lambda: locate(root, path).read_text(encoding="utf-8")[:READ_LIMIT], path)

    def write_file(path: str, content: str) -> str:
        """Write a whole text file in the workspace; creates folders."""

        def write() -> str:
            place = locate(root, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content, encoding="utf-8")
            return f"Wrote {path}."

        return answer(write, path)

    def edit_file(path: str, old: str, new: str) -> str:
        """Replace text in a file in the workspace. The old text must occur exactly once."""

        def replace() -> str:
            place = locate(root, path)
            text = place.read_text(encoding="utf-8")
            if text.count(old) != 1:
                return f"Error: the old text occurs {text.count(old)} times in {path}. Nothing was changed."
            place.write_text(text.replace(old, new), encoding="utf-8")
            return f"Edited {path}."

        return answer(replace, path)

    def list_files() -> str:
        """List the files in the workspace."""
        return list_below(root)

    def calculate(expression: str) -> str:
        """Do arithmetic: + - * / // % **."""
        return answer(lambda: str(evaluate(ast.parse(expression, mode="eval").body)), expression)

    return [read_file, write_file, edit_file, list_files, calculate]


def locate(root: Path, path: str) -> Path:
    place = (root / path.lstrip("/")).resolve()
    if place != root and root not in place.parents:
        raise ValueError("The path leads out of the workspace.")
    return place


def list_below(root: Path) -> str:
    return "\n".join(sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())) or "There are no files."


def answer(work: Callable[[], str], subject: str) -> str:
    try:
        return work()
    except FileNotFoundError:
        return f"Error: there is no file {subject}."
    except (OSError, ValueError, SyntaxError, ArithmeticError) as error:
        return f"Error: {error}"


def evaluate(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, exponent = evaluate(left), evaluate(right)
            if abs(exponent) > LARGEST_POWER or abs(base) > 10**6:
                raise ValueError("The result is too large.")
            return base**exponent
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATIONS:
            return OPERATIONS[type(sign)](evaluate(left), evaluate(right))
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in OPERATIONS:
            return OPERATIONS[type(sign)](evaluate(operand))
    raise ValueError("Only numbers and + - * / // % ** are supported.")
