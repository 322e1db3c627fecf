"""Every request is delivered several times, by eight processes in parallel: each has one effect, and all get the same response."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proofs import Proof
from tests.surfaces.server_harness import run_server

DELIVERIES = 5
PROCESSES = 8

# Key k goes to five of the processes, starting with a different one each time; all of them are near the same key.
DELIVER = f"""
import http.client, json, sys, time
from hashlib import sha256
from random import Random
from urllib.parse import urlsplit

url, secret, keys = sys.argv[1], sys.argv[2], int(sys.argv[3])
server = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
print("ready", flush=True)
number = int(input())
mine = [key for key in range(keys) if (number - key) % {PROCESSES} < {DELIVERIES}]
lot = Random(number)
for key in sorted(mine, key=lambda key: key + lot.uniform(0, 5)):
    headers = {{"Authorization": f"Bearer {{secret}}", "Content-Type": "application/json", "Idempotency-Key": f"key {{key}}"}}
    while True:
        server.request("POST", "/v1/todos", json.dumps({{"subject": f"todo {{key}}"}}), headers)
        answer = server.getresponse()
        said = answer.read()
        if answer.status not in (429, 503):  # more than 600 a second: whoever is told to wait does
            break
        time.sleep(float(answer.headers["Retry-After"]))
    print(key, answer.status, sha256(said).hexdigest())
"""


@pytest.mark.proof
def test_a_request_delivered_five_times_runs_once_and_repeats_its_answer(
    database_url: str, tmp_path: Path, at_once: Callable[..., list[str]], proof: Proof
) -> None:
    keys = proof.trials("duplicate delivery: a key comes 5 times, from 8 processes", share=40, whole=1_000)
    answers = defaultdict(list)
    with run_server(database_url, tmp_path, ["--log-level", "warning"]) as service, service.tenant() as client:
        for output in at_once(DELIVER, service.url, client.secret, str(keys)):
            for line in output.splitlines():
                key, *answer = line.split()
                answers[key].append(tuple(answer))
        subjects = [todo["subject"] for _, todo in client.desk.changes()]

    assert sorted(subjects) == sorted(f"todo {key}" for key in range(keys))
    assert {len(responses) for responses in answers.values()} == {DELIVERIES}
    assert {responses[0][0] for responses in answers.values()} == {"201"}
    assert {key: responses for key, responses in answers.items() if len(set(responses)) > 1} == {}
