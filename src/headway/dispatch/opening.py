"""Opens the dispatcher that HEADWAY_DISPATCH names. Its library is imported only then."""

from headway.dispatch.restate.address import parse_address
from headway.engine.port import Dispatcher
from headway.ledger.errors import SettingsError


def open_dispatcher(address: str) -> Dispatcher:
    """Return the dispatcher for an address. Nothing is sent or listened on before it is used."""
    parsed = parse_address(address)
    try:
        from headway.dispatch.restate.dispatcher import RestateDispatcher  # noqa: PLC0415  an optional library
    except ModuleNotFoundError as error:
        if error.name != "restate":
            raise
        raise SettingsError("HEADWAY_DISPATCH names Restate, whose library is missing: pip install 'headway[restate]'.") from None
    return RestateDispatcher(parsed)
