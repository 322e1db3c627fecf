"""Parts that every command shares: global flags, access to the database, and output as JSON or for people."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import click

from headway import settings
from headway.actions.access import local_tenant
from headway.actions.todos import finding
from headway.ledger import text
from headway.ledger.errors import (
    BadDocument,
    Conflict,
    Halted,
    HeadwayError,
    Invalid,
    NotFound,
    SettingsError,
    UntrustedFolder,
    WrongCell,
)
from headway.ledger.scope import Scope
from headway.ledger.tenancy import LOCAL_TENANT, Tenant
from headway.ledger.text import MAX_INTEGER
from headway.settings import Settings
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Transaction, Work, within_tenant

T = TypeVar("T")

INPUT_LIMIT = 256 * 1024 * 1024

CONFLICT_EXIT_CODE = 4

# The first class that matches decides. Every other error exits with 1.
EXIT_CODES: tuple[tuple[type[HeadwayError], int], ...] = (
    (Invalid, 2),
    (SettingsError, 2),
    (NotFound, 3),
    (Conflict, CONFLICT_EXIT_CODE),
    (Halted, 5),
)


SENDER = "cli"  # of messages, decisions and answers from the command line
UNFINISHED_EXIT_CODE = 6  # a turn ended without completing its work
WAITING_EXIT_CODE = 7  # a turn waits for a person, and there is no terminal to ask on


def get_exit_code(error: HeadwayError) -> int:
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), 1)


class Invocation:
    """The shared flags of one invocation, whether they came before or after the subcommand."""

    as_json = False
    tenant: str | None = None
    conversation: str | None = None
    home: str | None = None
    database_url: str | None = None
    loaded_settings: Settings | None = None
    cell = ""  # the other cell that has the tenant; empty: the database of the settings has it

    def settings(self, **flags: str | None) -> Settings:
        """Load the settings once, so that a problem in a settings file is reported once. `flags` belong to one command."""
        if self.loaded_settings is None:
            try:
                self.loaded_settings = self.load_settings(**flags)
            except UntrustedFolder:
                from headway.surfaces.cli.trust_question import ask_to_trust  # noqa: PLC0415  most folders are trusted

                ask_to_trust()
                self.loaded_settings = self.load_settings(**flags)
        return self.loaded_settings

    def load_settings(self, **flags: str | None) -> Settings:
        """Load the settings without a question. Raises UntrustedFolder."""
        return settings.load({"home": self.home, "database_url": self.database_url, **flags})

    def database(self) -> DirectDatabase:
        """Open a database without threads. A command is short-lived and should not wait for threads at exit."""
        settings = self.settings()
        return DirectDatabase(settings.database_url, quotas=settings.quotas, direct_url=settings.database_direct_url)

    @contextmanager
    def open_tenant(self, name: str | None) -> Iterator[tuple[DirectDatabase, Tenant]]:
        """Open the database that has a tenant, or the local tenant. If it is that of another cell, `settings` returns the settings
        for that cell from then on."""
        if name is not None and name != LOCAL_TENANT:
            with self.open_named_tenant(name) as found:
                yield found
            return
        with self.database() as database:
            yield database, get_local_tenant(database)

    @contextmanager
    def open_named_tenant(self, name: str) -> Iterator[tuple[DirectDatabase, Tenant]]:
        """The same for a tenant that must exist."""
        from headway.actions.installation import tenants  # noqa: PLC0415  most commands use the local tenant

        with ExitStack() as stack:
            database, find = stack.enter_context(self.database()), partial(tenants.get_by_name, name=name)
            try:
                tenant = database.read(find)
            except (NotFound, WrongCell) as error:
                database = stack.enter_context(self.open_other_cell(name, error))
                tenant = database.read(find)
            yield database, tenant

    def open_other_cell(self, tenant: str, error: NotFound | WrongCell) -> DirectDatabase:
        """Open the database of the cell that has the tenant, or raise the error if the directory does not know it."""
        from headway.cells.directory import find_elsewhere, open_cell  # noqa: PLC0415  only if the tenant is not here

        cell, self.loaded_settings = find_elsewhere(self.settings(), tenant, error)
        self.cell = cell.name
        return open_cell(cell, self.loaded_settings)

    @contextmanager
    def open_ledger(self) -> Iterator["TenantDatabase"]:
        with self.open_tenant(self.tenant) as (database, tenant):
            conversation_id = 0
            if self.conversation is not None:
                conversation_id = database.read(lambda tx: finding.resolve(tx, tenant.id, self.conversation or "")).id
            yield TenantDatabase(database, Scope(tenant.id, conversation_id), limited=self.conversation is not None)

    def answer(self, document: dict[str, Any], draw: Callable[[], None]) -> None:
        """Print the document as JSON with --json; otherwise call `draw` to print it for people."""
        if self.as_json:
            click.echo(text.format_json(document))
        else:
            draw()


def get_local_tenant(database: DirectDatabase) -> Tenant:
    return database.read(local_tenant.find_local) or database.write(local_tenant.ensure_local)


def act_as_sender(work: Work[T]) -> Work[T]:
    """Name the command line as the author of what the work changes."""

    def act(tx: Transaction) -> T:
        tx.actor, tx.credential = SENDER, find_user_name()
        return work(tx)

    return act


@cache
def find_user_name() -> str:
    """Return the operating system's name for the user who runs the command."""
    import pwd  # noqa: PLC0415  only commands that change something need it

    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # as in containers that run under a number
        return f"uid {uid}"


class TenantDatabase:
    """A database together with the scope that the flags chose."""

    def __init__(self, database: DirectDatabase, scope: Scope, *, limited: bool) -> None:
        self.database = database
        self.scope = scope
        self.conversation_id = scope.conversation_id if limited else None  # None for all lists of the tenant

    def write(self, action: Callable[..., T], *args: Any, **options: Any) -> T:
        work = act_as_sender(lambda tx: action(tx, self.scope.tenant_id, *args, **options))
        return self.database.write(within_tenant(self.scope.tenant_id, work))

    def read(self, view: Callable[..., T], *args: Any, **options: Any) -> T:
        return self.database.read(within_tenant(self.scope.tenant_id, lambda tx: view(tx, self.scope.tenant_id, *args, **options)))


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)


class Option(click.Option):
    """An option whose help is one line. Click would load `inspect` to remove the indentation of several."""

    def __init__(self, *args: Any, help: str, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.help = help


option = partial(click.option, cls=Option)


def store_flag(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Store a shared flag in the Invocation, so that it works before or after the subcommand."""
    if value is not None and value is not False and parameter.name:
        setattr(context.ensure_object(Invocation), parameter.name, value)


class UnusedFlags(NamedTuple):
    """Shared flags that have no effect on a command. They are rejected: a caller who gives one expects it to do something."""

    flags: tuple[str, ...] = ()
    reason: str = ""

    def hide_in_help(self, command: click.Command) -> None:
        """Omit these flags from the command's help."""
        for flag in command.params:
            if isinstance(flag, click.Option) and flag.name in self.flags:
                flag.hidden = True

    def check(self, context: click.Context) -> None:
        call = context.ensure_object(Invocation)
        for name in self.flags:
            if getattr(call, name) is not None:
                _program, _, command = context.command_path.partition(" ")
                raise click.UsageError(f"{command} {self.reason}; omit --{name.replace('_', '-')}.", context)


NO_UNUSED_FLAGS = UnusedFlags()
NO_ALIASES: Mapping[str, str] = MappingProxyType({})
TENANT_WIDE = UnusedFlags(("conversation",), "applies to all conversations of a tenant")
INSTALLATION_WIDE = UnusedFlags(("tenant", "conversation"), "applies to the whole installation")


def build_shared_flags() -> list[click.Parameter]:
    def flag(*names: str, **options: Any) -> click.Option:
        return Option(names, expose_value=False, callback=store_flag, **options)

    return [
        flag("--json", "as_json", is_flag=True, help="Print one JSON document to standard output."),
        flag("--tenant", metavar="NAME", help="The tenant to act for (default: the local tenant)."),
        flag("--conversation", metavar="ID|KEY", help="The conversation to use (default: none)."),
        flag("--home", metavar="DIR", help="Where Headway keeps its files (default: .headway)."),
        flag("--database-url", metavar="URL", help="The database: sqlite:///PATH or postgresql://…"),
        Option(
            ["-h", "--help"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=show_help,
            help="Show this message and exit.",
        ),
    ]


def show_help(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001  as click calls it
    """Print the help. Click's own option looks for translations, of which there are none, on every start."""
    if value and not context.resilient_parsing:
        click.echo(context.get_help())
        context.exit()


class Command(click.Command):
    def __init__(self, *args: Any, unused: UnusedFlags = NO_UNUSED_FLAGS, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params += build_shared_flags()
        self.refuse(unused)

    def refuse(self, unused: UnusedFlags) -> None:
        self.unused = unused
        unused.hide_in_help(self)

    def invoke(self, ctx: click.Context) -> Any:
        self.unused.check(ctx)
        return super().invoke(ctx)


class CommandGroup(click.Group):
    """A group whose commands also accept the shared flags.

    `aliases` are other names of its commands, each with the words that it stands for. Help does not show them. `examples` are
    command lines at the end of its help.
    """

    command_class = Command

    def __init__(
        self,
        *args: Any,
        unused: UnusedFlags = NO_UNUSED_FLAGS,
        aliases: Mapping[str, str] = NO_ALIASES,
        examples: Sequence[str] = (),
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.params += build_shared_flags()
        self.unused = unused
        self.aliases = aliases
        self.examples = examples
        unused.hide_in_help(self)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order of their definition, the most common first."""
        return list(self.commands)

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        super().add_command(cmd, name)
        if isinstance(cmd, Command):
            cmd.refuse(self.unused)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name, *rest = args
        if name in self.aliases:
            return super().resolve_command(ctx, [*self.aliases[name].split(), *rest])
        if name.startswith("-") or ctx.resilient_parsing or self.get_command(ctx, name):
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"No such command {name!r}.{self.suggest_command(ctx, name)}", ctx)

    def suggest_command(self, ctx: click.Context, name: str) -> str:
        from difflib import get_close_matches  # noqa: PLC0415  only for a mistake

        known = self.list_commands(ctx)
        similar = get_close_matches(name, known, n=2)
        commands = " or ".join(f"`{ctx.command_path} {command}`" for command in known if command in similar)
        return f" Did you mean {commands}?" if commands else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, each with the first sentence of its help, however long."""
        commands = (self.get_command(ctx, name) for name in self.list_commands(ctx))
        shown = [command for command in commands if command and not command.hidden]
        with formatter.section("Commands"):
            formatter.write_dl([(command.name or "", command.get_short_help_str(MAX_INTEGER)) for command in shown])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
                for example in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")
        super().format_epilog(ctx, formatter)


def require_confirmation(question: str, *, yes: bool) -> None:
    """Ask before data is lost, if standard input is a terminal. The question goes to standard error, apart from the output."""
    if yes or sys.stdin is None or not sys.stdin.isatty():
        return
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)  # the cursor is still on the line of the question
        raise
    if not agreed:
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(1)


def read_standard_input() -> str:
    """Read all of standard input as UTF-8 text."""
    raw = sys.stdin.buffer.read(INPUT_LIMIT + 1) if sys.stdin is not None else b""
    return decode_text(raw, "standard input")


def decode_text(raw: bytes, source: str) -> str:
    if len(raw) > INPUT_LIMIT:
        raise BadDocument(f"{source} is larger than {INPUT_LIMIT // 2**20} MiB.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadDocument(f"{source} is not UTF-8 text.") from None
