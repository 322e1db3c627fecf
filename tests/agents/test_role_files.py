"""Role files: users add roles with them, and change the built-in ones."""

from pathlib import Path

import pytest

from headway.agents.instructions.role_files import load
from headway.agents.instructions.roles import FAMILIES, Role, Roles
from headway.ledger.errors import SettingsError
from tests.tables import each_row

TOOLS = ("read_file", "calculate", "todo_add")


def load_role_file(folder: Path, source: str, name: str = "poet.toml") -> tuple[Role, ...]:
    (folder / name).write_text(source, encoding="utf-8")
    return load(folder, TOOLS)


def test_a_file_describes_a_role(tmp_path: Path) -> None:
    source = """
        name = "poet laureate"
        description = "Writes verses."
        prompt = "You are a poet."
        tier = "cheap"
        tools = ["tasks", "read_file"]
        writs = []
    """
    role = Role(
        "poet laureate", "Writes verses.", frozenset({"tasks", "read_file"}), frozenset(), "You are a poet.", "cheap", frozenset()
    )

    assert load_role_file(tmp_path, source) == (role,)
    assert role.grants("tasks", "AddTask")
    assert role.grants("builtin", "read_file")
    assert not role.grants("builtin", "write_file")


def test_a_new_role_starts_as_a_worker_named_after_its_file(tmp_path: Path) -> None:
    (role,) = load_role_file(tmp_path, 'prompt = "You are a poet."')
    coder = Roles().find("coder")

    assert role.name == "poet"
    assert (role.tools, role.writs, role.tier) == (coder.tools, coder.writs, coder.tier)


def test_a_built_in_role_keeps_the_fields_that_a_file_omits(tmp_path: Path) -> None:
    coder = Roles().find("coder")

    assert load_role_file(tmp_path, 'tier = "strong"', "coder.toml") == (coder._replace(tier="strong"),)
    assert Roles(load(tmp_path, TOOLS)).find("coder").tier == "strong"


def test_the_supervisor_goes_by_both_of_its_names(tmp_path: Path) -> None:
    (role,) = load_role_file(tmp_path, 'tier = "cheap"', "supervisor.toml")

    assert role == Roles().find("index")._replace(tier="cheap")
    assert Roles([role]).find("supervisor").tier == "cheap"


def test_a_list_that_is_empty_takes_everything_away(tmp_path: Path) -> None:
    (role,) = load_role_file(tmp_path, "tools = []\nwrits = []", "coder.toml")

    assert (role.tools, role.writs) == (frozenset(), frozenset())


def test_an_empty_file_is_a_role_and_a_missing_folder_holds_none(tmp_path: Path) -> None:
    assert [role.name for role in load_role_file(tmp_path, "")] == ["poet"]
    assert load(tmp_path / "missing", TOOLS) == ()


def test_files_are_read_in_order_and_others_are_left_alone(tmp_path: Path) -> None:
    load_role_file(tmp_path, "", "b.toml")
    load_role_file(tmp_path, "", "a.toml")
    (tmp_path / "notes.md").write_text("no role")

    assert [role.name for role in load(tmp_path, TOOLS)] == ["a", "b"]


@each_row(
    ("source", "said"),
    [
        ('promt = "x"', "Unknown key 'promt'. Known: name, description, prompt, tier, tools, writs, steps, repository, network."),
        ('tier = "huge"', "tier: Input should be 'strong', 'mid' or 'cheap'"),
        ('writs = ["money"]', "writs[0]: Input should be 'todos', 'agents' or 'schedules'"),
        (
            'tools = ["fly"]',
            f"tools: unknown name 'fly'. Known: the families {', '.join(FAMILIES)}, and the tools calculate, read_file",
        ),
        ('tools = "tasks"', "tools: Input should be a list"),
        ("name = 5", "name: Input should be a valid string"),
        ('name = ""', "name: String should have at least 1 character"),
        (r'name = "a\nb"', "name must not be blank and must not contain control characters."),
        (r'prompt = "a\u0000b"', "prompt contains a NUL character"),
        ("name = ", "The file is not valid TOML"),
        ("a = " + "[" * 5000, "The file is not valid TOML"),
        ("[name]", "name: Input should be a valid string"),
        ("#" * 1_000_001, "The file is larger than"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_what_is_allowed(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_role_file(tmp_path, source)
    assert str(refused.value).startswith(f"{tmp_path / 'poet.toml'}: {said}")
    assert str(refused.value).isprintable()


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "poet.toml").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match=r"poet\.toml: The file is not UTF-8 text\."):
        load(tmp_path, TOOLS)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "poet.toml").mkdir()
    with pytest.raises(SettingsError, match=r"poet\.toml: The file cannot be read"):
        load(tmp_path, TOOLS)


def test_two_files_cannot_describe_the_same_role(tmp_path: Path) -> None:
    load_role_file(tmp_path, "", "index.toml")
    with pytest.raises(SettingsError, match=r"supervisor\.toml: another file already defines the role index"):
        load_role_file(tmp_path, "", "supervisor.toml")
