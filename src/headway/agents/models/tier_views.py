"""Tiers as people see them: which model each has, where it is and what is known about it."""

from typing import Any
from urllib.parse import urlsplit

from headway.agents.models.client import Models
from headway.agents.models.providers import get_address
from headway.ledger.errors import SettingsError
from headway.ledger.run import REHEARSAL_MODEL
from headway.ledger.tiers import Tier


def describe_tier(models: Models, tier: Tier) -> dict[str, Any]:
    """Describe a tier, also if its model cannot be built. The address has neither a password nor a path."""
    name, host, error = models.names[tier], "", ""
    try:
        host = urlsplit(get_address(models.find(tier))).netloc
    except SettingsError as failure:
        error = str(failure)
    info = models.describe(tier)
    return {
        "tier": tier,
        "model": name,
        "host": host,
        "context_tokens": info.context_tokens,
        "context_source": "set" if info.is_context_set else "known",
        "max_output_tokens": info.max_output_tokens,
        "supports_tools": info.supports_tools,
        "fallback": models.list_names(tier)[1:],
        "priced": name == REHEARSAL_MODEL or not models.prices.is_free(name),
        "error": error,
    }
