"""Tools that users write: a function with typed parameters and a docstring, marked with @tool, in a file of their folder."""

import inspect
import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeVar, overload

from pydantic import Field, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from headway.agents.execution import Execution
from headway.agents.toolbox import Arguments, Tool
from headway.ledger.errors import BadTool, Invalid, SettingsError
from headway.ledger.text import one_line

F = TypeVar("F", bound=Callable[..., Any])

MARK: Final = "headway_tool"
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what every provider of models accepts
PREFIX: Final = "argument_"  # a parameter may be called like something that pydantic keeps for itself
LONGEST_S: Final = 86_400
REASON_LIMIT: Final = 500


class Signature(NamedTuple):
    """What a function wants: arguments from the model, and perhaps to know who calls."""

    arguments: type[Arguments]
    names: tuple[str, ...]
    execution: str | None


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(*, name: str | None = None, idempotent: bool = False, timeout_s: float = 60.0) -> Callable[[F], F]: ...


def tool(
    function: F | None = None, /, *, name: str | None = None, idempotent: bool = False, timeout_s: float = 60.0
) -> F | Callable[[F], F]:
    """Make a function a tool. It can still be called as before.

    idempotent: whether doing it twice is like doing it once; only then is it done again after a crash.
    """

    def mark(function: F) -> F:
        setattr(function, MARK, made(function, name or function.__name__, idempotent, timeout_s))
        return function

    return mark if function is None else mark(function)


def tool_of(function: Any) -> Tool | None:
    """The tool a function was made, if it was."""
    found = getattr(function, MARK, None)
    return found if isinstance(found, Tool) else None


def made(function: Callable[..., Any], name: str, idempotent: bool, timeout_s: float) -> Tool:  # noqa: FBT001
    if not NAME.fullmatch(name):
        raise BadTool(f"{name[:80]!r} cannot be a tool's name: letters, digits, _ and -, at most 64 of them.")
    if not 0 < timeout_s <= LONGEST_S:
        raise BadTool(f"{name}: timeout_s must be above 0 and at most {LONGEST_S:,}.")
    description = inspect.getdoc(function)
    if not description or not description.strip():
        raise BadTool(f"{name} needs a docstring: it tells the model what the tool does.")
    signature = signature_of(function, name)
    tool = Tool(name, description.strip(), "own", signature.arguments, timeout_s=timeout_s, idempotent=idempotent)
    if inspect.iscoroutinefunction(function):
        tool = tool._replace(awaited=partial(awaited, name, function, signature))
    else:
        tool = tool._replace(on_thread=partial(on_thread, name, function, signature))
    try:
        tool.as_json()
    except (PydanticUserError, RecursionError):
        raise BadTool(f"{name}: its parameters cannot be described to a model as JSON.") from None
    return tool


def signature_of(function: Callable[..., Any], name: str) -> Signature:
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except Exception as error:  # noqa: BLE001  annotations are expressions, and can fail in every way
        raise BadTool(f"{name}: its parameters cannot be read: {one_line(str(error))[:REASON_LIMIT]}.") from None
    execution, fields = None, {}
    for parameter in parameters:
        if parameter.annotation is Execution:
            execution = parameter.name
        else:
            fields[parameter.name] = field_of(parameter, name)
    try:
        prefixed: dict[str, Any] = {PREFIX + one: field for one, field in fields.items()}
        arguments = create_model(name, __base__=Arguments, **prefixed)
    except PydanticUserError as error:
        raise BadTool(f"{name}: its parameters cannot be checked: {one_line(error.message)[:REASON_LIMIT]}") from None
    return Signature(arguments, tuple(fields), execution)


def field_of(parameter: inspect.Parameter, tool: str) -> tuple[Any, FieldInfo]:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise BadTool(f"{tool}: {parameter} is not possible; a model names each argument.")
    if parameter.annotation is parameter.empty:
        raise BadTool(f"{tool}: the parameter {parameter.name} needs a type.")
    if isinstance(parameter.default, FieldInfo):
        raise BadTool(f"{tool}: describe {parameter.name} as Annotated[…, Field(…)], so that its default is a value.")
    default = ... if parameter.default is parameter.empty else parameter.default
    return parameter.annotation, Field(default, alias=parameter.name)


def on_thread(name: str, function: Callable[..., Any], signature: Signature, execution: Execution, wanted: Arguments) -> Any:
    return as_json(name, function(**given(signature, execution, wanted)))


async def awaited(name: str, function: Callable[..., Any], signature: Signature, execution: Execution, wanted: Arguments) -> Any:
    return as_json(name, await function(**given(signature, execution, wanted)))


def given(signature: Signature, execution: Execution, wanted: Arguments) -> dict[str, Any]:
    values = dict(wanted)
    arguments = {name: values[PREFIX + name] for name in signature.names}
    return arguments if signature.execution is None else arguments | {signature.execution: execution}


def as_json(name: str, value: Any) -> Any:
    try:
        plain = to_jsonable_python(value)
        json.dumps(plain, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise Invalid(f"{name} was run, but its result, of type {type(value).__name__}, cannot be written as JSON.") from None
    return plain


def handed_over(functions: Iterable[Callable[..., Any]], taken: Collection[str] = ()) -> tuple[Tool, ...]:
    """The tools that a program brings along."""
    found: dict[str, Tool] = {}
    for function in functions:
        one = tool_of(function)
        if one is None:
            raise BadTool(f"{getattr(function, '__name__', function)!s} is no tool yet: mark it with @tool.")
        if one.name in taken or one.name in found:
            raise BadTool(f"There is a tool named {one.name} already; choose another name: @tool(name=…).")
        found[one.name] = one
    return tuple(found.values())


def load(folder: str | Path, taken: Collection[str] = ()) -> tuple[Tool, ...]:
    """The tools in the files of a folder, none if there is no such folder. Names that others have are taken."""
    found: dict[str, tuple[Tool, Path]] = {}
    for path in sorted(Path(folder).glob("*.py")):
        for one in tools_in(imported(path)):
            if one.name in taken:
                raise SettingsError(f"{path}: {one.name} is the name of a built-in tool; choose another.")
            if one.name in found:
                raise SettingsError(f"{path}: the tool {one.name} is already defined in {found[one.name][1]}.")
            found[one.name] = (one, path)
    return tuple(one for one, _ in found.values())


def imported(path: Path) -> ModuleType:
    # A name of its own, so that a file called like a library does not take its place.
    name = f"headway_own_{path.stem}_{sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # where types look for what their annotations name
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a file of users can fail in every way
        del sys.modules[name]
        reason = str(error) if isinstance(error, BadTool) else f"{type(error).__name__}: {error}"
        raise SettingsError(f"{path} cannot be loaded: {one_line(reason)[:REASON_LIMIT]}") from None
    return module


def tools_in(module: ModuleType) -> Iterator[Tool]:
    """In the order in which they are written; what was imported from elsewhere belongs there."""
    functions = {id(one): one for one in vars(module).values() if inspect.isfunction(one) and one.__module__ == module.__name__}
    return (found for one in functions.values() if (found := tool_of(one)) is not None)
