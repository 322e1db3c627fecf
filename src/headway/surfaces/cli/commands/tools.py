"""`headway tool`: the tools that agents may call, and calls of single ones to try them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headway.ledger.scope import Scope
from headway.ledger.text import to_lines
from headway.surfaces.cli.arguments import parse_json_object
from headway.surfaces.cli.context import SENDER, CommandGroup, Invocation, pass_invocation
from headway.surfaces.cli.tables import print_table
from headway.surfaces.log_lines import configure_plain_logging

if TYPE_CHECKING:
    from headway.agents.tools.toolbox import Result, Tool
    from headway.process.assembly import Headway

T = TypeVar("T")

HEADINGS = ("name", "family", "approval", "description")


@click.group(
    "tool", cls=CommandGroup, examples=("headway tool list", 'headway tool call calculate --args \'{"expression": "8*45"}\'')
)
def tools() -> None:
    """List the tools of agents, and call one."""


@tools.command("list")
@click.option("--server", metavar="NAME", help="Only the tools of this MCP server.")
@click.option("--all", "show_all", is_flag=True, help="Include the compatible tools, which have the names that other agents use.")
@pass_invocation
def list_tools(invocation: Invocation, server: str | None, *, show_all: bool) -> None:
    """List the tools of agents. The MCP servers of mcp.json are started, to list their tools."""

    async def collect(headway: "Headway") -> "list[Tool]":
        await prepare_tools(headway, server)
        return [tool for tool in headway.toolbox.tools.values() if server in (None, tool.server)]

    found = run_headway(invocation, collect)
    listed = [tool for tool in found if show_all or not is_compatible(tool)]
    rows = [{**tool.as_json(), "family": tool.family, "asks": tool.needs_approval} for tool in listed]

    def draw() -> None:
        print_table(HEADINGS, map(build_row, listed), "no tools")
        if left_out := len(found) - len(listed):
            click.echo(f"{left_out} more tools repeat others under other names, or are for schedules: add --all", err=True)

    invocation.answer({"tools": rows}, draw)


def is_compatible(tool: "Tool") -> bool:
    """Whether a tool does what others do, in the words of other people's agents and prompts."""
    from headway.agents.instructions.roles import COMPATIBLE_FAMILIES  # noqa: PLC0415  loads the agent libraries

    return tool.is_hidden or tool.family in COMPATIBLE_FAMILIES


@tools.command("call")
@click.argument("name")
@click.option("--args", "arguments", metavar="JSON", default="{}", help="The arguments, as one JSON object.")
@pass_invocation
def call_tool(invocation: Invocation, name: str, arguments: str) -> None:
    """Call a tool yourself and print its result. It needs no approval, but a call that the policy denies is refused."""
    values = parse_json_object(arguments)
    with invocation.open_ledger() as ledger:
        scope = ledger.scope

    async def call(headway: "Headway") -> "Result":
        await prepare_tools_for(headway, name)
        return await call_as_person(headway, scope, name, values)

    result = run_headway(invocation, call)
    invocation.answer(result.as_json(), lambda: click.echo("\n".join(to_lines(result.as_text))))
    if result.is_error:
        raise click.exceptions.Exit(1)


async def call_as_person(headway: "Headway", scope: Scope, name: str, arguments: dict[str, Any]) -> "Result":
    """Call a tool outside any run. The person has approved the call by making it, so only what the policy denies is refused."""
    from headway.agents.checks.completion import Prover  # noqa: PLC0415  loads the agent libraries, which `--help` does not need
    from headway.agents.checks.runner import PERSONAL_JUDGEMENT  # noqa: PLC0415
    from headway.agents.permission import find_denial  # noqa: PLC0415
    from headway.agents.tools.execution import resolve_scope, use_execution  # noqa: PLC0415
    from headway.agents.tools.external_calls import call_in_context  # noqa: PLC0415
    from headway.agents.tools.external_loop import call_with_proof  # noqa: PLC0415
    from headway.agents.tools.toolbox import to_result  # noqa: PLC0415

    tool = headway.toolbox.find(name)
    resolved_scope = await headway.database.of(scope.tenant_id).read(lambda tx: resolve_scope(tx, scope))
    execution = headway.execution(resolved_scope, headway.roles.find("index"))
    denial = await execution.database.read(lambda tx: find_denial(tx, tool, arguments, execution))
    if denial:
        return to_result(tool.refuse(denial))
    if tool.changes_ledger:
        prover = Prover(headway.checks, execution, SENDER, PERSONAL_JUDGEMENT, is_operator=True)
        return await call_with_proof(prover, tool, arguments)
    with use_execution(execution):
        return await call_in_context(headway.toolbox, name, arguments)


async def prepare_tools(headway: "Headway", server: str | None = None) -> None:
    """Start the MCP servers, or only one, and wait as long as their start may take."""
    await headway.prepare_tools(headway.roles.find("index"), None, server)


async def prepare_tools_for(headway: "Headway", tool: str) -> None:
    """Start the MCP server that the name of a tool begins with, if it does."""
    server, separator, _ = tool.partition("__")
    await prepare_tools(headway, server if separator else "")


def run_headway(invocation: Invocation, work: "Callable[[Headway], Awaitable[T]]") -> T:
    """Run a function with a Headway that starts no agents."""
    from headway.process.assembly import Headway  # noqa: PLC0415  loads the agent libraries, which `--help` does not need

    settings = invocation.settings()
    configure_plain_logging(settings)

    async def run() -> T:
        headway = Headway(settings)
        try:
            return await work(headway)
        finally:
            await headway.stop_tools()
            headway.close()

    return asyncio.run(run())


def build_row(tool: "Tool") -> Sequence[str]:
    return tool.name, tool.family, "asks" if tool.needs_approval else "", tool.description
