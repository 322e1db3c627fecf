"""The port that `serve` listens on. A file in the home has it, so that `headway login` can print a link to the running server."""

import os
from contextlib import suppress

from headway.settings import Settings, build_local_url

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
