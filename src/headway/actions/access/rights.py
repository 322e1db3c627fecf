"""Who may do what. The table names the least scope of a token for each right, and the routes name the right that they need.

The command line and programs that embed Headway act for the installation's operator, so they are not asked.
"""

from collections.abc import Mapping
from typing import Final, Literal

from headway.ledger.check import Author
from headway.ledger.errors import Forbidden, OperatorOnly, ReadOnlyToken
from headway.ledger.tenancy import LOCAL_TENANT, TOKEN_SCOPES, Tenant, Token, TokenScope
from headway.storage.stores import tenants as tenant_store
from headway.storage.transaction import Transaction

Right = Literal[
    "read",
    "change",
    "manage_tokens",
    "manage_webhooks",
    "delete_all_comments",
    "set_limit",
    "read_audit",
    "read_policy",
    "try_models",
    "forget_rules",
    "read_installation_audit",
    "read_policy_patterns",
    "halt",
    "see_workers",
    "see_settings",
    "see_mcp_servers",
    "see_tenants",
    "add_tenants",
    "manage_operator_tokens",
    "see_host_paths",
]

NEEDED_SCOPES: Final[Mapping[Right, TokenScope]] = {
    "read": "read",
    "change": "write",
    # The tenant's administrator
    "manage_tokens": "admin",  # and sessions, except the operator's
    "manage_webhooks": "admin",
    "delete_all_comments": "admin",
    "set_limit": "admin",  # up to the one that the operator has set, or HEADWAY_BUDGET_USD
    "read_audit": "admin",  # the tenant's entries
    "read_policy": "admin",  # the tenant's rules, without the patterns that the operator wrote
    "try_models": "admin",  # the tenant pays for it
    "forget_rules": "admin",  # that people of the tenant added with `always`
    # The installation's operator
    "read_installation_audit": "operator",
    "read_policy_patterns": "operator",
    "halt": "operator",
    "see_workers": "operator",
    "see_settings": "operator",
    "see_mcp_servers": "operator",
    "see_tenants": "operator",
    "add_tenants": "operator",
    "manage_operator_tokens": "operator",
    "see_host_paths": "operator",
}

# In whose name a token with this scope writes checks. It can neither drop nor evade the checks of a higher rank.
AUTHORS: Final[Mapping[TokenScope, Author]] = {"read": "person", "write": "person", "admin": "admin", "operator": "operator"}


def get_scope(tx: Transaction, token: Token) -> TokenScope:
    """Return the highest scope that the token has. Only tokens of the tenant `local` are the operator's."""
    if not token.operator:
        return token.scope
    tenant = tenant_store.find_tenant(tx, token.tenant_id)
    return "operator" if tenant is not None and is_host(token, tenant) else "admin"


def is_host(token: Token, tenant: Tenant) -> bool:
    """Whether the token is the installation's operator's: one of the tenant `local`, with the scope `operator`."""
    return token.operator and tenant.name == LOCAL_TENANT


def has_right(tx: Transaction, token: Token, right: Right) -> bool:
    return TOKEN_SCOPES.index(NEEDED_SCOPES[right]) <= TOKEN_SCOPES.index(get_scope(tx, token))


def check_right(tx: Transaction, token: Token, right: Right) -> None:
    """Raise an error that says which token would have the right, unless this one has it."""
    if has_right(tx, token, right):
        return
    match NEEDED_SCOPES[right]:
        case "operator":
            raise OperatorOnly
        case "admin":
            raise Forbidden("This needs a token with the admin scope: `headway token add --admin` creates one.")
        case _:
            raise ReadOnlyToken
