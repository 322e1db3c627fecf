"""Puts canary values into every setting and header that holds a secret, and checks that no output contains them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.runs import notices
from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.model_server import ModelServer, Reply, Request, calls, environment, error, text
from tests.proofs import Proof
from tests.surfaces.postgres_wire import Wire, open_wire
from tests.surfaces.server_harness import Client, Service, run_server, wait_until
from tests.warm_start import build_command

# With and without digits, long and short: values that a pattern for secrets could miss.
CANARIES = {
    "OPENAI_API_KEY": "sk-canary-openai-4711",
    "ANTHROPIC_API_KEY": "canaryanthropic",
    "GEMINI_API_KEY": "AIzaCanary0815-gemini-key-1234567890",
    "AZURE_OPENAI_API_KEY": 'canary"with\\\\quotes and spaces',
    "HEROKU_INFERENCE_KEY": "canaryheroku",
    "SNOWFLAKE_TOKEN": "canarysnowflake",
    "AWS_BEARER_TOKEN_BEDROCK": "canary+bedrock/==",
    "AWS_SECRET_ACCESS_KEY": "canarYsecreTaccesS",
    "PGPASSWORD": "canarypgpass",
    "OTEL_EXPORTER_OTLP_HEADERS": "canary-otel-77",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "canary-traces-78",
    "HTTPS_PROXY": "canary@proxy",
    "GOOGLE_APPLICATION_CREDENTIALS": "canary-credentials.json",
    "OF_A_TOOL_TOKEN": "canary-of-a-tool",
    "IN_A_FILE_SECRET": "canary-in-a-file",
}
# Settings in which the secret is only a part of the value.
WRITTEN = {
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization={}",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x=1,authorization=Basic%20{}",
    "HTTPS_PROXY": "http://ada:{}@127.0.0.1:1",
}
PASSWORD = "canary:pass/word"
CHANNEL = "canarychannel"
FAILURES: tuple[Callable[[Request], Reply], ...] = (
    lambda _request: error(401, f"Incorrect API key provided: {CANARIES['OPENAI_API_KEY']}."),
    lambda _request: error(400, f"Authorization: Bearer {CANARIES['OPENAI_API_KEY']} is no header"),
    lambda _request: error(403, "no: " + json.dumps({"headers": {"authorization": f"Bearer {CANARIES['OPENAI_API_KEY']}"}})),
    lambda request: text("hello") if request.tool_results else calls(("leak", {}), ("leak_politely", {})),
)
# A custom tool that fails as some libraries do: with everything it received in its error message.
LEAKY_TOOL = """import base64, json, os
from headway import tool
from headway.ledger.errors import Invalid

def everything():
    words = [one for name, one in os.environ.items() if "canary" in one.lower()]
    proxy = base64.b64encode(b"ada:canary@proxy").decode()
    return " ".join([*words, repr(words), json.dumps(words), proxy])

@tool
def leak() -> str:
    "Fails."
    raise ValueError(everything()[:450])

@tool
def leak_politely() -> str:
    "Fails."
    raise Invalid(everything())
"""


@pytest.fixture
def wire(postgres_url: str) -> Iterator[Wire]:
    with open_wire(postgres_url) as opened:
        yield opened


@pytest.fixture
def leaky(wire: Wire, model: ModelServer, tmp_path: Path) -> Iterator[tuple[Service, dict[str, str]]]:
    """A server with every secret in its environment, at the most verbose log level."""
    (tmp_path / ".env").write_text(f"IN_A_FILE_SECRET={CANARIES['IN_A_FILE_SECRET']}\n")
    (tmp_path / ".headway" / "tools").mkdir(parents=True)
    (tmp_path / ".headway" / "tools" / "leaky.py").write_text(LEAKY_TOOL)
    name, user = wire.options["dbname"], wire.options.get("user") or "postgres"
    url = f"postgresql://{user}:{PASSWORD.replace(':', '%3A').replace('/', '%2F')}@127.0.0.1:{wire.port}/{name}"
    server_env = {
        **environment(model),
        **{name: WRITTEN.get(name, "{}").format(value) for name, value in CANARIES.items() if name != "IN_A_FILE_SECRET"},
        # The library of the first channel logs its requests. The second channel is unreachable.
        "HEADWAY_NOTIFY": f"json://user:{CHANNEL}@127.0.0.1:{model.server_port}/{CHANNEL},json://user:{CHANNEL}@127.0.0.1:1/{CHANNEL}",
        "HEADWAY_MODEL_RETRIES": "0",
        "HEADWAY_RETRY_DELAY_S": "0.01",
    }
    with run_server(url, tmp_path, ["--log-level", "debug"], server_env) as service:
        yield service, {**server_env, "HEADWAY_DATABASE_URL": url}
    notified, model.violations = model.violations, []  # the model server does not know the channel's path
    assert set(notified) == {f"Invalid URL (POST /{CHANNEL})"}


def read_responses(client: Client) -> Iterator[str]:
    for path in (
        "/metrics",
        "/openapi.json",
        "/readyz",
        "/v1/notices",
        "/v1/jobs",
        "/v1/agents",
        "/v1/goals",
        "/v1/costs",
        "/v1/session",
    ):
        yield client.get(path).text
    for conversation in client.ok("GET", "/v1/conversations")["conversations"]:
        for part in ("messages", "timeline"):
            yield client.get(f"/v1/conversations/{conversation['id']}/{part}").text


def read_all_rows(desk: TenantHarness) -> str:
    """Return every row of every table."""

    def read(tx: Any) -> str:
        tables = tx.all("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        return "\n".join(str(tx.all(f"SELECT * FROM {table}")) for (table,) in tables)

    return desk.database.read(read)


def run_command(folder: Path, settings: dict[str, str], *words: str) -> str:
    """Run a command in a new process, and return all its output."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")} | settings
    ran = subprocess.run(build_command("-m", "headway", *words), cwd=folder, env=env, capture_output=True, text=True)
    return ran.stdout + ran.stderr


@pytest.mark.parametrize("name", ["database_url", "database_direct_url"])
def test_a_library_that_quotes_a_secret_is_not_quoted_by_us(name: str) -> None:
    """Covers the log of any long-running process: a message that contains a secret, and a traceback that does."""
    script = """
import logging, sys
from headway import settings
from headway.surfaces.log_lines import configure_json_logging

configure_json_logging("info", settings.load({"home": "unused", sys.argv[3]: sys.argv[1]}))
log = logging.getLogger("a.library")
log.warning("could not reach %s", sys.argv[1])
try:
    raise ValueError(f"Authorization: Bearer {sys.argv[2]}")
except ValueError:
    log.exception("a fault")
"""
    url, key = f"postgresql://ada:{CHANNEL}@db.example/headway", CANARIES["ANTHROPIC_API_KEY"]
    env = {**os.environ, "ANTHROPIC_API_KEY": key}
    ran = subprocess.run([sys.executable, "-c", script, url, key, name], env=env, capture_output=True, text=True, check=True)
    first, second = (json.loads(line) for line in ran.stderr.splitlines())

    assert first["message"] == "could not reach postgresql://ada:…@db.example/headway"
    assert second["traceback"].endswith("ValueError: Authorization: Bearer …")
    assert [secret for secret in (CHANNEL, key) if secret in ran.stderr] == []


@pytest.mark.proof
def test_no_secret_is_ever_said_again(
    leaky: tuple[Service, dict[str, str]], wire: Wire, postgres_url: str, model: ModelServer, tmp_path: Path, proof: Proof
) -> None:
    service, settings = leaky
    lines = proof.trials("log lines without a secret", share=100, whole=10_000)
    with DirectDatabase(postgres_url) as database, Client(service.url, TenantHarness(database)) as client:
        outputs = []
        for failure in FAILURES:
            model.script = failure
            conversation = client.conversation()
            outputs.append(client.post(f"/v1/conversations/{conversation}/messages", json={"content": "hello"}).text)
        client.desk.write(goals.add_goal, NewGoal("a goal that nobody can plan"))
        client.desk.write(notices.notify, "note", "look")
        client.ok("PUT", "/v1/schedules/often", json={"every_s": 60, "tool": {"name": "now"}})
        wait_until(lambda: "channels could not be reached" in client.get("/v1/jobs").text, "the channel was tried")
        outputs += [client.get("/v1/todos", headers={"Authorization": f"Bearer {secret}"}).text for secret in CANARIES.values()]
        wire.cut()
        outputs += [
            client.get("/readyz").text,
            client.get("/v1/todos").text,
            run_command(tmp_path, settings, "doctor"),
            run_command(tmp_path, settings, "doctor", "--json"),
            run_command(tmp_path, settings, "worker", "--log-level", "debug"),
        ]
        wire.reconnect()
        wait_until(lambda: client.get("/readyz").status_code == 200, "the server is ready again")
        outputs.append(run_command(tmp_path, settings, "chat", "hello"))
        assert "tool leak failed\nTraceback" in outputs[-1]
        outputs += [run_command(tmp_path, settings, "doctor", "--json"), *read_responses(client), read_all_rows(client.desk)]
        outputs += [json.dumps(request.body) for request in model.requests]
        assert any("leak failed with ValueError: " in output for output in outputs)
        while len(service.lines()) < lines:
            for _ in range(50):
                client.get("/v1/todos", params={"agent_id": CHANNEL}, headers={"Cookie": f"headway_session={PASSWORD}"})
        everything = {"log": service.log.read_text(), **{f"answer {place}": output for place, output in enumerate(outputs)}}
        secrets = [*CANARIES.values(), PASSWORD, PASSWORD.replace(":", "%3A").replace("/", "%2F"), CHANNEL, client.secret]
    leaks = [(where, secret) for where, output in everything.items() for secret in secrets if secret in output]
    assert leaks == []
    assert sum(len(output) for output in outputs) > 10_000
