"""User-defined roles: one TOML file per role, which adds a role or overrides a built-in one."""

import os
import re
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from headway.agents.instructions.roles import BUILT_IN_ROLES, FAMILIES, INDEX, SUPERVISOR, Role, WritGrant, build_worker
from headway.agents.tools.arguments import Arguments, NonEmptyText, describe_validation_error
from headway.agents.tools.toolbox import match_name
from headway.ledger import text
from headway.ledger.errors import Invalid, SettingsError
from headway.ledger.tiers import Tier

FILE_LIMIT: Final = 1_000_000  # bytes
MCP_NAME: Final = re.compile(r"mcp:[A-Za-z0-9_-]{1,32}|[A-Za-z0-9_-]{1,32}__[A-Za-z0-9_-]{1,62}")  # a server may be down now


class RoleFile(Arguments):
    """The fields of a role file. Omitted fields keep the built-in role's value."""

    name: NonEmptyText | None = None
    description: str | None = None
    prompt: str | None = None
    tier: Tier | None = None
    tools: list[str] | None = None
    writs: list[WritGrant] | None = None
    steps: Annotated[int, Field(ge=1, le=1_000)] | None = None
    repository: NonEmptyText | None = None
    network: bool | None = None


def load(folder: str | Path, tools: Collection[str]) -> tuple[Role, ...]:
    """Load the roles from a folder's TOML files; none if the folder does not exist. `tools` are the names of all known tools."""
    roles: dict[str, Role] = {}
    for path in sorted(Path(folder).glob("*.toml")):
        try:
            role = build_role(read_role_file(path), path.stem, tools)
        except Invalid as error:
            raise SettingsError(f"{path}: {error}") from None
        if role.name in roles:
            raise SettingsError(f"{path}: another file already defines the role {role.name}.")
        roles[role.name] = role
    return tuple(roles.values())


def read_role_file(path: Path) -> RoleFile:
    try:
        if path.stat().st_size > FILE_LIMIT:
            raise Invalid(f"The file is larger than {FILE_LIMIT:,} bytes.")
        document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Invalid(f"The file cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise Invalid("The file is not UTF-8 text.") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Invalid(f"The file is not valid TOML: {text.to_one_line(str(error))[:200]}") from None
    if unknown := sorted(set(document) - set(RoleFile.model_fields)):
        raise Invalid(f"Unknown key {text.to_one_line(unknown[0])[:80]!r}. Known: {', '.join(RoleFile.model_fields)}.")
    try:
        return RoleFile.model_validate(document)
    except ValidationError as error:
        raise Invalid(describe_validation_error(error).removeprefix("Invalid arguments: ")) from None


def build_role(file: RoleFile, stem: str, tools: Collection[str]) -> Role:
    name = text.check_name(file.name or stem, "name")
    name = INDEX if name == SUPERVISOR else name
    role = next((built_in for built_in in BUILT_IN_ROLES if built_in.name == name), build_worker(name, "", ""))
    if file.tools is not None:
        # The schemas of tools that a file chooses are always sent.
        role = role._replace(tools=frozenset(check_tool_name(tool, tools) for tool in file.tools), on_demand=frozenset())
    if file.writs is not None:
        role = role._replace(writs=frozenset(file.writs))
    return role._replace(
        description=role.description if file.description is None else text.check_text(file.description, "description"),
        prompt=role.prompt if file.prompt is None else text.check_text(file.prompt, "prompt"),
        tier=file.tier or role.tier,
        steps=file.steps or role.steps,
        repository=os.path.normpath(os.path.expanduser(file.repository)) if file.repository else "",
        network=role.network if file.network is None else file.network,
    )


def check_tool_name(name: str, tools: Collection[str]) -> str:
    name = match_name(name, tools)
    if name not in FAMILIES and name not in tools and not MCP_NAME.fullmatch(name):
        allowed = f"the families {', '.join(FAMILIES)}, and the tools {', '.join(sorted(tools))}"
        raise Invalid(f"tools: unknown name {text.to_one_line(name)[:80]!r}. Known: {allowed}.")
    return name
