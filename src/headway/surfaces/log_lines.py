"""Log lines, and the address that a server prints at its start."""

import json
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from headway.ledger.text import Redactor
from headway.settings import Settings, build_local_url, get_environment
from headway.settings.redaction import build_redactor


def configure_json_logging(level: str, settings: Settings) -> None:
    handler = LogHandler()
    handler.setFormatter(JsonLogFormatter(build_log_redactor(settings)))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def configure_plain_logging(settings: Settings) -> None:
    """Log plain text, for commands that run agents in the foreground. Existing log handlers of a host program are kept."""
    handler = LogHandler()
    handler.setFormatter(PlainLogFormatter(build_log_redactor(settings)))
    logging.basicConfig(handlers=[handler])


def build_log_redactor(settings: Settings) -> Redactor:
    """Collect the secrets to redact, including the secrets of MCP servers: libraries log the output of servers."""
    from headway.agents.mcp.config import FILE_NAME, list_secrets  # noqa: PLC0415  `--help` does not need it

    return build_redactor(settings, *list_secrets(Path(settings.home, FILE_NAME), get_environment()))


class LogHandler(logging.StreamHandler[Any]):
    """Writes records to standard error, and drops records that it cannot write, for example on a full disk. Python's handler would
    print a traceback there, which is cut off at any byte, is not JSON, and is not redacted."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class PlainLogFormatter(logging.Formatter):
    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self.redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self.redact(super().format(record))


class JsonLogFormatter(logging.Formatter):
    """Formats each record as one JSON object. Its fields never hold request bodies, query strings or secrets, but messages and
    tracebacks of libraries may quote what we passed to them. Known secrets are therefore redacted from every string."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self.redact = redact

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        redacted = {name: self.redact(value) if isinstance(value, str) else value for name, value in line.items()}
        return json.dumps(redacted, ensure_ascii=True)


# The port that `serve` listens on. A file in the home has it, so that `headway login` can print a link to the running
# server.


FILE_NAME = "serve.port"


def replace_port(settings: Settings, port: int) -> Settings:
    """Put another port into the settings and into the default URL. A configured HEADWAY_URL is kept."""
    is_default_url = settings.url == build_local_url(settings.host, settings.port)
    return settings._replace(port=port, url=build_local_url(settings.host, port) if is_default_url else settings.url)


def save_port(settings: Settings, port: int) -> None:
    """Keep the port. Without a home that can be written to, the user has to name it for `headway login`."""
    with suppress(OSError), open(os.path.join(settings.home, FILE_NAME), "w", encoding="ascii") as file:
        file.write(f"{port}\n")


def find_port(settings: Settings) -> int | None:
    """Return the port that `serve` last listened on with this home."""
    try:
        with open(os.path.join(settings.home, FILE_NAME), encoding="ascii") as file:
            port = file.read(6).strip()
    except (OSError, ValueError):
        return None
    return int(port) if port.isdigit() and 0 < int(port) < 65_536 else None
