"""Searches and globs in a workspace: which lines and files are found, which are not, and that hostile input ends in time."""

import os
from pathlib import Path

import pytest

from tests.agents.agent_harness import Agent
from tests.agents.external_tools import ToolCaller, build_caller
from tests.tables import each_row

SECRET = "the secret of the house"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text(SECRET)
    folder = tmp_path / "spaces" / "acme"
    for path, content in {
        "a.py": "import os\n\n\ndef one():\n    return os.name\n",
        "src/b.py": "from a import one\r\n\r\nprint(one())\r\n",
        "src/deep/c.ts": "const one = 1\nconst größe = one",
        "src/deep/d.tsx": "",
        "node_modules/x/index.ts": "const one = 1\n",
        ".git/config": "one\n",
        "empty.md": "",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content.encode())
    return folder


@pytest.fixture
def caller(sqlite_agent: Agent, workspace: Path) -> ToolCaller:
    return build_caller(sqlite_agent, workspace)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("one", ["a.py:4: def one():", "src/b.py:1: from a import one", "src/b.py:3: print(one())"]),
        ("^import|name$", ["a.py:1: import os", "a.py:5:     return os.name"]),
        (r"one\(\)\)$", ["src/b.py:3: print(one())"]),  # the line ends before \r\n
        (r"(?i)ONE\(\):", ["a.py:4: def one():"]),
        (r"^\s*$", ["a.py:2: ", "a.py:3: ", "src/b.py:2: "]),
        (r"os\s+def", []),  # no match spans two lines
        (r"(?s)import.*def", []),
        ("  return", ["a.py:5:     return os.name"]),  # spaces count
    ],
)
def test_matching_lines_are_found_with_their_place(caller: ToolCaller, workspace: Path, pattern: str, matches: list[str]) -> None:
    (workspace / "src" / "deep" / "c.ts").unlink()

    assert caller("search_files", pattern=pattern) == {"matches": matches}


def test_a_search_can_be_limited_to_a_folder_or_a_file(caller: ToolCaller) -> None:
    deep = ["src/deep/c.ts:1: const one = 1", "src/deep/c.ts:2: const größe = one"]

    assert caller("search_files", pattern="const", path="src/deep") == {"matches": deep}
    assert caller("search_files", pattern=r"\pL+ß", path="src/deep/c.ts") == {"matches": deep[1:]}
    assert caller("search_files", pattern="x", path="empty.md") == {"matches": []}
    assert caller("search_files", pattern="one", path="node_modules")["matches"] == ["node_modules/x/index.ts:1: const one = 1"]
    assert caller.refused("search_files", pattern="x", path="none") == "There is no none in the workspace."


def test_more_matches_than_the_limit_are_cut_and_it_says_so(caller: ToolCaller, workspace: Path) -> None:
    result = caller("search_files", pattern="one", limit=2)

    assert result["matches"] == ["a.py:4: def one():", "src/b.py:1: from a import one"]
    assert result["truncated"].startswith("More lines than these 2 match")
    assert "truncated" not in caller("search_files", pattern="one", path="a.py", limit=1)
    (workspace / "many").write_text(("x" * 290 + "\n") * 3_000)
    result = caller("search_files", pattern="x", path="many", limit=500)
    assert sum(map(len, result["matches"])) <= 100_000
    assert "truncated" in result
    assert caller.refused("search_files", pattern="x", limit=501)


def test_long_lines_are_shown_around_the_match(caller: ToolCaller, workspace: Path) -> None:
    (workspace / "long").write_text("é" * 3_000 + "needle" + "é" * 3_000 + "\nneedle" + "y" * 400)
    first, second = caller("search_files", pattern="needle", path="long")["matches"]

    assert first == f"long:1: …{'é' * 100}needle{'é' * 194}…"
    assert second == f"long:2: needle{'y' * 294}…"


def test_line_numbers_hold_across_blocks_and_very_long_lines(caller: ToolCaller, workspace: Path) -> None:
    lines = [f"{'needle ' if number % 1_000 == 0 else ''}{'x' * (number % 90)}" for number in range(1, 15_001)]
    lines[6_999] = "needle" + "z" * 40_000
    lines[7_099] = "z" * 40_000 + "needle"  # only the beginning of a very long line is searched
    (workspace / "large").write_text("\n".join(lines))
    matches = caller("search_files", pattern="^needle", path="large")["matches"]

    assert [int(match.split(":")[1]) for match in matches] == list(range(1_000, 15_001, 1_000))
    assert len(caller("search_files", pattern="needle$", path="large")["matches"]) == 0


def test_binary_large_and_unreadable_files_are_skipped(caller: ToolCaller, workspace: Path) -> None:
    (workspace / "binary").write_bytes(b"one\0")
    (workspace / "latin").write_bytes(b"caf\xe9 one\n")
    (workspace / "huge").write_bytes(b"one\n" * 250_001)
    with (workspace / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 40)
    os.mkfifo(workspace / "pipe")
    result = caller("search_files", pattern="one", limit=4)

    assert result["matches"][1:] == [
        "latin:1: caf\N{REPLACEMENT CHARACTER} one",
        "src/b.py:1: from a import one",
        "src/b.py:3: print(one())",
    ]
    assert result["skipped"] == "2 files of more than 1,000,000 bytes"
    assert caller.refused("search_files", pattern="x", path="pipe") == "pipe is not a file."


def test_nothing_outside_is_searched_or_listed(caller: ToolCaller, workspace: Path, tmp_path: Path) -> None:
    (workspace / "file").symlink_to(tmp_path / "secret.txt")
    (workspace / "folder").symlink_to(tmp_path)
    (workspace / "loop").symlink_to(".")

    assert caller("search_files", pattern="secret") == {"matches": []}
    assert caller("list_files", pattern="*secret*") == {"files": []}
    for path in ("..", "../..", "/etc", "file", "folder", "folder/secret.txt", "loop/a.py", "a\0b", "\ud800"):
        assert SECRET not in caller.refused("search_files", pattern="secret", path=path)
        assert caller.refused("list_files", pattern="*", path=path)
    for pattern in ("../*.txt", "/etc/*", "src/../../../*", "folder/*", "a\0b", "\ud800"):
        assert caller.refused("list_files", pattern=pattern)


@each_row(
    ("pattern", "reason"),
    [
        ("a(", "missing )"),
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("(?=a)", "no lookaround"),
        ("a{1001}", "invalid repetition size"),
        ("(((x{100}){100}){100})", "repetition"),
        (".{900}.{900}", "too large"),
        ("x" * 1_001, "at most 1,000"),
        ("\ud800", "valid string"),
        ("", "at least 1 character"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_with_the_reason(caller: ToolCaller, pattern: str, reason: str) -> None:
    assert reason in caller.refused("search_files", pattern=pattern)


@each_row("pattern", ["(x+x+)+y", "(a|aa)+$", "(x*)*y", "(?:x?){40}x{40}y", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_patterns_that_take_exponential_time_elsewhere_end(caller: ToolCaller, workspace: Path, pattern: str) -> None:
    (workspace / "hostile").write_text("x" * 15_000 + "\n" + "a" * 15_000 + "!\n")

    assert caller("search_files", pattern=pattern, path="hostile") == {"matches": []}


def test_deep_folders_end(caller: ToolCaller, workspace: Path) -> None:
    (workspace / "/".join(["d"] * 300)).mkdir(parents=True)

    assert caller("search_files", pattern="def") == {"matches": ["a.py:4: def one():"]}
    assert [file["path"] for file in caller("list_files", pattern="*.py")["files"]] == ["a.py", "src/b.py"]


@each_row(
    ("pattern", "paths"),
    [
        ("**/*.py", ["a.py", "src/b.py"]),
        ("*.py", ["a.py", "src/b.py"]),  # without a slash, in every folder
        ("./*.py", ["a.py"]),
        ("src/*", ["src/b.py"]),
        ("src/**", ["src/b.py", "src/deep/c.ts", "src/deep/d.tsx"]),
        ("src/**/*.{ts,tsx}", ["src/deep/c.ts", "src/deep/d.tsx"]),
        ("{src,lib}/deep/?.ts", ["src/deep/c.ts"]),
        ("**/[!a-b].ts*", ["src/deep/c.ts", "src/deep/d.tsx"]),
        ("[ab].py", ["a.py", "src/b.py"]),
        ("src/b.py", ["src/b.py"]),
        ("A.PY", []),
        ("a[py", []),
        ("a}.py,", []),
    ],
)
def test_files_are_listed_by_glob(caller: ToolCaller, pattern: str, paths: list[str]) -> None:
    assert [file["path"] for file in caller("list_files", pattern=pattern)["files"]] == paths


def test_a_glob_is_relative_to_the_path_and_sizes_are_listed(caller: ToolCaller) -> None:
    assert caller("list_files", path="src", pattern="*.py") == {"files": [{"path": "src/b.py", "size": 35}]}
    assert caller("list_files", path="src", pattern="deep/*.tsx") == {"files": [{"path": "src/deep/d.tsx", "size": 0}]}
    assert caller.refused("list_files", pattern="none/*.py") == "There is no none in the workspace."
    assert "not valid" in caller.refused("list_files", pattern="{a,b")


def test_a_long_list_by_glob_ends_and_says_so(caller: ToolCaller, workspace: Path) -> None:
    for number in range(501):
        (workspace / f"f{number:03}.txt").touch()
    result = caller("list_files", pattern="f*.txt")

    assert [entry["path"] for entry in result["files"]] == [f"f{number:03}.txt" for number in range(500)]
    assert "narrower pattern" in result["truncated"]


def test_a_workspace_that_does_not_exist_yet_has_no_matches(sqlite_agent: Agent, tmp_path: Path) -> None:
    caller = build_caller(sqlite_agent, tmp_path / "none")

    assert caller("search_files", pattern="x") == {"matches": []}
    assert caller("list_files", pattern="*") == {"files": []}
    assert caller.refused("edit_file", path="a", old="x", new="y")
    assert not (tmp_path / "none").exists()


def test_without_a_workspace_the_tools_say_so(sqlite_agent: Agent) -> None:
    caller = build_caller(sqlite_agent)

    for tool, arguments in (("edit_file", {"path": "a", "old": "x", "new": "y"}), ("search_files", {"pattern": "x"})):
        assert caller.refused(tool, **arguments) == "No workspace is available here."
