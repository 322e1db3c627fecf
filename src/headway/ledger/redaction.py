"""Removes secrets from text, because libraries, providers and custom tools tend to quote their input."""

import json
from typing import Final, NamedTuple

MIN_SECRET_LENGTH: Final = 6  # shorter ones are often ordinary words, and redacting those would make texts unreadable
ENCODING_ERRORS = "surrogateescape"  # how the environment represents bytes that are not valid text


class Redactor(NamedTuple):
    secrets: tuple[str, ...] = ()  # longest first, because one may contain another

    def __call__(self, text: str) -> str:
        for secret in self.secrets:
            if len(secret) >= MIN_SECRET_LENGTH:
                text = text.replace(secret, "…")
        return text

    def __repr__(self) -> str:
        return f"Redactor({len(self.secrets)} secrets)"


def list_spellings(secret: str) -> set[str]:
    """List the forms that a secret takes in URLs, in JSON and in Python's repr."""
    from urllib.parse import quote, quote_plus, unquote  # noqa: PLC0415  only servers need these; every command loads this file

    plain = unquote(secret)
    quoted = {quote(plain, safe="", errors=ENCODING_ERRORS), quote_plus(plain, errors=ENCODING_ERRORS)}
    return {secret, plain, json.dumps(secret)[1:-1], json.dumps(plain)[1:-1], repr(plain)[1:-1], *quoted}


def encode_credentials(credentials: str) -> str:
    """Encode a name and password as in HTTP basic authentication."""
    from base64 import b64encode  # noqa: PLC0415
    from urllib.parse import unquote  # noqa: PLC0415

    return b64encode(unquote(credentials).encode(errors=ENCODING_ERRORS)).decode()
