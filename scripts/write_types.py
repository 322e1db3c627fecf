"""Writes the types of the library for type checkers: a stub beside each module that has a part of it. Only the wheel has them.

A stub contains the public names that can be reached from `headway`, with their documentation and without bodies. Types of the
implementation (the database, the engine) become `Any`, so that a type checker reads the library and not what it is built on.
"""

import ast
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

ROOTS: Final = (
    "headway",
    "headway.checks",
    "headway.sync",
    "headway.testing",
    "headway.frameworks.langchain",
    "headway.frameworks.langchain_middleware",
    "headway.frameworks.openai_agents",
    "headway.frameworks.pydantic_ai",
)
LIBRARY: Final = (
    "headway.actions.inspection.forks",
    "headway.agents.tools.custom",
    "headway.agents.tools.execution",
    "headway.agents.tools.external_loop",
    "headway.checks",
    "headway.frameworks",
    "headway.ledger",
    "headway.library",
    "headway.process.assembly",
    "headway.process.host",
    "headway.settings",
    "headway.sync",
    "headway.testing",
    "headway.values",
)
KNOWN: Final = sys.stdlib_module_names | {"typing_extensions"}  # a type checker brings their types
OTHER_LIBRARIES: Final = ("headway.frameworks", "headway.testing")  # speak to other libraries, in their types
MARKER: Final = "# Written by scripts/write_types.py from the module of this name. What is not here is `Any`.\n"
REST: Final = "def __getattr__(name: str) -> Any: ...\n"
DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
ANY: Final = "Any"
Definition = ast.stmt


class Import(NamedTuple):
    module: str
    name: str  # empty: the module itself


class Module:
    """A module's text, its top-level definitions by name, and its imports, also those for types only."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self.path = path
        self.imports: dict[str, Import] = {}
        self.definitions: dict[str, list[Definition]] = {}
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.documentation = ast.get_docstring(tree, clean=False)
        for node in flatten(tree.body):
            self.add(node)

    def add(self, node: ast.stmt) -> None:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self.imports[alias.asname or alias.name] = Import(str(node.module), alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                self.imports[alias.asname or alias.name.partition(".")[0]] = Import(alias.name, "")
        else:
            for name in list_names(node):
                self.definitions.setdefault(name, []).append(node)


def flatten(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """The statements of a module, with those for type checkers only."""
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from node.body
        elif isinstance(node, ast.Try):
            yield from flatten(node.body)
        else:
            yield node


def list_names(node: ast.stmt) -> list[str]:
    if isinstance(node, DEFINITIONS):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


class Unquote(ast.NodeTransformer):
    """Reads the parts of a type that are quoted, and leaves out what `Annotated` says for others than type checkers."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.parse(node.value, mode="eval").body if isinstance(node.value, str) else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match ast.unparse(node.value), node.slice:
            case "Literal", _:
                return node
            case "Annotated", ast.Tuple(elts=[annotation, *_]):
                visited: ast.AST = self.visit(annotation)
                return visited
        return self.generic_visit(node)


class Stub(ast.NodeTransformer):
    """Turns a definition into its stub: no bodies, no private members, `Any` instead of types of the implementation."""

    def __init__(self, hidden: Iterable[str]) -> None:
        self.hidden = frozenset(hidden)
        self.used: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = ANY if node.id in self.hidden else node.id
        self.used.add(name)
        return ast.Name(name, node.ctx)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if is_hidden_type(node.value, self.hidden):
            return self.visit_Name(ast.Name(ANY, ast.Load()))
        if ast.unparse(node.value) == "Literal":  # what is quoted in it is a text
            self.generic_visit(node)
            return node
        return ast.Subscript(self.visit_annotation(node.value), self.visit_annotation(node.slice), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if is_hidden_type(node, self.hidden):
            return self.visit_Name(ast.Name(ANY, ast.Load()))
        self.generic_visit(node)
        return node

    def visit_annotation(self, node: ast.expr) -> ast.expr:
        """Types may be quoted, as a whole or in parts."""
        visited = self.visit(Unquote().visit(node))
        assert isinstance(visited, ast.expr)
        return visited

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return self.visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.stmt:
        if any(isinstance(inner, ast.Yield) for inner in ast.walk(node)):  # calling it gives an iterator, without `await`
            return self.visit_function(ast.copy_location(ast.FunctionDef(**dict(ast.iter_fields(node))), node))
        return self.visit_function(node)

    def visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
        documentation = ast.get_docstring(node, clean=False)
        node.body = [ast.Expr(ast.Constant(documentation or ...))]
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        node.returns = self.visit_annotation(node.returns) if node.returns else None
        arguments = node.args
        everything = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        for argument in everything:
            if argument is not None and argument.annotation is not None:
                argument.annotation = self.visit_annotation(argument.annotation)
        arguments.defaults = [shorten_default(value) for value in arguments.defaults]
        arguments.kw_defaults = [value and shorten_default(value) for value in arguments.kw_defaults]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        fields = {ast.unparse(field.target): field for method in node.body for field in list_attributes(method)}
        node.body = [member for member in (*node.body, *fields.values()) if is_public_member(member)]
        node.bases = [base for base in map(self.visit_annotation, node.bases) if ast.unparse(base) != ANY]
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        node.body = [self.visit(member) for member in node.body] or [ast.Expr(ast.Constant(...))]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        node.annotation = self.visit_annotation(node.annotation)
        if ast.unparse(node.annotation) == "Final" and node.value is not None and not isinstance(node.value, ast.Constant):
            node.annotation, node.value = self.visit_Name(ast.Name(ANY, ast.Load())), None
        elif ast.unparse(node.annotation) != "Final" and node.value is not None:
            node.value = self.visit(node.value) if is_field(node.value) else ast.Constant(...)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        node.value = (
            self.visit_annotation(node.value) if isinstance(node.value, ast.BinOp | ast.Subscript) else self.visit(node.value)
        )
        return node


def is_hidden_type(node: ast.expr, hidden: frozenset[str]) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in hidden


def is_field(value: ast.expr) -> bool:
    """`field(…)` says whether a value must be given."""
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "field"


def shorten_default(value: ast.expr) -> ast.expr:
    return value if isinstance(value, ast.Constant | ast.UnaryOp) else ast.Constant(...)


def is_public_member(node: ast.stmt) -> bool:
    if isinstance(node, DEFINITIONS):
        return not is_private(node.name)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return not any(is_private(name) for name in list_names(node))


def list_attributes(method: ast.stmt) -> list[ast.AnnAssign]:
    """The attributes that an initializer sets, with the types that it states."""
    if not (isinstance(method, ast.FunctionDef) and method.name == "__init__"):
        return []
    given = {argument.arg: argument.annotation for argument in (*method.args.args, *method.args.kwonlyargs)}
    fields: list[ast.AnnAssign] = []
    for node in ast.walk(method):
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
            annotation = node.annotation if isinstance(node, ast.AnnAssign) else find_type(node, given)
            fields.append(ast.AnnAssign(ast.Name(target.attr, ast.Store()), annotation, None, simple=1))
    return fields


def find_type(node: ast.AST, given: dict[str, ast.expr | None]) -> ast.expr:
    """The type of a value that is an argument. Others do not state theirs."""
    value = node.value if isinstance(node, ast.Assign) else None
    return (given.get(value.id) if isinstance(value, ast.Name) else None) or ast.Name(ANY, ast.Load())


class Library:
    """The modules of the library, and the names of each that its public names need."""

    def __init__(self, sources: Path) -> None:
        self.sources = sources
        self.modules: dict[str, Module] = {}
        self.needed: dict[str, dict[str, set[str]]] = {}  # the names that each name of a module uses

    def find_path(self, name: str) -> Path | None:
        path = self.sources.joinpath(*name.split("."))
        return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.exists()), None)

    def load(self, name: str) -> Module:
        if name not in self.modules:
            path = self.find_path(name)
            assert path is not None, name
            self.modules[name] = Module(path, name)
            self.needed[name] = {}
        return self.modules[name]

    def is_hidden(self, source: Import, module: str) -> bool:
        package = source.module.partition(".")[0]
        if package != "headway":
            return package not in KNOWN and not module.startswith(OTHER_LIBRARIES)
        is_shown = any(source.module == shown or source.module.startswith(f"{shown}.") for shown in LIBRARY)
        return not is_shown and not (source.module == "headway" and source.name in ("checks", "sync"))

    def add_root(self, name: str) -> None:
        module = self.load(name)
        names = module.imports if name == "headway" else module.definitions
        for public in [one for one in names if not is_private(one) and one not in ("TYPE_CHECKING", "import_module")]:
            self.add(name, public)

    def add(self, module_name: str, name: str) -> None:
        """Add a name of a module, and what its stub uses."""
        module = self.load(module_name)
        if name in self.needed[module_name]:
            return
        self.needed[module_name][name] = set()
        if name not in module.definitions:
            source = module.imports.get(name)
            if source and source.name and source.module.startswith("headway") and not self.is_hidden(source, module_name):
                if self.find_path(f"{source.module}.{source.name}"):
                    self.add_root(f"{source.module}.{source.name}")
                else:
                    self.add(source.module, source.name)
            return
        stub = self.build_stub(module)
        for node in module.definitions[name]:
            stub.visit(ast.parse(ast.unparse(node)).body[0])
        self.needed[module_name][name] = stub.used
        for used in sorted(stub.used):
            if used in module.definitions or used in module.imports:
                self.add(module_name, used)

    def build_stub(self, module: Module) -> Stub:
        return Stub(name for name, source in module.imports.items() if self.is_hidden(source, module.name))

    def render(self, name: str) -> str:
        """Return the stub of a module."""
        module, needed = self.modules[name], self.needed[name]
        stub = self.build_stub(module)
        nodes = [
            node for defined in module.definitions if defined in needed for node in select_overloads(module.definitions[defined])
        ]
        bodies = [ast.unparse(stub.visit(ast.parse(ast.unparse(node)).body[0])) for node in dict.fromkeys(nodes)]
        if name == "headway":
            bodies.append("__version__: str")
        imports = {render_import(alias, source) for alias, source in module.imports.items() if alias in needed}
        head = [MARKER.rstrip(), f'"""{module.documentation}"""', "", *sorted({"from typing import Any as Any", *imports})]
        return "\n".join((*head, "", *bodies, "", "" if name == "headway" else REST))


def select_overloads(nodes: list[Definition]) -> list[Definition]:
    """Leave out the implementation of an overloaded function."""
    return [node for node in nodes if is_overload(node)] or nodes


def is_overload(node: Definition) -> bool:
    return isinstance(node, ast.FunctionDef) and any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)


def render_import(alias: str, source: Import) -> str:
    """Return an import that also exports the name."""
    if not source.name:
        return f"import {source.module}" + (f" as {alias}" if alias != source.module.partition(".")[0] else "")
    return f"from {source.module} import {source.name} as {alias}"


def write_types(sources: Path, target: Path) -> dict[Path, Path]:
    """Write the stubs below a folder. Return where each belongs, relative to the sources."""
    library = Library(sources)
    for root in ROOTS:
        library.add_root(root)
    written = {}
    for name, module in sorted(library.modules.items()):
        place = module.path.relative_to(sources).with_suffix(".pyi")
        file = target / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(re.sub(r"\n{3,}", "\n\n", library.render(name)), encoding="utf-8")
        written[file] = place
    return written
