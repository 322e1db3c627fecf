"""Tenants: their names, rights, quotas and limits, and how long their rows are kept."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

from headway.ledger.errors import SettingsError

LOCAL_TENANT: Final = "local"
TASK_FOLDER: Final = ".agents/tasks"  # below the home folder; holds one file per conversation that has a task list
GIBIBYTE: Final = 2**30
UNITS: Final = {"M": 2**20, "G": GIBIBYTE, "T": 2**40}
NO_LIMIT: Final = 2**62
EXAMPLE: Final = "turns:200,storage:5G"
TurnStatus = Literal["running", "waiting", "finished", "failed", "canceled", "paused"]
PlanSource = Literal["agent", "request", "person"]  # who made a turn's plan; request: Headway, from the request
ConversationState = Literal["idle", "running", "waiting", "paused"]  # that of its unfinished turn; idle: it has none
TokenScope = Literal["read", "write", "admin", "operator"]
# Each includes the ones before it. `admin` is for a tenant's administrator, `operator` for those who run the installation: only
# tokens of the tenant `local` can have it.
TOKEN_SCOPES: Final[tuple[TokenScope, ...]] = ("read", "write", "admin", "operator")
TOKEN_PREFIX: Final = "hw_"  # noqa: S105  prefix of every token, so that leaked ones can be searched for
SECRET_LENGTH: Final = 43  # characters of the random part of a token
ISSUER_NAME: Final = r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?"
NO_SESSION: Final = 0
LINK_SESSION: Final = -1  # a session that the login link opened, so it has no token
LOGIN_LINK: Final = -2  # a login link: it opens a session once, and gives access to nothing else


class Tenant(NamedTuple):
    id: int
    name: str
    created_at: int

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "created_at": self.created_at // 1000}


def find_issuer(secret: str) -> str:
    """Return the name of the database that created a token: `eu1` for hw_eu1_…. Empty: the database had no name. It is a hint for
    proxies, and proves nothing."""
    prefix, separator, _ = secret[:-SECRET_LENGTH].rpartition("_")
    issuer = prefix.removeprefix(TOKEN_PREFIX)
    return issuer if separator and issuer != prefix and re.fullmatch(ISSUER_NAME, issuer) else ""


class Token(NamedTuple):
    """A bearer token as stored: only its hash is kept. The secret is shown once, at creation."""

    id: int
    tenant_id: int
    label: str
    scopes: str  # comma-separated
    created_at: int
    expires_at: int  # 0: never
    last_used_at: int  # also through its sessions
    revoked_at: int
    session_of: int  # the token with which a browser session was opened; it ends with that token
    replaced_by: int  # the token that a rotation created; 0: none

    @property
    def name(self) -> str:
        """The name under which its changes are recorded."""
        return self.label or f"token {self.id}"

    @property
    def scope(self) -> TokenScope:
        """The scope that includes all others of the token."""
        scopes = self.scopes.split(",")
        return next(scope for scope in reversed(TOKEN_SCOPES) if scope in scopes)

    @property
    def can_write(self) -> bool:
        return "write" in self.scopes.split(",")

    @property
    def operator(self) -> bool:
        """Whether it has the scope with which those who run the installation act over HTTP."""
        return "operator" in self.scopes.split(",")

    @property
    def is_session(self) -> bool:
        return self.session_of != NO_SESSION

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "tenant_id": self.tenant_id,
            "label": self.label,
            "scopes": self.scopes.split(","),
            "operator": self.operator,
            "session": self.is_session,
            "session_of": self.session_of if self.session_of > 0 else None,
            "created_at": self.created_at // 1000,
            "expires_at": self.expires_at // 1000,
            "last_used_at": self.last_used_at // 1000,
            "revoked_at": self.revoked_at // 1000,
            "replaced_by": self.replaced_by or None,
        }


class TokenFilter(NamedTuple):
    """Which tokens to list."""

    kind: Literal["token", "session", "all"] = "all"
    state: Literal["active", "all"] = "all"


class AuditEntry(NamedTuple):
    """A change of access, limits or rules: who made it, with the old and the new value as JSON."""

    seq: int
    tenant_id: int  # 0: the whole installation
    at: int
    who: str
    action: str
    target: str
    old: str
    new: str

    def as_json(self, tenant: str | None) -> dict[str, Any]:
        """Return the entry with the name of its tenant, or None for the installation."""
        return {
            "seq": self.seq,
            "at": self.at // 1000,
            "who": self.who,
            "tenant": tenant,
            "action": self.action,
            "target": self.target,
            "old": json.loads(self.old),
            "new": json.loads(self.new),
        }


class AuditFilter(NamedTuple):
    """Which entries of the audit log to read. Fields that are empty or 0 select nothing."""

    action: str = ""  # such as `token.revoke`, or only its noun: `token`
    since: int = 0  # in epoch milliseconds
    who: str = ""  # a part of it, in upper or lower case
    target: str = ""  # such as `token:12`, or only its noun: `token`
    until: int = 0  # in epoch milliseconds; entries at this time are left out

    @property
    def is_empty(self) -> bool:
        return not any(self)


class Quotas(NamedTuple):
    """Limits of what one tenant may use: turns, jobs, streams, storage and webhooks."""

    turns: int = 1_000  # turns that have not ended
    jobs: int = 256  # jobs that one process runs at once; more of them wait
    streams: int = 1_000  # open event streams of one process
    storage: int = 20 * GIBIBYTE  # bytes of stored text and files
    webhooks: int = 50

    @property
    def spelling(self) -> str:
        """The list that `parse_quotas` reads, with every quota."""
        return ",".join(f"{name}:{spell_amount(name, amount)}" for name, amount in self._asdict().items())


def spell_amount(name: str, amount: int) -> str:
    if amount == NO_LIMIT:
        return "none"
    unit, size = next(((unit, size) for unit, size in reversed(UNITS.items()) if amount % size == 0), ("M", UNITS["M"]))
    return f"{amount // size}{unit}" if name == "storage" else str(amount)


def parse_quotas(variable: str, spelling: str) -> Quotas:
    """Parse a list such as `turns:200,storage:5G`. A quota that it does not name keeps its default; `none` removes one."""
    quotas = Quotas()
    for item in filter(None, (item.strip() for item in spelling.split(","))):
        name, _, amount = item.partition(":")
        if name not in Quotas._fields:
            known = ", ".join(Quotas._fields)
            raise SettingsError(f"{variable} names an unknown quota {name[:40]!r}. Known quotas: {known}. Example: {EXAMPLE}.")
        quotas = quotas._replace(**{name: parse_amount(variable, name, amount)})
    return quotas


def parse_amount(variable: str, name: str, amount: str) -> int:
    if amount == "none":
        return NO_LIMIT
    unit = UNITS.get(amount[-1:], 0) if name == "storage" else 1
    digits = amount[:-1] if name == "storage" else amount
    if not (unit and digits.isascii() and digits.isdigit() and len(digits) <= 9 and int(digits) > 0):
        form = "a whole number with M, G or T" if name == "storage" else "a whole number from 1"
        raise SettingsError(f"{variable}: {name} must be {form}, or none, not {amount[:40]!r}. Example: {EXAMPLE}.")
    return int(digits) * unit


def format_size(number: int) -> str:
    return next((f"{number / unit:.1f} {name}iB" for name, unit in reversed(UNITS.items()) if number >= unit), f"{number:,} bytes")


class Conversation(NamedTuple):
    """A thread of messages. Headway assigns `uuid`, which names files; the caller may choose `key`."""

    id: int
    uuid: str
    key: str
    title: str
    created_at: int
    updated_at: int
    folder: str = ""  # where its agents work; empty: in the tenant's workspace
    client: str = ""  # the coding assistant whose session it is; empty: Headway's own agents answer in it
    client_session: str = ""  # the assistant's own id of the session
    state: ConversationState = "idle"

    @property
    def task_file(self) -> str:
        """Return the path of the task list, relative to the home folder. The file may not exist yet."""
        return f"{TASK_FOLDER}/{self.uuid}.json"

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "key": self.key,
            "title": self.title,
            "created_at": self.created_at // 1000,
            "updated_at": self.updated_at // 1000,
            "state": self.state,
            "task_file": self.task_file,
            "client": self.client or None,
            "client_session": self.client_session or None,
        }


class Turn(NamedTuple):
    """One user message and everything the agent does until it hands control back."""

    id: str
    conversation_id: int
    request: str = ""
    mode: str = "plan"
    status: TurnStatus = "running"
    outcome: str | None = None
    started_at: int = 0
    ended_at: int = 0
    waiting: int = 0  # approvals and questions that its agents wait for
    forked_from: str = ""  # the turn that it is a fork of
    fork_at: int = 0  # the number of steps that it has copied
    context: str = ""  # what the client tells the agent beside the message: instructions, and what the user sees
    client_tools: str = ""  # the client's own tools, in JSON; empty: it has none
    fingerprint: str = ""  # of the client's history up to the message, if it finds its conversation by that
    client_agent: str = ""  # the sub-agent of an assistant whose plan it is; empty: not a sub-agent's
    refusals: int = 0  # how often in a row an agent that Headway does not run was not allowed to stop
    progress: int = 0  # the items that had ended at the last of these refusals
    plan_source: PlanSource | None = None  # None without a plan. Stored with the plan

    @property
    def ended(self) -> bool:
        return self.ended_at != 0

    @property
    def duration_s(self) -> float:
        """How long the turn took; 0 until it has ended."""
        return round(max(0, self.ended_at - self.started_at) / 1000, 3)

    @property
    def shown_status(self) -> TurnStatus:
        """The status for people: a running turn that needs one of them is waiting. `waiting` itself is never stored."""
        return "waiting" if self.status == "running" and self.waiting else self.status


# How long rows are kept. Without the setting, nothing is deleted because of its age.


Group = Literal["events", "transcripts", "runs", "conversations", "goals", "files", "receipts", "audit"]
Retention = Mapping[Group, int]  # days by group; a group that is missing is kept

GROUPS: Final[tuple[Group, ...]] = get_args(Group)
MAX_DAYS: Final = 36_500
DAY_MS: Final = 86_400_000
RESTORE_DAYS: Final = 1  # how long a deleted conversation can be restored


def parse_retention(variable: str, value: str) -> Retention:
    """Parse a list such as `events:30d,transcripts:90d`."""
    retention: dict[Group, int] = {}
    for item in filter(None, (part.strip() for part in value.split(","))):
        name, _, age = item.partition(":")
        group = next((known for known in GROUPS if known == name.strip()), None)
        days = age.strip().removesuffix("d")
        if group is None:
            raise SettingsError(f"{variable}: {name.strip()[:40]!r} is unknown. Known: {', '.join(GROUPS)}.")
        if not (age.strip().endswith("d") and days.isascii() and days.isdigit() and len(days) < 6 and 1 <= int(days) <= MAX_DAYS):
            raise SettingsError(f"{variable}: {item[:60]!r} must name a number of days from 1 to {MAX_DAYS}, such as {group}:30d.")
        if group in retention:
            raise SettingsError(f"{variable} names {group} twice.")
        retention[group] = int(days)
    return retention


def describe_retention(retention: Retention) -> str:
    """Return one sentence about what is deleted when."""
    if not retention:
        return "everything is kept"
    ages = ", ".join(f"{group} after {days} day{'s' if days != 1 else ''}" for group, days in retention.items())
    kept = [group for group in GROUPS if group not in retention]
    return f"deleted: {ages}" + (f"; kept: {', '.join(kept)}" if kept else "")
