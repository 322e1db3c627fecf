"""Logging to standard error: JSON lines for long-running processes, plain text for commands. Known secrets are redacted."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

from headway.ledger.redaction import Redactor
from headway.settings import Settings, get_environment
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
    """Collect the secrets to redact, with those of MCP servers: libraries log what a server prints."""
    from headway.agents.mcp.config import FILE_NAME, list_secrets  # noqa: PLC0415  `--help` does not need it

    return build_redactor(settings, *list_secrets(Path(settings.home, FILE_NAME), get_environment()))


class LogHandler(logging.StreamHandler[Any]):
    """Writes records to standard error, and drops those that it cannot write, for example on a full disk. Python's handler would
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
