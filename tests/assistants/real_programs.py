"""The real assistants, started without a person, with a scripted model behind them."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.assistants.scripted_provider import Answer, Call, ScriptedProvider, serve
from tests.free_ports import find_ports

PATIENCE_S: Final = 240
FIRST_ANSWER_S: Final = 20  # opencode sometimes leaves a request unanswered that comes while it starts
POLL_S: Final = 0.2
BINARIES: Final = {
    "claude-code": "@anthropic-ai/claude-code-linux-x64/claude",
    "codex": "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
    "gemini": "@google/gemini-cli/bundle/gemini.js",
    "opencode": "opencode-linux-x64/bin/opencode",
}


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


class Assistant:
    """One client in one project. Each `work` is a process that answers a prompt; with `session`, it resumes that session."""

    def __init__(self, client: str, packages: Path, project: Path, home: Path) -> None:
        self.client = client
        binary = packages / "node_modules" / BINARIES[client]
        self.program = ["node", str(binary)] if binary.suffix == ".js" else [str(binary)]
        self.project = project
        self.home = home
        self.port = 0  # of opencode's server
        self.prepare_home()

    def prepare_home(self) -> None:
        if self.client == "codex":
            (self.home / ".codex").mkdir(parents=True, exist_ok=True)
            with (self.home / ".codex" / "config.toml").open("a") as config:
                config.write(f'[projects."{self.project}"]\ntrust_level = "trusted"\n')
        if self.client == "gemini":
            (self.home / ".gemini").mkdir(parents=True, exist_ok=True)
            settings = {
                "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
                "privacy": {"usageStatisticsEnabled": False},
                "general": {"disableAutoUpdate": True},
            }
            (self.home / ".gemini" / "settings.json").write_text(json.dumps(settings))

    def plan(self, *items: tuple[str, str]) -> Call:
        """Return the call with which the assistant's model writes its list."""
        match self.client:
            case "codex":
                return Call("update_plan", {"plan": [{"step": title, "status": status} for title, status in items]})
            case "gemini":
                return Call("write_todos", {"todos": [{"description": title, "status": status} for title, status in items]})
        todos = [{"content": title, "status": status, "priority": "high"} for title, status in items]
        return Call("todowrite", {"todos": todos})

    def write_list(self, *items: tuple[str, str], before: Sequence[tuple[str, str]] = ()) -> list[Answer]:
        """Return the calls with which the model brings its list from one state to another."""
        if self.client != "claude-code":
            return [self.plan(*items)]
        calls: list[Answer] = []
        for number, (title, status) in enumerate(items, 1):
            if number > len(before):
                calls.append(Call("TaskCreate", {"subject": title, "description": title}))
            if status != (before[number - 1][1] if number <= len(before) else "pending"):
                calls.append(Call("TaskUpdate", {"taskId": str(number), "status": status}))
        return calls

    def delegate(self, task: str) -> Call:
        """Return the call with which the model starts a sub-agent and waits for it."""
        arguments = {"description": "A part", "prompt": task}
        if self.client == "claude-code":
            return Call("Agent", {**arguments, "subagent_type": "general-purpose", "run_in_background": False})
        return Call("task", {**arguments, "subagent_type": "general"})

    def plan_of_sub_agent(self, title: str) -> tuple[Call, Call]:
        """Return the calls with which a sub-agent writes a list of one item, and completes it."""
        if self.client == "claude-code":
            create = Call("TaskCreate", {"subject": title, "description": title})
            return create, Call("TaskUpdate", {"taskId": "1", "status": "completed"})
        return self.plan((title, "in_progress")), self.plan((title, "completed"))

    def run_shell(self, command: str) -> Call:
        match self.client:
            case "claude-code":
                return Call("Bash", {"command": command, "description": "Write the file"})
            case "codex":
                return Call("exec_command", {"cmd": command})
            case "gemini":
                return Call("run_shell_command", {"command": command, "description": "Write the file"})
        return Call("bash", {"command": command, "description": "Write the file"})

    def build_command(self, url: str, session: str) -> list[str]:
        prompt = "Go on." if session else "Do the work."
        match self.client:
            case "claude-code":
                resume = ["--resume", session] if session else []
                return [*self.program, "-p", prompt, "--dangerously-skip-permissions", *resume]
            case "codex":
                provider = (
                    f'{{name="scripted",base_url="{url}/v1",env_key="SCRIPTED_KEY",wire_api="responses",stream_max_retries=0}}'
                )
                options = {
                    "model": '"scripted"',
                    "model_provider": '"scripted"',
                    "model_providers.scripted": provider,
                    "tools.update_plan": "{enabled=true}",
                }
                chosen = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
                bypass = ["--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"]
                resume = ["resume", session] if session else []
                return [*self.program, "exec", *resume, *chosen, *bypass, "--skip-git-repo-check", prompt]
            case "gemini":
                resume = ["--resume", "latest"] if session else []
                return [*self.program, "-m", "gemini-2.5-pro", "--yolo", *resume, "-p", prompt]
        return [*self.program, "serve", "--hostname", "127.0.0.1", "--port", str(self.port)]

    def build_environment(self, url: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "XDG_STATE_HOME") if name in os.environ}
        opencode = {
            "provider": {
                "scripted": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "scripted",
                    "options": {"baseURL": f"{url}/v1", "apiKey": "scripted"},
                    "models": {"scripted": {"name": "scripted", "limit": {"context": 100_000, "output": 4_000}}},
                }
            },
            "model": "scripted/scripted",
            "small_model": "scripted/scripted",
            "autoupdate": False,
            "share": "disabled",
            "permission": "allow",
        }
        return {
            **kept,
            "HOME": str(self.home),
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
            "SCRIPTED_KEY": "scripted",
            "GEMINI_API_KEY": "scripted",
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_CLI_NO_RELAUNCH": "true",  # it would start itself again, and a kill would leave that process
            "OPENCODE_CONFIG_CONTENT": json.dumps(opencode),
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        }

    def work(
        self, answers: list[Answer], session: str = "", kill_at: int = 0, until: Callable[[], bool] = lambda: True
    ) -> ScriptedProvider:
        """Let the assistant answer a prompt with these answers of its model. With `kill_at`, the process is killed when it asks
        for the answer of this number. A server, which does not end by itself, is stopped when `until` holds."""
        with serve(answers, hold_at=kill_at) as provider:
            if self.client == "opencode":
                self.port = find_ports()
            command, environment = self.build_command(provider.url, session), self.build_environment(provider.url)
            process = subprocess.Popen(
                command,
                cwd=self.project,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            try:
                if self.client == "opencode":
                    self.prompt_server(provider, session, len(answers))
                    wait_until(lambda: provider.is_held.is_set() or until())
                elif kill_at:
                    assert provider.is_held.wait(PATIENCE_S)
                else:
                    output = process.communicate(timeout=PATIENCE_S)[0].decode(errors="replace")
                    assert process.returncode == 0, output
            finally:
                process.kill()
                process.communicate()
                provider.release()
        return provider

    def prompt_server(self, provider: ScriptedProvider, session: str, count: int) -> None:
        """Send a prompt to opencode's server, and wait until all its model's answers are used and it is idle."""
        session = session or self.request("/session", {"title": "work"})["id"]
        self.request(f"/session/{session}/prompt_async", {"parts": [{"type": "text", "text": "Do the work."}]})
        wait_until(lambda: provider.is_held.is_set() or len(provider.requests) >= count)
        wait_until(lambda: provider.is_held.is_set() or not self.is_busy(session))

    def is_busy(self, session: str) -> bool:
        return session in self.request("/session/status", None)

    def request(self, path: str, body: Any) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, {"content-type": "application/json"})
        while time.monotonic() < deadline:
            with (
                suppress(urllib.error.URLError, ConnectionError, TimeoutError),
                urllib.request.urlopen(request, timeout=FIRST_ANSWER_S) as response,
            ):
                return json.loads(response.read() or b"null")
            time.sleep(POLL_S)
        raise AssertionError("opencode's server did not answer")
