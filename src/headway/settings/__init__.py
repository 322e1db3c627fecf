"""The settings: declared in `declarations`, read from flags, the environment and .env in `loading`."""

from headway.settings.declarations import PREFIX, SettingArguments
from headway.settings.loading import (
    Settings,
    build_local_url,
    get_environment,
    inspect_current_folder,
    list_misspelled,
    load,
    load_arguments,
)
from headway.settings.parsing import redact_database_url

__all__ = [
    "PREFIX",
    "SettingArguments",
    "Settings",
    "build_local_url",
    "get_environment",
    "inspect_current_folder",
    "list_misspelled",
    "load",
    "load_arguments",
    "redact_database_url",
]
