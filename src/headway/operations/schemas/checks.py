"""Schemas of checks and receipts."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Discriminator, Field
from typing_extensions import TypeAliasType

from headway.ledger.check import CHECKS_LIMIT, DEFINITION_LIMIT, TIMEOUT_LIMIT_S, Author
from headway.ledger.check import Check as LedgerCheck
from headway.ledger.text import SUBJECT_PATTERN
from headway.operations.schemas.strict_model import StrictModel, to_whole_number

CheckText = Annotated[str, Field(min_length=1, max_length=DEFINITION_LIMIT, json_schema_extra={"pattern": SUBJECT_PATTERN})]
ExitCode = Annotated[int, Field(ge=0, le=255), BeforeValidator(to_whole_number)]
TimeoutSeconds = Annotated[int, Field(ge=1, le=TIMEOUT_LIMIT_S), BeforeValidator(to_whole_number)]
HttpStatus = Annotated[int, Field(ge=100, le=599), BeforeValidator(to_whole_number)]
Folder = Annotated[
    CheckText, Field(description="An absolute path, instead of the workspace. Only the operator's checks can have it")
]


class NewCheck(StrictModel):
    """What every kind of check has. A check that an answer contains can be sent back as it is."""

    by: Annotated[Author | None, Field(description="Who wrote it. Ignored in requests: the caller is the author")] = None


class NamedCheck(NewCheck):
    name: CheckText | None = None


class CommandCheck(NamedCheck):
    kind: Literal["command"]
    run: CheckText
    exit: Annotated[ExitCode | None, Field(description="The expected exit code; omitted: 0")] = None
    expect: Annotated[CheckText | None, Field(description="Text that the output must contain")] = None
    timeout_s: TimeoutSeconds | None = None
    folder: Folder | None = None


class FileCheck(NamedCheck):
    kind: Literal["file"]
    path: Annotated[CheckText, Field(description="Relative to the workspace")]
    exists: bool | None = None
    contains: CheckText | None = None
    sha256: Annotated[str | None, Field(json_schema_extra={"pattern": "^[0-9a-fA-F]{64}$"})] = None
    schema_: Annotated[dict[str, Any] | bool | None, Field(alias="schema", description="A JSON Schema")] = None
    folder: Folder | None = None


class HttpCheck(NamedCheck):
    kind: Literal["http"]
    url: CheckText
    status: Annotated[HttpStatus | None, Field(description="Omitted: 200")] = None
    json_: Annotated[
        dict[str, Any] | None, Field(alias="json", description="Expected values by path, such as {'items.0.name': 'x'}")
    ] = None


class OutcomeCheck(NamedCheck):
    kind: Literal["outcome"]
    schema_: Annotated[dict[str, Any] | bool, Field(alias="schema", description="A JSON Schema for the outcome")]


class ToolCheck(NewCheck):
    kind: Literal["tool"]
    name: CheckText
    arguments: dict[str, Any] | None = None
    expect: Annotated[CheckText | None, Field(description="Text that the result must contain")] = None


class JudgeCheck(NamedCheck):
    kind: Literal["judge"]
    rubric: CheckText


AnyCheck = CommandCheck | FileCheck | HttpCheck | OutcomeCheck | ToolCheck | JudgeCheck
Check = TypeAliasType("Check", Annotated[AnyCheck, Discriminator("kind")])  # a schema with this name
NewChecks = Annotated[list[Check], Field(max_length=CHECKS_LIMIT)]


def list_checks(checks: list[Check]) -> list[LedgerCheck]:
    """Return the definitions as the ledger parses them."""
    return [check.model_dump(by_alias=True, exclude_unset=True) for check in checks]


# Answers


class CheckFailure(BaseModel):
    check: Annotated[str, Field(description="Its name, or its kind and what it looks at")]
    detail: str
