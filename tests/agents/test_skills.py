"""Skills: their descriptions are in the instructions, and read_skill returns the rest, from their folders only."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from headway.agents.instructions import skills
from tests.agents.turn_harness import in_order, open_talk
from tests.model_server import calls, text

BODY = "# Deploying\nTag the commit, then run scripts/deploy.sh.\n"


def write_skill(folder: Path, name: str, front_matter: str, body: str = BODY) -> Path:
    skill = folder / name
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(f"---\n{front_matter}\n---\n{body}")
    return skill


def add_skill(home: Path, name: str = "deploy", description: str = "How to deploy.") -> Path:
    return write_skill(home / "skills", name, f"name: {name}\ndescription: {description}")


def read_call(**arguments: Any) -> Any:
    return calls(("read_skill", arguments))


def test_descriptions_are_in_the_first_request_and_the_text_comes_on_demand(sqlite_url: str, tmp_path: Path) -> None:
    folder = add_skill(tmp_path)
    add_skill(tmp_path, "answer-mail", "x" * 600)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "deploy.sh").write_text("git push")
    script = in_order(read_call(name="deploy"), read_call(name="deploy", path="scripts/deploy.sh"), text("I know."))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        assert talk.say("Deploy.")["outcome"] == "answered"
        first, _, last = talk.requests
        assert first.system.endswith(f"and follow it.\n- answer-mail: {'x' * 499}…\n- deploy: How to deploy.")
        assert "read_skill" in first.tools
        assert BODY not in json.dumps(first.body)
        skill, file = (json.loads(result.content) for result in last.tool_results)
        assert skill["content"].endswith(BODY)
        assert skill["files"] == ["scripts/deploy.sh"]
        assert file == {"content": "git push"}


def test_only_files_of_the_skill_can_be_read(sqlite_url: str, tmp_path: Path) -> None:
    folder = add_skill(tmp_path)
    (tmp_path / "policy.toml").write_text("")
    (folder / "link").symlink_to(tmp_path / "policy.toml")
    (folder / "logo.png").write_bytes(b"\x89PNG\0")
    paths = ("../../policy.toml", str(tmp_path / "policy.toml"), "link", "scripts/../../../policy.toml", "none.md", "logo.png")
    reads = calls(*(("read_skill", {"name": "deploy", "path": path}) for path in paths), ("read_skill", {"name": "../deploy"}))
    with open_talk(sqlite_url, tmp_path, in_order(reads, text("I see."))) as talk:
        talk.say("Look around.")
        assert [json.loads(result.content)["error"] for result in talk.requests[-1].tool_results] == [
            "path leads outside the skill's folder.",
            "path must be relative to the skill's folder, without a leading slash.",
            "link leads through a link or a file. Links are not followed.",
            "path leads outside the skill's folder.",
            "There is no none.md in the skill's folder.",
            "logo.png is not UTF-8 text.",
            "There is no skill '../deploy'. Known: deploy.",
        ]


def test_a_tenant_has_its_own_skills_and_no_others(sqlite_url: str, tmp_path: Path) -> None:
    add_skill(tmp_path)
    add_skill(tmp_path / "tenants" / "1", "deploy", "How acme deploys.")
    add_skill(tmp_path / "tenants" / "2", "secret", "How the others do it.")
    add_skill(tmp_path / "workspace" / "1", "planted", "An agent wrote this.")
    with open_talk(sqlite_url, tmp_path, text("Hello.")) as talk:
        talk.say("Hi")
        assert talk.requests[0].system.endswith("\n- deploy: How acme deploys.")


def test_a_broken_skill_is_skipped_and_logged(sqlite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    add_skill(tmp_path)
    (tmp_path / "skills" / "empty").mkdir()
    (tmp_path / "skills" / ".git").mkdir()
    (tmp_path / "skills" / "README.md").write_text("Our skills.")
    with caplog.at_level(logging.WARNING, "headway.skills"), open_talk(sqlite_url, tmp_path, text("Hello.")) as talk:
        talk.say("Hi")
        assert talk.requests[0].system.endswith("\n- deploy: How to deploy.")
    (message,) = (record.getMessage() for record in caplog.records)
    assert message == f"skipped a skill: {tmp_path}/skills/empty/SKILL.md: There is no SKILL.md in the skill's folder."


def test_a_role_without_the_tool_gets_no_skills(sqlite_url: str, tmp_path: Path) -> None:
    add_skill(tmp_path)
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "index.toml").write_text('tools = ["calculate"]')
    with open_talk(sqlite_url, tmp_path, in_order(read_call(name="deploy"), text("I may not."))) as talk:
        talk.say("Hi")
        assert "deploy" not in talk.requests[0].system
        assert "read_skill" in json.loads(talk.requests[1].tool_results[0].content)["error"]


@pytest.mark.parametrize(
    ("lines", "description"),
    [
        ("description: Use it when: a PDF arrives # often", "Use it when: a PDF arrives"),
        ('description: "Quotes \\"and\\" # signs"', 'Quotes "and" # signs'),
        ("description: 'It''s short'", "It's short"),
        ("description: >-\n  Folded\n  lines.\n\n  And more.", "Folded lines. And more."),
        ("description: |\n  Literal\n  lines.", "Literal lines."),
        ("description: Plain\n  and continued", "Plain and continued"),
        ("license: MIT\nmetadata:\n  author: ada\nallowed-tools:\n- Bash\n- Read\n# note\ndescription: Others", "Others"),
    ],
)
def test_descriptions_as_other_agents_write_them(tmp_path: Path, lines: str, description: str) -> None:
    write_skill(tmp_path, "x", f"name: x\n{lines}")
    (skill,) = skills.load(str(tmp_path)).skills
    assert skill.description == description


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("# Deploying", "The file must begin with its name and description, between two lines ---."),
        ("---\nname: x\ndescription: y", "The file must begin with its name and description, between two lines ---."),
        ("---\nname: x\n---\n", "description is missing."),
        ("---\nname: x\ndescription: # nothing\n---\n", "description is missing."),
        ("---\nname: y\ndescription: y\n---\n", "name: y is not the name of the folder, x."),
        ("---\nname: ../x\ndescription: y\n---\n", "name: use at most 64 letters, digits, hyphens, underscores and dots."),
        ("---\nname: x\ndescription: [a, b]\n---\n", "description must be text. Put it in quotes if it begins with [."),
        ('---\nname: x\ndescription: "a\n---\n', "description: the text in double quotes is not valid."),
        ("---\nname: x\ndescription: 'a' b'\n---\n", "description: the text in single quotes is not valid."),
        ("---\nname: x\nname: x\n---\n", "Line 3: name is there twice."),
        ("---\nname: x\nwhat\n---\n", "Line 3: expected `key: value`."),
        ("---\n  name: x\n---\n", "Line 2: expected `key: value`."),
    ],
)
def test_a_broken_skill_is_explained(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "SKILL.md").write_text(content)
    assert skills.load(str(tmp_path)) == ((), (f"{tmp_path}/x/SKILL.md: {problem}",))
