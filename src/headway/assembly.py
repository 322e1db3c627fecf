"""Settings → a working Headway. The one place where parts are put together."""

from headway.settings import Settings
from headway.storage.direct import DirectDatabase


def open_direct(settings: Settings) -> DirectDatabase:
    """The database for a short-lived process: no threads, nothing to wait for at exit."""
    return DirectDatabase(settings.database_url)
