"""Opens the dispatcher that HEADWAY_DISPATCH names. Its library is imported only then."""

from headway.dispatch.restate_address import parse_address
from headway.engine.external import Dispatcher
from headway.extras import requiring_extra
from headway.storage.database import DatabaseAccess
from headway.storage.retry import retry_storage
from headway.storage.stores import installation


async def ensure_secret(database: DatabaseAccess, address: str) -> str:
    """Return the secret that deliveries must know. All processes of the database share it."""
    service = parse_address(address).service
    return await retry_storage(lambda: database.write(lambda tx: installation.ensure_secret(tx, service)), "the dispatcher")


def open_dispatcher(address: str, secret: str) -> Dispatcher:
    """Return the dispatcher for an address. Deliveries must know the secret. Nothing is sent or listened on before it is used."""
    parsed = parse_address(address)
    with requiring_extra("restate", "Dispatch by Restate (HEADWAY_DISPATCH)"):
        from headway.dispatch.restate import RestateDispatcher  # noqa: PLC0415  an optional library
    return RestateDispatcher(parsed, secret)
