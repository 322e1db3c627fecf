"""What must never be said is cut out of what is: libraries, providers and own tools like to quote what they were given."""

from typing import NamedTuple


class Redactor(NamedTuple):
    secrets: tuple[str, ...] = ()  # the longest first: one may be part of another

    def __call__(self, words: str) -> str:
        for secret in self.secrets:
            words = words.replace(secret, "…")
        return words

    def __repr__(self) -> str:
        return f"Hush({len(self.secrets)} secrets)"
