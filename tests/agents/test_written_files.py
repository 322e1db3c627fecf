"""Files that agents write are recorded: by write_file and edit_file, and by programs, in the transaction that stores the result."""

from pathlib import Path
from typing import Any

from headway.actions.history import files
from headway.ledger.file_versions import CONTENT_LIMIT, FileSelection
from headway.ledger.limits import MEBIBYTE
from tests.agents.turn_harness import Talk, in_order, open_talk
from tests.model_server import Reply, calls, text

PROGRAMS = "sh,python3"


def run_calls(*tool_calls: tuple[str, dict[str, Any]]) -> tuple[Reply, ...]:
    """One answer of the model per call, then its last words."""
    return (*(calls(call) for call in tool_calls), text("Done."))


def shell(command: str) -> tuple[str, dict[str, Any]]:
    return ("run_command", {"command": ["sh", "-c", command]})


def list_files(talk: Talk, **filters: Any) -> dict[str, dict[str, Any]]:
    """Return the files by path."""
    page = talk.database.read(lambda tx: files.list_files(tx, talk.tenant_id, FileSelection(**filters), 100))
    return {file.path: file.as_json() for file in page.files}


def list_versions(talk: Talk, path: str) -> list[tuple[str, str]]:
    """Return (change, content) of the versions of a file, oldest first."""
    file_id = list_files(talk)[path]["id"]
    history = talk.database.read(lambda tx: files.get_file(tx, talk.tenant_id, file_id))

    def read(n: int) -> str:
        return talk.database.read(lambda tx: files.get_content(tx, talk.tenant_id, file_id, n)).data.decode()

    return [(version.change, read(version.n) if version.is_kept else "") for version in reversed(history.versions)]


def get_workspace(talk: Talk) -> Path:
    return Path(talk.headway.settings.get_workspace(talk.tenant_id))


def test_what_a_turn_writes_and_edits_is_recorded_with_every_version(database_url: str, tmp_path: Path) -> None:
    replies = run_calls(
        ("write_file", {"path": "./notes/plan.md", "content": "one\n"}),
        ("write_file", {"path": "notes/plan.md", "content": "one\n"}),
        ("edit_file", {"path": "notes/plan.md", "old": "one", "new": "two"}),
        ("edit_file", {"path": "notes/plan.md", "old": "absent", "new": "x"}),
        ("write_file", {"path": "../outside.md", "content": "x"}),
        ("read_file", {"path": "notes/plan.md"}),
    )
    with open_talk(database_url, tmp_path, in_order(*replies)) as talk:
        turn = talk.say()

        (file,) = list_files(talk).values()
        assert list_versions(talk, "notes/plan.md") == [("written", "one\n"), ("written", "two\n")]
        assert (file["path"], file["workspace"], file["latest"]) == ("notes/plan.md", "", 2)
        assert talk.run is not None
        version = file["version"]
        assert {name: version[name] for name in ("tool", "role", "run_id", "turn_id", "conversation_id", "goal_id")} == {
            "tool": "edit_file",
            "role": "index",
            "run_id": talk.run.id,
            "turn_id": turn["id"],
            "conversation_id": talk.conversation_id,
            "goal_id": None,
        }
        named = [data.get("files") for data in talk.list_event_data("tool_result")]
        reference = {"id": file["id"], "path": "notes/plan.md", "change": "written"}
        assert named == [[{**reference, "version": n}] if n else None for n in (1, 1, 2, 0, 0, 0)]
        assert list_files(talk, turn_id=turn["id"]) == list_files(talk, role="index") == list_files(talk, path="notes")
        assert list_files(talk, role="researcher") == list_files(talk, path="note") == {}


def test_what_was_there_before_is_kept_as_found(database_url: str, tmp_path: Path) -> None:
    with open_talk(
        database_url, tmp_path, in_order(*run_calls(("edit_file", {"path": "a.txt", "old": "old", "new": "new"})))
    ) as talk:
        get_workspace(talk).mkdir(parents=True)
        (get_workspace(talk) / "a.txt").write_text("old\n")
        talk.say()
        assert list_versions(talk, "a.txt") == [("found", "old\n"), ("written", "new\n")]

        (get_workspace(talk) / "a.txt").write_text("by a person\n")
        talk.server.script = in_order(*run_calls(("write_file", {"path": "a.txt", "content": "again\n"})))
        second = talk.say()

        assert list_versions(talk, "a.txt")[2:] == [("found", "by a person\n"), ("written", "again\n")]
        assert list_files(talk, turn_id=second["id"])["a.txt"]["version"]["n"] == 4


def test_what_programs_change_delete_and_rename_is_found_by_comparing(database_url: str, tmp_path: Path) -> None:
    commands = (
        "echo one > made.txt; echo gone > gone.txt; echo name > old-name.txt; mkdir -p node_modules; echo x > node_modules/x.js",
        "echo two > made.txt; rm gone.txt; mv old-name.txt new-name.txt; ln -s /etc/passwd link; printf '\\377' > binary; exit 3",
        "touch made.txt; cat made.txt",
    )
    with open_talk(database_url, tmp_path, in_order(*run_calls(*map(shell, commands))), commands=PROGRAMS) as talk:
        talk.say()

        files = list_files(talk)
        assert sorted(files) == ["binary", "gone.txt", "made.txt", "new-name.txt", "old-name.txt"]
        assert list_versions(talk, "made.txt") == [("changed", "one\n"), ("changed", "two\n")]
        assert list_versions(talk, "gone.txt") == [("changed", "gone\n"), ("deleted", "")]
        assert files["new-name.txt"]["version"]["renamed_from"] == "old-name.txt"
        assert (files["binary"]["version"]["media_type"], files["binary"]["version"]["size"]) == ("application/octet-stream", 1)
        counts = [len(data.get("files", ())) for data in talk.list_event_data("tool_result")]
        assert counts == [3, 5, 0]


def test_a_program_that_is_stopped_has_its_files_recorded(sqlite_url: str, tmp_path: Path) -> None:
    write = "open('made.txt', 'w').write('partly')\n"
    code = f"{write}import subprocess\nfor child in [subprocess.Popen(['sleep', '300']) for _ in range(20)]: child.wait()"
    script = in_order(*run_calls(("run_python", {"code": code})))
    with open_talk(sqlite_url, tmp_path, script, commands=PROGRAMS, sandbox_processes="10") as talk:
        talk.say()

        assert list_versions(talk, "made.txt") == [("changed", "partly")]
        (result,) = talk.list_event_data("tool_result")
        assert (result["is_error"], "started more than 10 processes and was stopped" in result["result"]["error"]) == (True, True)


def test_large_and_many_files_are_recorded_within_limits(sqlite_url: str, tmp_path: Path) -> None:
    large = f"head -c {CONTENT_LIMIT + 1} /dev/zero > large; head -c {4 * MEBIBYTE} /dev/zero > a; cp a b; cp a c"
    many = "for n in $(seq 300); do echo $n > file-$n; done"
    with open_talk(sqlite_url, tmp_path, in_order(*run_calls(shell(large), shell(many))), commands=PROGRAMS) as talk:
        talk.say()

        page = talk.database.read(lambda tx: files.list_files(tx, talk.tenant_id, FileSelection(), 500)).files
        versions = {file.path: file.version for file in page}
        assert (versions["large"].is_kept, versions["large"].size, versions["large"].sha256) == (False, CONTENT_LIMIT + 1, "")
        assert [versions[name].is_kept for name in "abc"] == [True, True, False]
        assert versions["c"].sha256 == versions["a"].sha256
        assert sum(path.startswith("file-") for path in versions) == 200
        first, second = talk.list_event_data("tool_result")
        assert (len(first["files"]), first["omitted_files"]) == (4, 0)
        assert (len(second["files"]), second["omitted_files"]) == (50, 250)


def test_hostile_names_are_recorded_as_they_are(database_url: str, tmp_path: Path) -> None:
    names = ["a\nb", "\u202egpj.exe", "\"quoted'", "-rf", "<img src=x onerror=alert(1)>", " ", "%2e%2e%2f", "x" * 255]
    code = f"for name in {names!r}:\n    open(name, 'w').write('x')\nopen(b'\\xff', 'w').write('y')"
    with open_talk(database_url, tmp_path, in_order(*run_calls(("run_python", {"code": code}))), commands=PROGRAMS) as talk:
        talk.say()

        assert sorted(list_files(talk)) == sorted([*names, "\N{REPLACEMENT CHARACTER}"])


def test_two_agents_that_write_the_same_file_both_count(database_url: str, tmp_path: Path) -> None:
    write = ("write_file", {"path": "a.txt", "content": "the same\n"})
    with open_talk(
        database_url, tmp_path, in_order(*run_calls(write), *run_calls(write), *run_calls(shell("touch a.txt"))), commands=PROGRAMS
    ) as talk:
        first, second, third = talk.say(), talk.say(), talk.say()

        assert list_versions(talk, "a.txt") == [("written", "the same\n")] * 2
        assert [list(list_files(talk, turn_id=turn["id"])) for turn in (first, second, third)] == [["a.txt"], ["a.txt"], []]
        assert list_files(talk, turn_id=first["id"])["a.txt"]["version"]["n"] == 1
