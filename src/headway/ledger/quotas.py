"""The most that one tenant may use of what all tenants share. The settings HEADWAY_TENANT_* change these numbers."""

from typing import NamedTuple


class Quotas(NamedTuple):
    turns: int = 1_000  # turns that have not ended
    jobs: int = 256  # jobs that one process runs at once; more of them wait
    streams: int = 1_000  # open event streams of one process
    bytes: int = 20 * 2**30  # stored text and files
