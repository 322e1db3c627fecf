"""Collects the secrets that are removed from everything that Headway stores, sends or displays."""

import os
import re

from headway.ledger.text import MIN_SECRET_LENGTH, Redactor, encode_credentials, list_spellings
from headway.settings.loading import Settings

SECRET_NAME_PATTERN = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS|OTLP_\w{0,40}HEADERS")
USERINFO_PATTERN = re.compile(r"://([^/?#\s:]*:[^/?#\s]*)@")
PASSWORD_PATTERN = re.compile(r"(?<=password=)[^&\s]+")
MIN_URL_PART_LENGTH = 8


def build_redactor(settings: Settings, *more_secrets: str) -> Redactor:
    """Collect the secrets to redact: passwords in URLs, channels, and environment variables whose names look like secrets."""
    secret_values = [*more_secrets, *(value for name, value in os.environ.items() if SECRET_NAME_PATTERN.search(name))]
    headers = [part.partition("=")[2].strip() for value in secret_values for part in value.split(",") if "=" in part]
    database_urls = (settings.database_url, settings.database_direct_url, settings.directory_url)
    credentials = [
        credential
        for value in (*database_urls, *settings.notify, *os.environ.values())
        for credential in USERINFO_PATTERN.findall(value)
    ]
    passwords = [credential.partition(":")[2] for credential in credentials] + PASSWORD_PATTERN.findall(" ".join(database_urls))
    # Services put tokens anywhere in a URL. Its short parts are treated as ordinary words.
    parts = [part for url in settings.notify for part in re.split("[/:@?&=]", url) if len(part) >= MIN_URL_PART_LENGTH]
    secrets = {
        *secret_values,
        *headers,
        *(header.split()[-1] for header in headers if header),
        *passwords,
        *settings.notify,
        *parts,
    }
    spellings = {spelling for secret in secrets for spelling in list_spellings(secret)} | {
        encode_credentials(credential) for credential in credentials
    }
    return Redactor(
        tuple(sorted((spelling for spelling in spellings if len(spelling) >= MIN_SECRET_LENGTH), key=len, reverse=True))
    )
