"""Groups of commands whose modules are imported when they are called."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from headway.surfaces.cli.context import CommandGroup

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyCommand(NamedTuple):
    """Where a command is, as MODULE:NAME below `commands`, and what the list of commands says about it."""

    target: str
    summary: str


def load_command(target: str) -> click.Command:
    module, name = target.split(":")
    command: click.Command = getattr(import_module(f"headway.surfaces.cli.commands.{module}"), name)
    return command


class LazyGroup(CommandGroup):
    """A group whose help needs no module of its commands. `sections` has the commands below the headings of the help, and
    `hidden_entries` those that help does not show."""

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Mapping[str, LazyCommand]],
        hidden_entries: Mapping[str, LazyCommand] = MappingProxyType({}),
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.sections = sections
        self.entries = {name: entry for section in sections.values() for name, entry in section.items()}
        self.hidden_entries = hidden_entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name) or self.hidden_entries.get(cmd_name)
        return load_command(entry.target) if entry else None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands before the options, which all commands share."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.entries))
        for title, section in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", entry.summary) for name, entry in section.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Complete command names without importing the commands while the user waits."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only needed for completion

        names = [CompletionItem(name, help=entry.summary) for name, entry in self.entries.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


class SplitGroup(CommandGroup):
    """A group whose commands are in several modules, of which a command needs only its own, and help all. `targets` says where each
    command is, as MODULE:NAME."""

    def __init__(self, *args: Any, targets: Mapping[str, str], **options: Any) -> None:
        super().__init__(*args, **options)
        self.targets = targets

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.targets)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = self.targets.get(cmd_name)
        return load_command(target) if target else None
