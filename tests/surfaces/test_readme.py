"""The README, followed by somebody who types what stands in it: every command ends well and shows what is promised."""

import json
import re
import subprocess
import sys
from pathlib import Path

from reading import blocks, reading, session

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# What installs things, or has a test of its own.
ELSEWHERE = {"make test": "Makefile", "headway demo": "tests/surfaces/test_cli_demo.py"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}},
}


def test_every_command_works_and_shows_what_is_promised(tmp_path: Path, new_postgres_url: str) -> None:
    typed = session(README)
    assert len(typed) > 20
    (tmp_path / "folder").mkdir()
    with reading(tmp_path / "folder", new_postgres_url) as reader:
        for one in typed:
            if one.words in ELSEWHERE:
                assert one.words.split()[1] in (ROOT / ELSEWHERE[one.words]).read_text(encoding="utf-8")
            else:
                reader.follow(one)


def test_the_entry_for_an_editor_starts_our_server(tmp_path: Path) -> None:
    [entry] = [json.loads(block)["mcpServers"]["headway"] for block in blocks(README, "json")]
    arguments = [one.replace("/path/to/your", str(tmp_path)) for one in entry["args"]]
    command = [str(Path(sys.executable).parent / entry["command"]), *arguments]
    ran = subprocess.run(command, input=json.dumps(INITIALIZE) + "\n", capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "headway"


def test_every_claim_and_picture_is_where_the_readme_says() -> None:
    named = re.findall(r'\]\(([^)#]+)(?:#[^)]*)?\)|(?:src|srcset)="([^"]+)"', README)
    places = {one or other for one, other in named if "://" not in one}
    assert len(places) > 30
    assert [place for place in sorted(places) if not (ROOT / place).exists()] == []
    results = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8")
    for name in re.findall(r"RESULTS\.md\), `([\w.*]+)`", README):
        assert f"| {name.rstrip('*')}" in results


def test_claims_that_name_a_test_name_one_that_runs() -> None:
    for place in set(re.findall(r"\((tests/[^)]+\.py)\)", README)):
        assert re.search(r"^def test_", (ROOT / place).read_text(encoding="utf-8"), re.MULTILINE), place
