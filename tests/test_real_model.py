"""scripts/real_model.py reports what a model did, whatever the model says that it did."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.model_server import ModelServer, Reply, Script, by_turn, calls, text
from tests.warm_start import build_command, install_command

SCRIPT = Path(__file__).parent.parent / "scripts" / "real_model.py"
LINE = "Hello, Zoe!"


def run_request(folder: Path, name: str, script: Script | Reply) -> dict[str, Any]:
    """Run one request of the script with a scripted model, and return its row."""
    with ModelServer(script) as server:
        command = [*build_command(str(SCRIPT)), "--url", server.url, "--model", "fake-1", "--out", str(folder), "--only", name]
        command += ["--headway", str(install_command(folder / "bin"))]
        subprocess.run(command, check=True, capture_output=True)
    (row,) = json.loads((folder / "table.json").read_text())["rows"]
    assert f"| {name} |" in (folder / "table.md").read_text()
    return dict(row)


def test_work_that_was_done_holds(tmp_path: Path) -> None:
    write = calls(("write_file", {"path": "greeting.txt", "content": LINE}), usage=(100, 20))
    row = run_request(tmp_path, "write", by_turn(write, text("It is written.", usage=(150, 5))))
    assert row["held"]
    assert row["outcome"] == "answered"
    assert row["usage"].items() >= {"steps": 1, "input_tokens": 100, "output_tokens": 20}.items(), (
        "proven work needs no second call"
    )
    assert [call["tool"] for call in row["calls"]] == ["write_file"]


def test_a_claim_without_work_does_not_hold(tmp_path: Path) -> None:
    row = run_request(tmp_path, "write", text(f"I wrote {LINE} to greeting.txt."))
    assert not row["held"]
    assert row["facts"][0] == {
        "claim": "greeting.txt has the right content",
        "holds": False,
        "found": "there is no such file",
    }


def test_both_turns_of_a_conversation_are_run(tmp_path: Path) -> None:
    row = run_request(tmp_path, "french", text("Vous êtes Zoe, et la capitale est Rome."))
    assert row["held"]
    assert row["outcome"] == "answered, answered"
