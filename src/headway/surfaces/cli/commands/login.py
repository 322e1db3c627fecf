"""`headway login`: a fresh link that signs in to the page."""

from contextlib import closing
from http.client import NO_CONTENT, HTTPConnection, HTTPException

import click

from headway.actions.access import tokens
from headway.ledger.errors import HeadwayError
from headway.settings import Settings, build_local_url
from headway.surfaces.cli.context import INSTALLATION_WIDE, Command, Invocation, pass_invocation
from headway.surfaces.log_lines import find_port, replace_port

CONNECT_TIMEOUT_S = 5.0


class NoServer(HeadwayError):
    """No server answers."""


@click.command(cls=Command, unused=INSTALLATION_WIDE)
@click.option("--port", metavar="PORT", help="Port of the server (default: the one that `serve` last used here).")
@pass_invocation
def login(invocation: Invocation, port: str | None) -> None:
    """Print a link that signs in to the page of the running server, once, within 10 minutes.

    Like the link that `headway serve` prints, it opens a session of the local tenant. Run this with the same home as the server.
    """
    settings = invocation.settings(port=port)
    if port is None:
        settings = replace_port(settings, find_port(settings) or settings.port)
    connect(settings).close()
    with invocation.open_ledger() as ledger:
        link = ledger.write(tokens.create_login_link)
    check_is_known(settings, link.secret)
    url = f"{settings.url}/login?token={link.secret}"
    invocation.answer({"login_url": url, "expires_at": link.token.expires_at // 1000}, lambda: click.echo(url))


def connect(settings: Settings) -> HTTPConnection:
    """Connect to the server's address, or raise NoServer: a link to it would lead nowhere."""
    address = build_local_url(settings.host, settings.port)
    host = address.removeprefix("http://").rpartition(":")[0].strip("[]")
    connection = HTTPConnection(host, settings.port, timeout=CONNECT_TIMEOUT_S)
    try:
        connection.connect()
    except OSError:
        raise NoServer(
            f"No server answers at {address}. Start `headway serve`, which prints a link itself, or name its --port."
        ) from None
    return connection


def check_is_known(settings: Settings, secret: str) -> None:
    """Raise NoServer if the server does not know the link, because it has another home or database. Only a digest is sent to it."""
    with closing(connect(settings)) as connection:
        try:
            connection.request("GET", f"/login?digest={tokens.hash_secret(secret)}")
            is_known = connection.getresponse().status == NO_CONTENT
        except (OSError, HTTPException):
            is_known = False
    if not is_known:
        address = build_local_url(settings.host, settings.port)
        raise NoServer(
            f"The server at {address} does not use this home and database, so a link would not work there. Start `headway serve`, "
            "or run this command with the server's --home."
        )
