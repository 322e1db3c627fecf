"""Permission: the policy, which decides what tool calls need approval."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, NamedTuple, get_args

from headway.ledger.errors import SettingsError

Decision = Literal["allow", "ask", "deny"]

DECISIONS: Final[tuple[Decision, ...]] = get_args(Decision)
FILE_NAME: Final = "policy.toml"
GLOBS: Final = ("tool", "role", "server", "tenant")
QUOTE_LIMIT: Final = 60


class PolicyCall(NamedTuple):
    """The facts of a call that the policy knows.

    Each argument has one or more spellings: a path is matched as written, and as the file that it leads to.
    """

    tool: str
    role: str
    tenant: str = ""
    server: str = ""
    arguments: Mapping[str, Sequence[str]] = {}


class Rule(NamedTuple):
    decision: Decision
    tool: str = "*"
    role: str = "*"
    server: str = "*"
    tenant: str = "*"
    arguments: tuple[tuple[str, str], ...] = ()  # names and globs
    line: int = 0  # of policy.toml; 0 for a rule that is not in a file
    approval: int = 0  # the approval with which a person allowed such calls always; 0: the rule was written by hand

    def concerns(self, call: PolicyCall) -> bool:
        """Whether the rule could match the call, whatever its arguments are."""
        return all(fnmatchcase(getattr(call, name), getattr(self, name)) for name in GLOBS)

    def matches(self, call: PolicyCall) -> bool:
        """Whether the rule applies. To allow a call, every spelling of an argument must match; otherwise one is enough."""
        enough = all if self.decision == "allow" else any
        return self.concerns(call) and all(
            name in call.arguments and enough(fnmatchcase(spelling, glob) for spelling in call.arguments[name])
            for name, glob in self.arguments
        )

    def show_to(self, tenant: str) -> "Rule":
        """Return what a tenant may see of the rule: not the operator's patterns, which may name files and other tenants."""
        if self.approval:  # people of the tenant have added it
            return self
        return self._replace(tenant=tenant, arguments=tuple((name, "…") for name, _ in self.arguments))

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "arguments": dict(self.arguments)}


class Ruling(NamedTuple):
    decision: Decision
    why: str


class Policy(NamedTuple):
    rules: tuple[Rule, ...] = ()

    def find(self, call: PolicyCall) -> Rule | None:
        """Return the first rule that matches."""
        return next((rule for rule in self.rules if rule.matches(call)), None)

    def list_for_tenant(self, tenant: str) -> list[Rule]:
        return [rule for rule in self.rules if fnmatchcase(tenant, rule.tenant)]

    def concerns(self, call: PolicyCall) -> bool:
        """Whether a rule could match the call, whatever its arguments and its tenant are."""
        return any(rule._replace(tenant="*").concerns(call) for rule in self.rules)

    def decide(self, call: PolicyCall, *, asks_by_default: bool) -> Ruling:
        rule = self.find(call)
        if rule is not None:
            return Ruling(rule.decision, f"{FILE_NAME}, line {rule.line}")
        return Ruling("ask", f"{call.tool} needs approval unless {FILE_NAME} allows it") if asks_by_default else ALLOW_RULING


ALLOW_RULING: Final = Ruling("allow", "")


def build_rule(document: Any, where: str, line: int) -> Rule:
    """Check one [[rule]] of policy.toml, or raise SettingsError with what to write instead."""
    if not isinstance(document, dict):
        raise SettingsError(f"{where}: write each rule as a table [[rule]].")
    if unknown := sorted(document.keys() - {*GLOBS, "arguments", "decision"}):
        fields = ", ".join((*GLOBS, "arguments", "decision"))
        raise SettingsError(f"{where}: a rule cannot have {unknown[0][:QUOTE_LIMIT]!r}. It can have {fields}.")
    if document.get("decision") not in DECISIONS:
        given = f", not {document['decision']!r:.{QUOTE_LIMIT}}" if "decision" in document else ""
        raise SettingsError(f"{where}: decision must be {', '.join(DECISIONS[:-1])} or {DECISIONS[-1]}{given}.")
    arguments = document.get("arguments", {})
    if not isinstance(arguments, dict) or not all(isinstance(glob, str) for glob in arguments.values()):
        raise SettingsError(f'{where}: arguments must be a table of patterns, such as {{path = "secrets/*"}}.')
    globs = {name: document[name] for name in GLOBS if name in document}
    if wrong := [name for name, glob in globs.items() if not isinstance(glob, str) or not glob]:
        raise SettingsError(f'{where}: {wrong[0]} must be a pattern in quotes, such as "write_*".')
    if "tool" not in globs and "server" not in globs:
        raise SettingsError(f'{where}: name the tools that the rule is for, such as tool = "write_file", or tool = "*" for all.')
    return Rule(document["decision"], **globs, arguments=tuple(arguments.items()), line=line)
