"""The documents: generated pages are up to date, links resolve, quoted settings and messages match the code, and every requirement
names tests that exist."""

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import headway
from headway import settings
from headway.agents.tools import catalogue
from headway.agents.tools.builtin import ExternalAccess
from headway.agents.tools.tasks import TASK_TOOLS
from tests.parsed_sources import list_nodes, parse_module, read_source

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
WRITTEN = [path for path in DOCS.rglob("*.md") if path.parent.name != "reference"]  # by hand: the others are generated
PAGES = sorted([*ROOT.glob("*.md"), *WRITTEN, *(ROOT / "examples").rglob("*.md"), *(ROOT / "bench").glob("*.md")])
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(<?([^()\s>]+)>?\)")
SETTING = re.compile(r"^\| `HEADWAY_([A-Z_]+)` \|([^|]*)\|", re.MULTILINE)
REQUIREMENT = re.compile(r"^\| (\d{3})\.(\d+) \| .+ \| (.+) \|$", re.MULTILINE)
TEST_ID = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)(\[[^`]+\])?`")
SOURCES = ("000", "001", "002", "003", "004")
# Words that make a text harder to read than it has to be. Messages name the actor and the action instead.
TICS = (
    "anew",
    "mend(s|ed|ing)?",
    "whoever",
    "somebody",
    "nobody",
    "do(es)? as well",
    "goes on",
    "lets? go of",
    "lets? it (go on|rest)",
    "at hand",
    "the one of",
    "told",
    "of its own",
    "the day rolls",
)
TIC = re.compile(rf"\b({'|'.join(TICS)})\b", re.IGNORECASE)
QUOTED = re.compile(r"“[^”]*”")  # requirements are quoted word for word
HISTORY = ROOT / "CHANGELOG.md"
UNCHECKED = ("agents/models/rehearsal/reading.py",)  # words that a user may write
# Messages of libraries, which the code does not contain.
OF_LIBRARIES = (
    *("Unknown model", "set OPENAI_API_KEY", "Extra inputs are not permitted", "permission denied for"),
    *("does not support tools", "tools param requires --jinja flag"),
    *("maximum context length", "exceeds the available context size"),
)


read_page = read_source


@cache
def build_reference() -> dict[str, str]:
    """The pages of docs/reference as they would be written now. They must not depend on the terminal."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("COLUMNS", "40")
        documents: dict[str, str] = load_reference_writer().documents()
        return documents


def load_reference_writer() -> ModuleType:
    spec = spec_from_file_location("write_reference", ROOT / "scripts" / "write_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def links(page: Path) -> list[str]:
    return LINK.findall(CODE.sub("", read_page(page)))


@cache
def anchors(page: Path) -> frozenset[str]:
    return frozenset(build_anchors(page))


def build_anchors(page: Path) -> Iterator[str]:
    """Anchors as forges build them: the heading in lower case, with dashes and without punctuation; duplicates are numbered."""
    seen: Counter[str] = Counter()
    for heading in re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", read_page(page), flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    ):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        yield f"{name}-{seen[name]}" if seen[name] else name
        seen[name] += 1


def is_broken(page: Path, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return False  # external links are not checked
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_relative_to(ROOT) or not target.exists():
        return True
    return bool(anchor) and (target.suffix != ".md" or anchor not in anchors(target))


def test_the_tables_of_settings_are_up_to_date() -> None:
    assert read_page(DOCS / "settings.md") == build_reference()["settings.md"], "run `make docs`, and commit docs/settings.md"


def test_the_generated_reference_is_complete_and_its_links_lead_somewhere() -> None:
    documents = build_reference()
    names = ("cli.md", "events.md", "http.md", "openapi.json", "modules.md")
    for name in names:
        assert f"`{name}`" in read_page(DOCS / "reference.md")
    assert {*documents} == {"settings.md", *(f"reference/{name}" for name in names)}
    assert "## headway todo" in documents["reference/cli.md"]
    assert "| `GET /v1/todos` |" in documents["reference/http.md"]
    assert "| `change` | `RowChange` |" in documents["reference/events.md"]
    assert "| `storage/migrate` | Migrations: numbered files" in documents["reference/modules.md"]
    generated = {str(DOCS / name) for name in documents}
    broken = [
        link
        for name, page in documents.items()
        for link in (LINK.findall(CODE.sub("", page)) if name.endswith(".md") else ())
        if is_broken(DOCS / name, link) and str((DOCS / name).parent / link) not in generated
    ]
    assert broken == []


def test_every_link_leads_somewhere() -> None:
    assert [(str(page.relative_to(ROOT)), link) for page in PAGES for link in links(page) if is_broken(page, link)] == []


def test_a_link_to_nowhere_would_be_found() -> None:
    page = DOCS / "http.md"
    assert is_broken(page, "nothing.md")
    assert is_broken(page, "goals.md#nothing")
    assert is_broken(page, "../../elsewhere.md")
    assert not is_broken(page, "goals.md#its-life")
    assert sum(len(links(one)) for one in PAGES) > 100


def test_the_map_is_short_and_names_every_package() -> None:
    page = read_page(DOCS / "internals" / "architecture.md")
    table = page.partition("| floor | contents |\n")[2].partition("\n\n")[0]
    named = {name.strip("/") for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1])}
    parts = {path.stem for path in (ROOT / "src" / "headway").iterdir() if path.suffix in ("", ".py")} - {"__init__", "__main__"}
    assert parts - {"__pycache__"} <= named
    assert len(page.split()) <= 2_500


def test_each_word_of_the_glossary_has_one_row() -> None:
    words = re.findall(r"^\| \*\*([^*]+)\*\* \|", read_page(ROOT / "GLOSSARY.md"), re.MULTILINE)
    assert [word for word, count in Counter(words).items() if count > 1] == []
    assert words == sorted(words)


def test_no_page_has_the_marks_of_an_unfinished_merge() -> None:
    marks = re.compile(r"^(<{7}|>{7}|={7}$)", re.MULTILINE)
    assert [page.name for page in PAGES if marks.search(page.read_text(encoding="utf-8"))] == []


def test_every_page_is_in_the_index() -> None:
    listed = {link.partition("#")[0] for link in links(DOCS / "README.md")}
    pages = {
        str(path.relative_to(DOCS))
        for path in DOCS.rglob("*")
        if path.is_file() and path.parent.name not in ("pictures", "reference")
    }
    assert pages - listed - {"README.md"} == set()


def test_the_documented_default_of_a_setting_is_its_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [one for one in os.environ if one.startswith("HEADWAY_")]:
        monkeypatch.delenv(variable)
    usual = settings.load()
    wrong = []
    documented = SETTING.findall(read_page(DOCS / "settings.md"))
    for name, text in documented:
        default = re.sub(r"\$HEADWAY_([A-Z]+)", lambda found: str(getattr(usual, found[1].lower())), text.strip(" `"))
        if settings.load({name.lower(): default})._replace(in_force={}) != usual._replace(in_force={}):
            wrong.append(name)
    assert wrong == []
    assert len(documented) > 40


def test_the_library_has_the_methods_that_its_page_lists() -> None:
    groups = re.findall(r"^\| `(\w+)` \| (`.+`) \|$", read_page(DOCS / "library.md"), re.MULTILINE)
    client = headway.connect("http://127.0.0.1:8484", "hw_token")  # connects with its first request
    existing = {name: {one for one in dir(getattr(client, name)) if not one.startswith("_")} for name, _ in groups}
    assert {name: {*re.findall(r"`(\w+)`", methods)} for name, methods in groups} == existing
    assert len(groups) > 10


def test_the_table_of_tools_is_the_toolbox() -> None:
    """002: "add the five tools to the Built-in tools table in AGENTS.md"."""
    documented = re.findall(r"^\| `(\w+)` \| (\w+) \| .", read_page(ROOT / "AGENTS.md"), re.MULTILINE)
    known = catalogue.build_toolbox(ExternalAccess(http_hosts=("*",), commands=("ls", "python3"))).tools.values()
    assert documented == [(tool.name, tool.family) for tool in known]


def test_the_readme_describes_the_task_list() -> None:
    """002: "a brief “conversation task list” line in README"."""
    (line,) = re.findall(r"^\*\*A conversation task list\*\*.*?\n\n", read_page(ROOT / "README.md"), re.MULTILINE | re.DOTALL)
    assert all(f"`{tool.name}`" in line for tool in TASK_TOOLS)


def list_quoted_messages() -> list[str]:
    """The messages quoted in the first column of the troubleshooting tables, without their variable parts."""
    cells = re.findall(r"^\| (.*?) \|", read_page(DOCS / "troubleshooting.md"), re.MULTILINE)
    quoted = [span for cell in cells for span in re.findall(r"`([^`]+)`", cell) if re.match(r"(… )?[A-Za-z]+ [a-z…]+ ", span)]
    return [part.strip(" :") for span in quoted for part in span.split("…")]


def literals(module: Path) -> list[str]:
    """Every string in a module, including docstrings, because users read the ones of errors and commands."""
    return [node.value for node in list_nodes(module) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def read_all_strings() -> str:
    """Every string in the Python code, and the page's scripts."""
    texts = [text for path in (ROOT / "src").rglob("*.py") for text in literals(path)]
    return "\n".join([*texts, *(read_page(path) for path in (ROOT / "src").rglob("static/js/**/*.js"))])


def test_the_sentences_that_people_look_for_are_those_they_see() -> None:
    known = read_all_strings()
    looked_for = [message for message in list_quoted_messages() if message and message not in OF_LIBRARIES]
    assert len(looked_for) > 40
    assert [message for message in looked_for if message not in known] == []


# In pages only. “, too” and “those of” make English sound translated.
PROSE_TIC = re.compile(r", too\b|\bthose of\b", re.IGNORECASE)


def find_tics(text: str) -> list[str]:
    return [tic[0] for tic in TIC.finditer(text)]


def test_pages_are_written_in_plain_words() -> None:
    prose = {page: QUOTED.sub("", CODE.sub("", read_page(page))) for page in PAGES if page != HISTORY}
    tics_by_page = {page: [*find_tics(text), *PROSE_TIC.findall(text)] for page, text in prose.items()}
    assert {str(page.relative_to(ROOT)): tics for page, tics in tics_by_page.items() if tics} == {}


def test_help_and_the_openapi_document_are_written_in_plain_words() -> None:
    """The reference has the help of every command, and the summaries and descriptions of every route."""
    assert {name: tics for name, text in build_reference().items() if (tics := find_tics(text))} == {}


def test_messages_and_prompts_are_written_in_plain_words() -> None:
    package = ROOT / "src" / "headway"
    modules = {str(path.relative_to(package)): "\n".join(literals(path)) for path in package.rglob("*.py")}
    scripts = {path.name: read_page(path) for path in package.rglob("static/js/**/*.js")}
    tics_by_file = {name: find_tics(text) for name, text in (modules | scripts).items() if not name.startswith(UNCHECKED)}

    assert len(tics_by_file) > 150
    assert {name: tics for name, tics in tics_by_file.items() if tics} == {}


def test_words_to_avoid_are_found() -> None:
    assert find_tics("Somebody mended it; whoever told you lets it go on.") == [
        "Somebody",
        "mended",
        "whoever",
        "told",
        "lets it go on",
    ]
    assert find_tics("Recommended: amend the plan, and continue.") == []


def requirements() -> list[tuple[str, int, str]]:
    """Document, number and test cell of every requirement."""
    return [
        (source, int(number), tests)
        for source, number, tests in REQUIREMENT.findall(read_page(DOCS / "internals" / "requirements.md"))
    ]


@cache
def known_tests(path: str) -> dict[str, bool]:
    """The tests of a file, by function or by Class::function, and whether each is parametrised."""
    if not (ROOT / path).is_file():
        return {}
    tests: dict[str, bool] = {}
    for node in parse_module(ROOT / path).body:
        prefix, members = (f"{node.name}::", node.body) if isinstance(node, ast.ClassDef) else ("", [node])
        for member in members:
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and member.name.startswith("test_"):
                decorators = map(ast.unparse, member.decorator_list)
                tests[prefix + member.name] = any("parametrize" in one or "kill_points" in one for one in decorators)
    return tests


def is_test(named: str) -> bool:
    """Whether this is the id of an existing test, in backticks. Only a parametrised test may have parameters in its id."""
    matched = TEST_ID.fullmatch(named)
    if matched is None:
        return False
    path, test, parameters = matched.groups()
    known = known_tests(path)
    return test in known and (known[test] or not parameters)


def test_every_requirement_names_tests_that_exist() -> None:
    unproven = [
        f"{source}.{number}: {named}"
        for source, number, tests in requirements()
        for named in re.split(r", (?=`|TODO)", tests)
        if not is_test(named)
    ]
    assert unproven == []


def test_requirements_are_numbered_without_gaps() -> None:
    rows = re.findall(r"^\| \d.*$", read_page(DOCS / "internals" / "requirements.md"), re.MULTILINE)
    numbers = [(source, number) for source, number, _ in requirements()]
    assert len(numbers) == len(rows), "a row that cannot be read is not checked"
    assert tuple(dict.fromkeys(source for source, _ in numbers)) == SOURCES
    for source in SOURCES:
        assert [number for one, number in numbers if one == source] == list(range(1, 1 + sum(one == source for one, _ in numbers)))


def test_a_requirement_without_a_test_would_be_found() -> None:
    here = "tests/test_documents.py"
    assert is_test(f"`{here}::test_every_link_leads_somewhere`")
    assert is_test("`tests/test_supported_pythons.py::test_the_wheel_works_on[3.11]`")
    for wrong in (
        "",
        "TODO(null means absent)",
        f"{here}::test_every_link_leads_somewhere",
        f"`{here}::test_every_link_leads_somewhre`",
        f"`{here}::is_test`",
        f"`{here}::test_every_page_is_in_the_index[README.md]`",
        "`tests/test_nothing.py::test_every_link_leads_somewhere`",
    ):
        assert not is_test(wrong), wrong


def test_requests_of_curl_send_json_as_such() -> None:
    """The server refuses the type that `curl -d` declares: a page of another site could send it."""
    lines = [(page.name, line) for page in PAGES for line in read_page(page).splitlines() if re.match(r"\$ .*\bcurl\b.* -d ", line)]
    assert len([line for page in PAGES for line in read_page(page).splitlines() if "curl" in line and "--json" in line]) >= 6
    assert [pair for pair in lines if "application/json" not in pair[1].lower()] == []
