"""Removes secrets from text, because libraries, providers and custom tools tend to quote their input."""

from typing import Final, NamedTuple

MIN_SECRET_LENGTH: Final = 6  # shorter ones are often ordinary words, and redacting those would make texts unreadable


class Redactor(NamedTuple):
    secrets: tuple[str, ...] = ()  # longest first, because one may contain another

    def __call__(self, text: str) -> str:
        for secret in self.secrets:
            if len(secret) >= MIN_SECRET_LENGTH:
                text = text.replace(secret, "…")
        return text

    def __repr__(self) -> str:
        return f"Redactor({len(self.secrets)} secrets)"
