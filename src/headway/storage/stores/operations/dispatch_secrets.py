"""SQL for the secrets that external dispatchers must know to deliver jobs. They belong to the installation, not to a tenant."""

import secrets

from headway.storage.transaction import Transaction

SECRET_BYTES = 32


def ensure_secret(tx: Transaction, service: str) -> str:
    """Return the secret of a service. The first process that asks creates it, and all processes of the database share it."""
    tx.run(
        "INSERT INTO dispatch_secrets (service, secret) VALUES (?, ?) ON CONFLICT (service) DO NOTHING",
        service,
        secrets.token_hex(SECRET_BYTES),
    )
    row = tx.one("SELECT secret FROM dispatch_secrets WHERE service = ?", service)
    assert row is not None
    return str(row[0])
