"""A fuzzer generates requests from the OpenAPI document, with every check enabled, and finds no failure."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.proofs import Proof
from tests.surfaces.openapi_routes import Operation, list_operations
from tests.surfaces.server_harness import Client, Service

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".hypothesis"  # caches the table of Unicode characters, which takes seconds to build
SHARES = 2  # parts of the route list, so that no test worker fuzzes all routes
# A body that is both invalid and too large gets 413, a status that the fuzzer does not accept as a rejection by default.
CONFIG = """
[checks]
negative_data_rejection = { expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429] }

# When and what are one of two each, and so are ids and a selection, which a schema of loose fields does not say.
[[operations]]
include-path-regex = "/v1/(schedules/({name}|preview)|jobs/dead|notices/done)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422"]

# Nor that completed_at goes with an ended status, which may be the one that the todo has already.
[[operations]]
include-path-regex = "/v1/todos(/{todo_id})?$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422"]

# Nor can it say that a deadline lies in the future.
[[operations]]
include-name = "POST /v1/goals"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422"]

# Nor which bytes are an image, a PDF or text.
[[operations]]
include-name = "POST /v1/conversations/{conversation_id}/messages"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422"]

# Nor how many steps a turn has, which roles and models there are, and which todos have checks.
[[operations]]
include-path-regex = "/v1/((turns|conversations|goals)/{[a-z_]+}/fork|todos/{todo_id}/verify)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422"]

# Nor what a message of somebody else's protocol must hold for there to be something to answer.
[[operations]]
include-path-regex = "/v1/(ag-ui|ui-stream(/{key}/[a-z]+)?|chat/completions|responses)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422"]
"""


def list_fuzzed_routes(client: Client) -> list[str]:
    """List the names of all routes except the event streams, whose responses never end."""
    return [
        f"{operation.method} {operation.path}" for operation in list_operations(client) if not operation.path.endswith("/events")
    ]


def list_different_routes(client: Client) -> list[str]:
    """Of the fuzzed routes with the same rules for parameters and body, list the first one."""
    fuzzed = set(list_fuzzed_routes(client))
    routes: dict[str, str] = {}
    for operation in list_operations(client):
        name = f"{operation.method} {operation.path}"
        if name in fuzzed:
            routes.setdefault(describe_rules(operation), name)
    return list(routes.values())


def describe_rules(operation: Operation) -> str:
    """The method and the rules for parameters and body. The names of parameters in the path do not matter."""
    parameters = [
        [place["in"], place["in"] == "path" or place["name"], place.get("required"), {**place["schema"], "title": ""}]
        for place in operation.definition.get("parameters", [])
    ]
    return json.dumps([operation.method, parameters, operation.definition.get("requestBody")], sort_keys=True)


def fuzz(client: Client, folder: Path, names: list[str], phases: str, *flags: str) -> dict[str, Any]:
    """Run the fuzzer against these routes. Return its report."""
    config, report = folder / "schemathesis.toml", folder / "report.json"
    config.write_text(CONFIG)
    command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config), "run"]
    command += [f"{str(client.base_url).rstrip('/')}/openapi.json", "--header", f"Authorization: Bearer {client.secret}"]
    command += ["--checks", "all", "--generation-database", "none", "--continue-on-failure", "--phases", phases]
    command += [flag for name in names for flag in ("--include-name", name)]
    command += ["--report", "json", "--report-json-path", str(report), "--no-color", *flags]
    hooks = {"SCHEMATHESIS_HOOKS": "tests.surfaces.fuzzing_hooks", "PYTHONPATH": str(ROOT)}
    env = {**os.environ, **hooks, "HYPOTHESIS_STORAGE_DIRECTORY": str(CACHE)}
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr  # the output has the seed
    result: dict[str, Any] = json.loads(report.read_text())
    assert (result["failures"], result["errors"]) == ([], [])
    assert {result["phases"][phase]["status"] for phase in phases.split(",")} == {"success"}
    assert result["operations"]["tested"] == len(names) or phases == "stateful"  # which tries routes with links only
    return result


SHARE = ["GET /v1/conversations", "POST /v1/memory"]


@pytest.mark.proof
def test_a_fuzzer_over_every_rule_finds_nothing(sqlite_client: Client, tmp_path: Path, proof: Proof) -> None:
    """Most cases break one rule of one parameter, so routes with the same rules are tried once; a normal run tries two."""
    names = list_different_routes(sqlite_client) if proof.whole else SHARE
    proof.tried("OpenAPI: routes with different rules", len(names))

    report = fuzz(sqlite_client, tmp_path, names, "examples,coverage" if proof.whole else "coverage", "--seed", "1")

    assert report["test_cases"]["generated"] >= 20 * len(names)


@pytest.mark.torture
def test_a_fuzzer_over_linked_routes_finds_nothing(sqlite_client: Client, tmp_path: Path) -> None:
    names = list_fuzzed_routes(sqlite_client)

    report = fuzz(sqlite_client, tmp_path, names, "stateful", "--max-examples", "2", "--seed", "1")

    assert report["operations"]["tested"] > 0


@pytest.mark.proof
@pytest.mark.torture
@pytest.mark.parametrize("share", range(SHARES))
def test_a_fuzzer_that_tries_each_route_often_finds_nothing(
    sqlite_client: Client, tmp_path: Path, proof: Proof, share: int
) -> None:
    names = list_fuzzed_routes(sqlite_client)[share::SHARES]
    cases = 2_000  # per route
    proof.tried("OpenAPI: cases", cases * len(names))

    report = fuzz(sqlite_client, tmp_path, names, "fuzzing", "--max-examples", str(cases))

    assert report["test_cases"]["generated"] >= len(names) * 10


@pytest.mark.torture
def test_a_long_fuzzer_run_finds_nothing(client: Client, tmp_path: Path) -> None:
    report = fuzz(client, tmp_path, list_fuzzed_routes(client), "examples,coverage,fuzzing,stateful", "--max-examples", "150")

    assert report["test_cases"]["generated"] >= 2_000


def test_the_errors_of_event_streams_are_the_documented_ones(client: Client, service: Service) -> None:
    conversation = client.conversation()
    turn = client.turn(conversation)
    bad: list[dict[str, Any]] = [
        {"params": {"after": "x"}},
        {"params": {"nonsense": "1"}},
        {"headers": {"Last-Event-ID": "-1"}},
        {"headers": {"Authorization": "Bearer hw_wrong"}},
        {"headers": {"Authorization": "", "Cookie": "headway_session=x", "Host": "evil.example"}},
    ]
    streams = [operation for operation in list_operations(client) if operation.streams and operation.path.endswith("/events")]
    assert len(streams) == 3
    for operation in streams:
        documented = operation.definition["responses"]
        statuses = set()
        for options in bad:
            answer = client.get(operation.at(turn if "turn_id" in operation.path else conversation), **options)
            assert documented[str(answer.status_code)]["content"].keys() == {answer.headers["content-type"]}
            statuses.add(answer.status_code)
        if "{" in operation.path:
            statuses |= {client.get(operation.at(value)).status_code for value in ("abc", 10**15)}
        assert statuses == {400, 401, 422} | ({404} if "{" in operation.path else set())
    assert service.process.poll() is None
