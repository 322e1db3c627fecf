"""A fuzzer that believes every word of the OpenAPI document finds nothing, with every check on."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from documented import operations
from serving import Client, Service

HERE = Path(__file__).parent
# 413 refuses what breaks the rules as well as what is only too long; the fuzzer does not count it by itself.
CONFIG = """
[checks]
negative_data_rejection = { expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429] }

# When and what are one of two each, which a schema of loose fields does not say.
[[operations]]
include-name = "PUT /v1/schedules/{name}"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422"]

# Nor can it say that a deadline lies in the future.
[[operations]]
include-name = "POST /v1/goals"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422"]

# Nor what a message of somebody else's protocol must hold for there to be something to answer.
[[operations]]
include-path-regex = "/v1/(ag-ui|ui-stream)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422"]
"""


def fuzz(client: Client, folder: Path, *flags: str) -> dict[str, Any]:
    """What the fuzzer reports of a run against every route but the event streams: an answer that never ends is no case."""
    config, report = folder / "schemathesis.toml", folder / "report.json"
    config.write_text(CONFIG)
    command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config), "run"]
    command += [f"{str(client.base_url).rstrip('/')}/openapi.json", "--header", f"Authorization: Bearer {client.secret}"]
    command += ["--checks", "all", "--exclude-path-regex", "/events$", "--generation-database", "none", "--continue-on-failure"]
    command += ["--report", "json", "--report-json-path", str(report), "--no-color", *flags]
    env = {**os.environ, "SCHEMATHESIS_HOOKS": "fuzzing_hooks", "PYTHONPATH": str(HERE)}
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def check(report: dict[str, Any], client: Client, cases: int) -> None:
    assert (report["failures"], report["errors"]) == ([], [])
    assert {name: phase["status"] for name, phase in report["phases"].items()} == dict.fromkeys(
        ("examples", "coverage", "fuzzing", "stateful"), "success"
    )
    assert report["operations"]["tested"] == sum(not operation.path.endswith("/events") for operation in operations(client))
    assert report["test_cases"]["generated"] >= cases


def test_a_fuzzer_finds_nothing(sqlite_client: Client, tmp_path: Path) -> None:
    check(fuzz(sqlite_client, tmp_path, "--max-examples", "8", "--seed", "1"), sqlite_client, 1_000)


@pytest.mark.torture
def test_a_fuzzer_with_time_on_its_hands_finds_nothing(client: Client, tmp_path: Path) -> None:
    check(fuzz(client, tmp_path, "--max-examples", "150"), client, 2_000)


def test_the_errors_of_event_streams_are_the_documented_ones(client: Client, service: Service) -> None:
    conversation = client.conversation()
    bad: list[dict[str, Any]] = [
        {"params": {"after": "x"}},
        {"params": {"nonsense": "1"}},
        {"headers": {"Last-Event-ID": "-1"}},
        {"headers": {"Authorization": "Bearer hw_wrong"}},
        {"headers": {"Authorization": "", "Cookie": "headway_session=x", "Host": "evil.example"}},
    ]
    streams = [operation for operation in operations(client) if operation.streams and operation.method == "GET"]
    assert len(streams) == 2
    for operation in streams:
        documented = operation.definition["responses"]
        met = set()
        for options in bad:
            answer = client.get(operation.at(conversation), **options)
            assert documented[str(answer.status_code)]["content"].keys() == {answer.headers["content-type"]}
            met.add(answer.status_code)
        if "{" in operation.path:
            met |= {client.get(operation.at(one)).status_code for one in ("abc", 10**15)}
        assert met == {400, 401, 422} | ({404} if "{" in operation.path else set())
    assert service.process.poll() is None
