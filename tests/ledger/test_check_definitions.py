"""Checks that could never pass are refused when they are written, with a sentence that names the field."""

from typing import Any

import pytest

from headway.agents.instructions.roles import Roles
from headway.autonomy.planner import FirstPlanForm, check_plan
from headway.ledger.errors import Invalid
from headway.ledger.parsing.checks import write_checks
from tests.tables import each_row


def outcome(**schema: Any) -> dict[str, Any]:
    return {"kind": "outcome", "schema": schema}


def file(**fields: Any) -> dict[str, Any]:
    return {"kind": "file", "path": "a.md", **fields}


REFUSED: list[tuple[dict[str, Any], str]] = [
    (file(path="../../etc/passwd"), "checks[0].path leads outside the workspace."),
    (file(path="/etc/passwd"), "checks[0].path must be relative to the workspace, without a leading slash."),
    (file(path="."), "checks[0].path must name a file."),
    (file(path="a" * 1_001), "checks[0].path has 1,001 characters; at most 1,000 are allowed."),
    (file(exists=False, contains="x"), "checks[0]: a file that must not exist cannot have contains."),
    (file(schema={"required": "a"}), "checks[0].schema.required must be a list of different names."),
    (file(sha256="abc"), "checks[0].sha256 must be a SHA-256 hash: 64 hexadecimal digits."),
    ({"kind": "command", "run": "echo 'x"}, "checks[0].run has a quotation mark without its pair."),
    ({"kind": "command", "run": "make", "exit": 256}, "checks[0].exit must be a whole number from 0 to 255."),
    ({"kind": "http", "url": "ftp://x"}, "checks[0].url must begin with http:// or https://, and name a host."),
    ({"kind": "http", "url": "http://ann:secret@x"}, "checks[0].url must not contain a user name or a password."),
    ({"kind": "http", "url": "http://x:port"}, "checks[0].url is not a web address."),
    (
        {"kind": "http", "url": "http://x", "json": {"items..name": 1}},
        "checks[0].json: each path is made of names and numbers with dots between them, such as items.0.name.",
    ),
    ({"kind": "tool", "name": "verify_todos"}, "checks[0].name: verify_todos runs checks, so it cannot be one."),
    (
        outcome(type=7),
        "checks[0].schema.type must be one of array, boolean, integer, null, number, object, string, or a list of different ones.",
    ),
    (outcome(minLength=-1), "checks[0].schema.minLength must be a whole number from 0."),
    (outcome(minimum="3"), "checks[0].schema.minimum must be a number."),
    (outcome(multipleOf=0), "checks[0].schema.multipleOf must be larger than 0."),
    (outcome(minimum=3, maximum=2), "checks[0].schema.minimum is larger than maximum, so no value fits."),
    (outcome(enum=[]), "checks[0].schema.enum must be a list with at least one value."),
    (outcome(anyOf=[{"items": 3}]), "checks[0].schema.anyOf[0].items must be a JSON Schema: an object, true or false."),
    (outcome(properties={"a": {"title": 1}}), "checks[0].schema.properties.a.title must be text."),
    (outcome(properties=[]), "checks[0].schema.properties must be an object."),
    (outcome(deprecated="yes"), "checks[0].schema.deprecated must be true or false."),
    (outcome(**{"$ref": "http://localhost/schema"}), "checks[0].schema uses $ref, which checks do not support."),
]


@each_row("check, sentence", REFUSED)
def test_a_check_that_makes_no_sense_is_refused(check: dict[str, Any], sentence: str) -> None:
    for author in ("agent", "person", "admin"):
        with pytest.raises(Invalid) as refusal:
            write_checks([check], author)
        assert str(refusal.value) == sentence


def test_a_pattern_and_a_depth_that_cannot_be_compiled_are_refused() -> None:
    with pytest.raises(Invalid, match=r"^checks\[0\]\.schema\.pattern: pattern is not valid: missing \)"):
        write_checks([outcome(pattern="(")], "agent")
    deep: Any = True
    for _ in range(2_000):
        deep = {"not": deep}
    with pytest.raises(Invalid, match=r"nested too deeply|keywords and values"):
        write_checks([outcome(**deep)], "agent")


@each_row(
    "check",
    [
        outcome(type=["string", "null"], minLength=2.0, pattern=r"^\pL+$", format="email", nullable=True),
        outcome(properties={"type": {"const": 7}, "minLength": {"enum": [-1]}}, required=["type"], additionalProperties=False),
        outcome(prefixItems=[True], items=False, minItems=1, maxItems=1, default={"type": 7}),
        {"kind": "outcome", "schema": True},
        file(path="./reports//a.md", exists=True, contains="x"),
        file(exists=False),
        {"kind": "http", "url": "https://example.com:8443/a?b=c", "json": {"$.items.0.name": None}},
    ],
)
def test_a_check_that_can_pass_is_stored(check: dict[str, Any]) -> None:
    assert write_checks([check], "person")


def test_only_a_shell_reads_the_operators_command() -> None:
    assert write_checks([{"kind": "command", "run": "cat <<X\nit's\nX"}], "operator")


def test_a_plan_with_such_a_check_is_sent_back_to_the_planner() -> None:
    form = FirstPlanForm.model_validate({"sub_goals": [{"description": "Write it.", "checks": [outcome(type=7)]}]})
    with pytest.raises(Invalid, match=r"^checks\[0\]\.schema\.type must be one of"):
        check_plan(form, (), Roles())
