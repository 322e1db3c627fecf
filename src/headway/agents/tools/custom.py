"""User-defined tools: functions with typed parameters and a docstring, marked with @tool, in Python files in a folder."""

import inspect
import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final, NamedTuple, TypeVar, overload

from pydantic import Field, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from headway.agents.tools.arguments import Arguments
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import OnEventLoop, OnThread, Tool
from headway.ledger.errors import BadTool, Invalid, SettingsError
from headway.ledger.text import to_one_line

F = TypeVar("F", bound=Callable[..., Any])

TOOL_ATTRIBUTE: Final = "headway_tool"
NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  # accepted by every model provider
FIELD_PREFIX: Final = "argument_"  # keeps a parameter's name from clashing with pydantic's reserved names
MAX_TIMEOUT_S: Final = 86_400
REASON_LIMIT: Final = 500


class Signature(NamedTuple):
    """A tool function's parameters: the model's arguments and, if declared, the parameter that receives the Execution."""

    arguments: type[Arguments]
    names: tuple[str, ...]
    execution: str | None


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(
    *, name: str | None = None, idempotent: bool = False, destructive: bool = False, timeout_s: float = 60.0
) -> Callable[[F], F]: ...


def tool(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    idempotent: bool = False,
    destructive: bool = False,
    timeout_s: float = 60.0,
) -> F | Callable[[F], F]:
    """Turn a function into a tool. The function itself stays callable as before.

    Set `idempotent` if calling the tool twice has the same effect as calling it once. Only idempotent tools are called again after
    a crash. Set `destructive` if a person should approve each call; the policy can decide otherwise.
    """

    def mark(function: F) -> F:
        built = build_tool(function, name or function.__name__, timeout_s)
        setattr(function, TOOL_ATTRIBUTE, built._replace(idempotent=idempotent, needs_approval=destructive))
        return function

    return mark if function is None else mark(function)


def find_tool(function: Any) -> Tool | None:
    """Return the tool attached to a function, or None."""
    value = getattr(function, TOOL_ATTRIBUTE, None)
    return value if isinstance(value, Tool) else None


def build_tool(function: Callable[..., Any], name: str, timeout_s: float) -> Tool:
    if not NAME_PATTERN.fullmatch(name):
        raise BadTool(f"{name[:80]!r} is not a valid tool name. Use at most 64 letters, digits, _ and -.")
    if not 0 < timeout_s <= MAX_TIMEOUT_S:
        raise BadTool(f"{name}: timeout_s must be greater than 0 and at most {MAX_TIMEOUT_S:,}.")
    description = inspect.getdoc(function)
    if not description or not description.strip():
        raise BadTool(f"{name} needs a docstring: it tells the model what the tool does.")
    signature = parse_signature(function, name)
    named = tuple(field.alias or parameter for parameter, field in signature.arguments.model_fields.items())
    tool = Tool(name, description.strip(), "own", signature.arguments, timeout_s=timeout_s, key_arguments=named)
    if inspect.iscoroutinefunction(function):
        tool = tool._replace(run=OnEventLoop(partial(call_async, name, function, signature)))
    else:
        tool = tool._replace(run=OnThread(partial(call_sync, name, function, signature)))
    try:
        tool.as_json()
    except (PydanticUserError, RecursionError):
        raise BadTool(f"{name}: its parameters cannot be described to a model as JSON.") from None
    return tool


def parse_signature(function: Callable[..., Any], name: str) -> Signature:
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except Exception as error:  # noqa: BLE001  annotations are expressions and can raise anything
        raise BadTool(f"{name}: its parameters cannot be read: {to_one_line(str(error))[:REASON_LIMIT]}.") from None
    execution, fields = None, {}
    for parameter in parameters:
        if parameter.annotation is Execution:
            execution = parameter.name
        else:
            fields[parameter.name] = build_field(parameter, name)
    try:
        prefixed: dict[str, Any] = {FIELD_PREFIX + parameter_name: field for parameter_name, field in fields.items()}
        arguments = create_model(name, __base__=Arguments, **prefixed)
    except PydanticUserError as error:
        raise BadTool(f"{name}: its parameters cannot be checked: {to_one_line(error.message)[:REASON_LIMIT]}") from None
    return Signature(arguments, tuple(fields), execution)


def build_field(parameter: inspect.Parameter, tool: str) -> tuple[Any, FieldInfo]:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise BadTool(f"{tool}: {parameter} is not supported; a model passes each argument by name.")
    if parameter.annotation is parameter.empty:
        raise BadTool(f"{tool}: the parameter {parameter.name} needs a type.")
    if isinstance(parameter.default, FieldInfo):
        raise BadTool(f"{tool}: describe {parameter.name} as Annotated[…, Field(…)], so that its default is a value.")
    default = ... if parameter.default is parameter.empty else parameter.default
    return parameter.annotation, Field(default, alias=parameter.name)


def call_sync(name: str, function: Callable[..., Any], signature: Signature, execution: Execution, arguments: Arguments) -> Any:
    return to_json(name, function(**build_arguments(signature, execution, arguments)))


async def call_async(
    name: str, function: Callable[..., Any], signature: Signature, execution: Execution, arguments: Arguments
) -> Any:
    return to_json(name, await function(**build_arguments(signature, execution, arguments)))


def build_arguments(signature: Signature, execution: Execution, parsed_arguments: Arguments) -> dict[str, Any]:
    values = dict(parsed_arguments)
    arguments = {name: values[FIELD_PREFIX + name] for name in signature.names}
    return arguments if signature.execution is None else arguments | {signature.execution: execution}


def to_json(name: str, value: Any) -> Any:
    try:
        plain = to_jsonable_python(value)
        json.dumps(plain, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise Invalid(f"{name} ran, but its result of type {type(value).__name__} cannot be encoded as JSON.") from None
    return plain


def collect_tools(functions: Iterable[Callable[..., Any]], reserved_names: Collection[str] = ()) -> tuple[Tool, ...]:
    """Collect the tools among functions that a program passes in."""
    tools: dict[str, Tool] = {}
    for function in functions:
        tool = find_tool(function)
        if tool is None:
            raise BadTool(f"{getattr(function, '__name__', function)!s} is not a tool. Decorate it with @tool.")
        if tool.name in reserved_names or tool.name in tools:
            raise BadTool(f"A tool named {tool.name} already exists. Choose another name: @tool(name=…).")
        tools[tool.name] = tool
    return tuple(tools.values())


def load(folder: str | Path, reserved_names: Collection[str] = ()) -> tuple[Tool, ...]:
    """Load the tools from a folder's Python files; none if the folder does not exist. Names in `reserved_names` are rejected."""
    tools: dict[str, tuple[Tool, Path]] = {}
    for path in sorted(Path(folder).glob("*.py")):
        for tool in iter_tools(import_file(path)):
            if tool.name in reserved_names:
                raise SettingsError(f"{path}: {tool.name} is the name of a built-in tool; choose another.")
            if tool.name in tools:
                raise SettingsError(f"{path}: the tool {tool.name} is already defined in {tools[tool.name][1]}.")
            tools[tool.name] = (tool, path)
    return tuple(tool for tool, _ in tools.values())


class UncachedLoader(SourceFileLoader):
    """Compiles the file at each start. A compiled copy in `__pycache__` may differ from the source that the user trusts."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def import_file(path: Path) -> ModuleType:
    # A unique module name, so that a file named like a library does not shadow it.
    name = f"headway_own_{path.stem}_{sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = spec_from_file_location(name, path, loader=UncachedLoader(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # typing resolves annotations through sys.modules
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001  user code can raise anything
        del sys.modules[name]
        reason = str(error) if isinstance(error, BadTool) else f"{type(error).__name__}: {error}"
        raise SettingsError(f"{path} cannot be loaded: {to_one_line(reason)[:REASON_LIMIT]}") from None
    return module


def iter_tools(module: ModuleType) -> Iterator[Tool]:
    """Yield the module's tools in source order, without imported ones."""
    functions = {id(var): var for var in vars(module).values() if inspect.isfunction(var) and var.__module__ == module.__name__}
    return (tool for function in functions.values() if (tool := find_tool(function)) is not None)
