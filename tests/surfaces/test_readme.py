"""Types every command of the README and the tour: each must succeed and print the documented output."""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.model_server import ModelServer, text
from tests.surfaces.document_reader import list_blocks, list_pasted_commands, open_reader, parse_session

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOUR = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
PROOF = (ROOT / "docs" / "internals" / "proof.md").read_text(encoding="utf-8")
# Commands that install something or run for long, and the files that cover them.
ELSEWHERE = {
    "python3 -m venv .venv && . .venv/bin/activate": "tests/test_packaging.py",
    "pip install .": "tests/test_packaging.py",
    "pip install '.[openai]'": "tests/test_core_install.py",
    "headway demo": "tests/surfaces/test_cli_demo.py",
    "make test": "Makefile",
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}},
}


def test_every_command_of_the_readme_works(tmp_path: Path, new_postgres_url: str) -> None:
    typed = list_pasted_commands(README.replace("=openai:", "=openai-chat:"))  # the API that our model server offers
    assert {command.words for command in typed} > set(ELSEWHERE)
    assert all((ROOT / place).is_file() for place in ELSEWHERE.values())
    (tmp_path / "folder").mkdir()
    with ModelServer(lambda _: text("Soup, and cake.")) as model, open_reader(tmp_path / "folder", new_postgres_url) as reader:
        reader.env["OPENAI_BASE_URL"] = model.url
        reader.env["HEADWAY_DRIVE"] = "plan"  # as for the hosted model that README names
        for command in typed:
            if command.words not in ELSEWHERE:
                reader.follow(command)
        assert model.requests != []
        assert model.violations == []


def test_every_command_of_the_tour_works_and_prints_what_it_shows(tmp_path: Path, new_postgres_url: str) -> None:
    typed = parse_session(TOUR)
    assert len(typed) > 18
    (tmp_path / "folder").mkdir()
    with open_reader(tmp_path / "folder", new_postgres_url) as reader:
        for command in typed:
            reader.follow(command)


def test_the_entry_for_an_editor_starts_our_server(tmp_path: Path) -> None:
    [entry] = [json.loads(block)["mcpServers"]["headway"] for block in list_blocks(TOUR, "json")]
    arguments = [argument.replace("/path/to/your", str(tmp_path)) for argument in entry["args"]]
    command = [str(Path(sys.executable).parent / entry["command"]), *arguments]
    ran = subprocess.run(command, input=json.dumps(INITIALIZE) + "\n", capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "headway"


def test_the_readme_fits_in_a_few_screens() -> None:
    assert len(README.splitlines()) <= 120


def test_every_picture_exists() -> None:
    named = re.compile(r'(?:src|srcset)="([^"]+)"')
    pictures = [ROOT / place for place in named.findall(README)] + [ROOT / "docs" / place for place in named.findall(TOUR)]
    assert len(pictures) == 4
    assert [str(picture) for picture in pictures if not picture.is_file()] == []


def test_every_claim_names_a_test_that_runs_or_a_benchmark() -> None:
    claims = re.findall(r"^\| \*\*.+\| (.+) \|$", PROOF, re.MULTILINE)
    assert len(claims) > 10
    results = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8")
    for cell in claims:
        tests = re.findall(r"\((?:\.\./)+(tests/[^)]+\.py)\)", cell)
        benchmarks = re.findall(r"RESULTS\.md\), `([\w.*]+)`", cell)
        assert tests or benchmarks, cell
        assert all(re.search(r"^def test_", (ROOT / place).read_text(encoding="utf-8"), re.MULTILINE) for place in tests), cell
        assert all(f"| {name.rstrip('*')}" in results for name in benchmarks), cell
