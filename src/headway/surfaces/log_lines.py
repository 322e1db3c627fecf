"""What is logged on standard error: one JSON object a line by processes that run for long, words by commands, never a secret."""

import json
import logging
from typing import Any

from headway.ledger.redaction import Redactor
from headway.settings import Settings, build_redactor


def configure_json_logging(level: str, settings: Settings) -> None:
    handler: logging.StreamHandler[Any] = logging.StreamHandler()
    handler.setFormatter(JsonLogFormatter(build_redactor(settings)))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def configure_plain_logging(settings: Settings) -> None:
    """For commands in which agents work before somebody's eyes. A program around us that has its own log keeps it."""
    handler: logging.StreamHandler[Any] = logging.StreamHandler()
    handler.setFormatter(PlainLogFormatter(build_redactor(settings)))
    logging.basicConfig(handlers=[handler])


class PlainLogFormatter(logging.Formatter):
    def __init__(self, hush: Redactor) -> None:
        super().__init__()
        self.hush = hush

    def format(self, record: logging.LogRecord) -> str:
        return self.hush(super().format(record))


class JsonLogFormatter(logging.Formatter):
    """Fields are named by us; bodies, query strings and secrets are not among them. Libraries that we call may quote what we gave
    them, in tracebacks above all: known secrets are cut out of whatever is said."""

    def __init__(self, hush: Redactor) -> None:
        super().__init__()
        self.hush = hush

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
        told = {name: self.hush(value) if isinstance(value, str) else value for name, value in line.items()}
        return json.dumps(told, ensure_ascii=True)
