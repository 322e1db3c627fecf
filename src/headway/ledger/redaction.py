"""Removes secrets from text, because libraries, providers and custom tools tend to quote their input."""

from typing import NamedTuple


class Redactor(NamedTuple):
    secrets: tuple[str, ...] = ()  # longest first, because one may contain another

    def __call__(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "…")
        return text

    def __repr__(self) -> str:
        return f"Redactor({len(self.secrets)} secrets)"
