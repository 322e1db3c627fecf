"""Opens the dispatcher that HEADWAY_DISPATCH names. Its library is imported only then."""

from headway.dispatch.restate.address import parse_address
from headway.engine.port import Dispatcher
from headway.extras import requiring_extra


def open_dispatcher(address: str) -> Dispatcher:
    """Return the dispatcher for an address. Nothing is sent or listened on before it is used."""
    parsed = parse_address(address)
    with requiring_extra("restate", "Dispatch by Restate (HEADWAY_DISPATCH)"):
        from headway.dispatch.restate.dispatcher import RestateDispatcher  # noqa: PLC0415  an optional library
    return RestateDispatcher(parsed)
