"""Suites of cases from files, and the combinations that a run tries."""

import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from importlib.resources import files as package_files
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

from headway.ledger import text
from headway.ledger.check import Check
from headway.ledger.errors import HeadwayError, Invalid, NotFound, SettingsError
from headway.ledger.money import LEAST_DOLLARS, MOST_DOLLARS
from headway.ledger.parsing.checks import parse_checks, refuse_operators_fields
from headway.ledger.parsing.paths import split_path
from headway.ledger.permission import Rule, build_rule
from headway.ledger.run import TurnMode, TurnOutcome

SUITE_LIMIT: Final = 10_000_000  # bytes
CASES_LIMIT: Final = 1_000
REPEAT_LIMIT: Final = 100
GOOD_TURN_ENDS: Final = ("answered", "drained")
TURN_ENDS: Final = (*get_args(TurnOutcome), "failed")
GOAL_ENDS: Final = ("completed", "paused", "abandoned")
DEFAULT_BUDGET_USD: Final = 0.5
DEFAULT_TIMEOUT_S: Final = 300.0
SUITES: Final = "suites"  # the folder of the suites that come with Headway


class PlannedItem(NamedTuple):
    """An item that a case puts into the plan of its turn."""

    title: str
    checks: tuple[Check, ...] = ()


class Case(NamedTuple):
    name: str
    about: str = ""
    tags: tuple[str, ...] = ()
    message: str = ""
    goal: str = ""
    criteria: str = ""  # of a goal
    mode: TurnMode = "plan"
    role: str = ""
    before: tuple[str, ...] = ()  # messages that are answered first, in the same conversation
    plan: tuple[PlannedItem, ...] = ()
    files: Mapping[str, str] | str = {}  # contents by path, or a folder beside the suite
    checks: tuple[Check, ...] = ()
    ends: tuple[str, ...] = ()
    must_call: tuple[str, ...] = ()
    must_not_call: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()  # to the agent's questions, in order
    policy: tuple[Rule, ...] = ()  # after the operator's own rules
    approve: tuple[str, ...] = ()  # tools whose calls are approved, if a rule of the case has asked
    budget_usd: float = DEFAULT_BUDGET_USD
    timeout_s: float = DEFAULT_TIMEOUT_S
    commands: tuple[str, ...] = ()
    http_allow: tuple[str, ...] = ()
    mcp: bool = False
    recording: str = ""  # a file beside the suite

    def as_json(self) -> dict[str, Any]:
        """Return every field, for the fingerprint."""
        plan, policy = [item._asdict() for item in self.plan], [rule.as_json() for rule in self.policy]
        return {**self._asdict(), "plan": plan, "policy": policy}


class Matrix(NamedTuple):
    models: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    prompts: Mapping[str, str] = {}


class Suite(NamedTuple):
    name: str
    folder: str  # that paths are relative to
    about: str = ""
    repeat: int = 1
    matrix: Matrix = Matrix()
    cases: tuple[Case, ...] = ()

    def find_file(self, name: str) -> Path:
        return Path(self.folder, name)

    def fingerprint(self, case: Case) -> str:
        """Return a hash of the case and of the files that it names. A case that was changed is run again."""
        document: dict[str, Any] = case.as_json()
        if isinstance(case.files, str):
            document["files"] = hash_folder(self.find_file(case.files))
        if case.recording:
            document["recording"] = sha256(self.find_file(case.recording).read_bytes()).hexdigest()
        return sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def hash_folder(folder: Path) -> list[tuple[str, str]]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [(str(path.relative_to(folder)), sha256(path.read_bytes()).hexdigest()) for path in paths]


# Fields


def take_string(value: Any, field: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Invalid(f"{field} must be text that is not blank.")
    return text.check_text(value, field)


def take_strings(value: Any, field: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Invalid(f"{field} must be a list of texts.")
    return tuple(take_string(item, f"{field}[{index}]") for index, item in enumerate(value))


def take_flag(value: Any, field: str) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"{field} must be true or false.")
    return value


def build_range(minimum: float, maximum: float) -> Callable[[Any, str], float]:
    def take(value: Any, field: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not minimum <= value <= maximum:
            raise Invalid(f"{field} must be a number from {minimum:g} to {maximum:g}.")
        return float(value)

    return take


def take_mode(value: Any, field: str) -> TurnMode:
    for mode in get_args(TurnMode):
        if value == mode:
            return mode  # type: ignore[no-any-return]
    raise Invalid(f"{field} must be {' or '.join(get_args(TurnMode))}.")


def take_path(value: Any, field: str) -> str:
    path = take_string(value, field)
    try:
        parts = split_path(path)
    except HeadwayError as error:
        raise Invalid(f"{field}: {error}") from None
    if not parts:
        raise Invalid(f"{field} must name something.")
    return "/".join(parts)


def take_files(value: Any, field: str) -> Mapping[str, str] | str:
    if isinstance(value, str):
        return take_path(value, field)
    if not isinstance(value, dict):
        raise Invalid(f"{field} must be a folder beside the suite, or a table of paths and contents.")
    for name, content in value.items():
        if not isinstance(content, str):
            raise Invalid(f"{field}.{text.to_one_line(name)[:80]} must be text: the content of the file.")
    return {take_path(name, field): text.check_text(content, field, SUITE_LIMIT) for name, content in value.items()}


def take_checks(value: Any, field: str) -> tuple[Check, ...]:
    """Parse checks with a person's rank: commands run without a shell, and only programs that the operator allows."""
    try:
        checks = parse_checks(value, "person")
        refuse_operators_fields(checks)
    except Invalid as error:
        raise Invalid(str(error).replace("checks", field, 1)) from None
    return tuple(checks)


def take_plan(value: Any, field: str) -> tuple[PlannedItem, ...]:
    if not isinstance(value, list):
        raise Invalid(f'{field} must be a list of items such as {{title = "…"}}.')
    return tuple(take_item(item, f"{field}[{index}]") for index, item in enumerate(value))


def take_item(value: Any, field: str) -> PlannedItem:
    if not isinstance(value, dict) or not value.keys() <= {"title", "checks"}:
        raise Invalid(f"{field} must be a table with title and, if you like, checks.")
    return PlannedItem(take_string(value.get("title"), f"{field}.title"), take_checks(value.get("checks"), f"{field}.checks"))


def take_rules(value: Any, field: str) -> tuple[Rule, ...]:
    """Parse rules of a policy. A suite may restrict agents, but not allow what the operator does not."""
    if not isinstance(value, list):
        raise Invalid(f"{field} must be a list of rules, as in policy.toml.")
    try:
        rules = tuple(build_rule(rule, f"{field}[{index}]", 0) for index, rule in enumerate(value))
    except SettingsError as error:
        raise Invalid(str(error)) from None
    if any(rule.decision == "allow" for rule in rules):
        raise Invalid(f"{field}: a suite may ask or deny. Only your own policy.toml can allow.")
    return rules


FIELDS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "name": take_string,
    "about": take_string,
    "tags": take_strings,
    "message": take_string,
    "goal": take_string,
    "criteria": take_string,
    "mode": take_mode,
    "role": take_string,
    "before": take_strings,
    "plan": take_plan,
    "files": take_files,
    "checks": take_checks,
    "ends": take_strings,
    "must_call": take_strings,
    "must_not_call": take_strings,
    "answers": take_strings,
    "policy": take_rules,
    "approve": take_strings,
    "budget_usd": build_range(LEAST_DOLLARS, MOST_DOLLARS),
    "timeout_s": build_range(1, 86_400),
    "commands": take_strings,
    "http_allow": take_strings,
    "mcp": take_flag,
    "recording": take_path,
}
ONLY_CASES: Final = ("name", "about", "message", "goal")  # they cannot have a default
TURN_FIELDS: Final = ("mode", "role", "before", "plan")  # a goal has none of them


# The file


def load_suite(source: str) -> Suite:
    """Load a suite from a file, or one that comes with Headway by its name."""
    path = find_suite(source)
    try:
        if path.stat().st_size > SUITE_LIMIT:
            raise Invalid(f"{source}: the file is larger than {SUITE_LIMIT:,} bytes.")
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        raise NotFound(f"{source} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise Invalid(f"{source} is not UTF-8 text.") from None
    return parse_suite(content, source, str(path.parent))


def find_suite(source: str) -> Path:
    shipped = Path(str(package_files("headway.evals"))) / SUITES
    if os.sep not in source and not source.endswith(".toml") and not os.path.exists(source):
        path = shipped / f"{source}.toml"
        if not path.is_file():
            known = ", ".join(sorted(entry.stem for entry in shipped.glob("*.toml")))
            raise NotFound(f"There is no suite {source[:80]!r}. Name a TOML file, or one that comes with Headway: {known}.")
        return path
    return Path(source)


def parse_suite(content: str, source: str, folder: str) -> Suite:
    try:
        document = tomllib.loads(content)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Invalid(f"{source} is not valid TOML: {text.to_one_line(str(error))[:200]}") from None
    try:
        return build_suite(document, Path(source).stem, folder)
    except Invalid as error:
        raise Invalid(f"{source}: {error}") from None


def build_suite(document: dict[str, Any], stem: str, folder: str) -> Suite:
    check_names(document, ("name", "about", "repeat", "defaults", "matrix", "case"), "a suite")
    name = text.check_name(take_string(document.get("name", stem), "name"), "name")
    if os.sep in name or name.startswith("."):
        raise Invalid("name must not contain a slash or begin with a dot.")
    repeat = document.get("repeat", 1)
    if isinstance(repeat, bool) or not isinstance(repeat, int) or not 1 <= repeat <= REPEAT_LIMIT:
        raise Invalid(f"repeat must be a whole number from 1 to {REPEAT_LIMIT}.")
    about = take_string(document["about"], "about") if "about" in document else ""
    defaults = take_table(document.get("defaults", {}), "defaults")
    check_names(defaults, tuple(field for field in FIELDS if field not in ONLY_CASES), "defaults")
    suite = Suite(name, folder, about, repeat, build_matrix(take_table(document.get("matrix", {}), "matrix")))
    return suite._replace(cases=build_cases(document.get("case"), defaults, suite))


def take_table(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(f"{field} must be a table.")
    return value


def check_names(document: Mapping[str, Any], known: tuple[str, ...], owner: str) -> None:
    if unknown := sorted(document.keys() - set(known)):
        raise Invalid(f"{owner} cannot have {text.to_one_line(unknown[0])[:80]!r}. It can have {', '.join(known)}.")


def build_matrix(document: dict[str, Any]) -> Matrix:
    check_names(document, Matrix._fields, "matrix")
    prompts = take_table(document.get("prompts", {}), "matrix.prompts")
    if not all(isinstance(prompt, str) for prompt in prompts.values()):
        raise Invalid('matrix.prompts must be a table of texts, such as {plain = "", brief = "Answer in one sentence."}.')
    models, roles = (take_strings(document.get(name, []), f"matrix.{name}") for name in ("models", "roles"))
    for name, values in (("models", models), ("roles", roles)):
        if len(set(values)) < len(values):
            raise Invalid(f"matrix.{name} names something twice.")
    return Matrix(models, roles, prompts)


def build_cases(documents: Any, defaults: dict[str, Any], suite: Suite) -> tuple[Case, ...]:
    if not isinstance(documents, list) or not documents or len(documents) > CASES_LIMIT:
        raise Invalid(f"a suite needs 1 to {CASES_LIMIT:,} cases, each as a table [[case]].")
    cases: list[Case] = []
    for number, document in enumerate(documents, 1):
        table = take_table(document, f"case {number}")
        label = f"case {text.to_one_line(str(table['name']))[:80]!r}" if "name" in table else f"case {number}"
        try:
            case = build_case({**defaults, **table}, suite)
            if any(other.name == case.name for other in cases):
                raise Invalid("another case has the same name.")
        except Invalid as error:
            raise Invalid(f"{label}: {error}") from None
        cases.append(case)
    return tuple(cases)


def build_case(document: dict[str, Any], suite: Suite) -> Case:
    check_names(document, tuple(FIELDS), "a case")
    if "name" not in document:
        raise Invalid("it needs a name.")
    case = Case(**{field: FIELDS[field](value, field) for field, value in document.items()})
    text.check_name(case.name, "name")
    if bool(case.message) == bool(case.goal):
        raise Invalid("it needs either a message or a goal.")
    if case.goal and (wrong := next((field for field in TURN_FIELDS if getattr(case, field) != Case._field_defaults[field]), "")):
        raise Invalid(f"{wrong} is for cases with a message; a goal has none.")
    if case.message and case.criteria:
        raise Invalid("criteria is for cases with a goal.")
    known = GOAL_ENDS if case.goal else TURN_ENDS
    if wrong := next((end for end in case.ends if end not in known), ""):
        raise Invalid(f"ends: {wrong[:80]!r} is none of {', '.join(known)}.")
    if isinstance(case.files, str) and not suite.find_file(case.files).is_dir():
        raise Invalid(f"files: there is no folder {case.files} beside the suite.")
    if case.recording and not suite.find_file(case.recording).is_file():
        raise Invalid(f"recording: there is no file {case.recording} beside the suite.")
    return case._replace(ends=case.ends or (GOAL_ENDS[:1] if case.goal else GOOD_TURN_ENDS))


# The attempts of a run: every case in every cell of the matrix, repeated.


class MatrixCell(NamedTuple):
    """One combination of the matrix. Empty names mean the operator's settings and the case's own role."""

    model: str = ""
    role: str = ""
    prompt: str = ""  # its name
    prompt_text: str = ""

    @property
    def label(self) -> str:
        return " · ".join(part for part in (self.model, self.role, self.prompt) if part) or "settings"


class Attempt(NamedTuple):
    case: Case
    cell: MatrixCell
    repetition: int  # counts from 1
    key: str  # identifies the case, the cell and the repetition as they are now

    @property
    def label(self) -> str:
        return f"{self.case.name} #{self.repetition}"


def build_cells(suite: Suite, default_model: str) -> list[MatrixCell]:
    """Combine the models, roles and prompts. Without models in the matrix, the cell shows the operator's model."""
    matrix = suite.matrix
    goal = next((case.name for case in suite.cases if case.goal), "")
    if matrix.roles and goal:
        raise Invalid(
            f"matrix.roles: case {goal!r} is a goal, whose main agent always has the same role. Put goals into another suite."
        )
    models = matrix.models or (default_model,)
    roles, prompts = matrix.roles or ("",), matrix.prompts or {"": ""}
    return [MatrixCell(model, role, name, prompts[name]) for model, role, name in product(models, roles, prompts)]


def filter_cases(suite: Suite, patterns: Sequence[str]) -> Suite:
    """Keep the cases whose name or one of whose tags matches a pattern."""
    if not patterns:
        return suite
    cases = tuple(
        case for case in suite.cases if any(fnmatchcase(name, glob) for name in (case.name, *case.tags) for glob in patterns)
    )
    if not cases:
        raise NotFound(f"No case of {suite.name} matches {', '.join(patterns)[:200]!r}. `--list` shows all cases.")
    return suite._replace(cases=cases)


def list_attempts(suite: Suite, cells: Sequence[MatrixCell], *, replay: bool) -> list[Attempt]:
    """List all attempts. The repetitions of a case come last, so that a run that ends early has tried every case."""
    prints = {case.name: suite.fingerprint(case) for case in suite.cases}
    return [
        Attempt(case, cell, repetition, make_key(prints[case.name], cell, repetition, replay=replay))
        for repetition in range(1, suite.repeat + 1)
        for case in suite.cases
        for cell in cells
    ]


def make_key(fingerprint: str, cell: MatrixCell, repetition: int, *, replay: bool) -> str:
    return sha256(json.dumps([fingerprint, cell, repetition, replay]).encode()).hexdigest()[:32]
