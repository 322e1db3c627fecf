"""`headway worker` and `headway serve` processes, each on its own node."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.network import Node

PATIENCE_S = 60


class Worker:
    command: tuple[str, ...] = ("worker",)

    def __init__(self, node: Node, env: Mapping[str, str], log: Path) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
        self.node = node
        self.log = log
        self.owner = ""  # its name in `jobs.owner`, once it is ready
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                node.command(sys.executable, "-m", "headway", *self.command, "--json"),
                env={**inherited, **env},
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def wait_until_ready(self) -> None:
        self.owner = str(self.read_first_line()["worker"])

    def read_first_line(self) -> dict[str, str]:
        """Wait for the line that a process prints when it is ready."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()[-2000:]
        ready: dict[str, str] = json.loads(line)
        return ready

    def send(self, what: signal.Signals) -> None:
        """Send a signal. `ip netns exec` replaces itself with the worker, so the process is the worker itself."""
        self.process.send_signal(what)

    def end(self) -> int:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            if self.process.stdout:
                self.process.stdout.close()


class Server(Worker):
    """A `headway serve` process, which also runs jobs."""

    def __init__(self, node: Node, env: Mapping[str, str], log: Path, port: int) -> None:
        self.command = ("serve", "--host", node.address, "--port", str(port))
        super().__init__(node, env, log)

    def wait_until_ready(self) -> None:
        assert "url" in self.read_first_line()
