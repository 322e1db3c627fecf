"""policy.toml: read again whenever it changes, and extended when a person always allows a call."""

import fcntl
import json
import logging
import os
import re
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from typing import Final

from headway.ledger.errors import Conflict, SettingsError
from headway.ledger.permission import FILE_NAME, GLOBS, Policy, PolicyCall, Rule, build_rule
from headway.trust import keep_trust

log = logging.getLogger("headway.policy")

RULE_HEADER: Final = "[[rule]]"
NO_RULES: Final = "# Headway has removed the last rule.\n"  # in a file that is meant to have none
ALWAYS_COMMENT: Final = "  # always, by approval {}"  # after the header of a rule that a person's decision added
ALWAYS_PATTERN: Final = re.compile(r"# always, by approval (\d{1,18})\s*$")
RULES_LIMIT: Final = 1_000
Stamp = tuple[int, int, int]  # modification time, size and inode
NO_FILE: Final[Stamp] = (0, 0, 0)


class PolicyFile:
    """The policy in force. A file that can no longer be read leaves the last one in force."""

    def __init__(self, path: str = "") -> None:
        self.path = path
        self.lock = threading.Lock()
        self.problem = ""  # why the file as it is now is not in force; empty: it is
        self.on_change: Callable[[], object] = lambda: None  # called on the reading thread when another policy is in force
        self.stamp = self.read_stamp()
        self.policy, self.digest = load_with_digest(path)

    @property
    def current(self) -> Policy:
        stamp = self.read_stamp()
        if stamp != self.stamp:
            self.reload(stamp)
        return self.policy

    def read_stamp(self) -> Stamp:
        if not self.path:
            return NO_FILE
        try:
            status = os.stat(self.path)
        except OSError:
            return NO_FILE
        return status.st_mtime_ns, status.st_size, status.st_ino

    def reload(self, stamp: Stamp) -> None:
        with self.lock:
            self.stamp = stamp
            try:
                changed, digest = load_with_digest(self.path)
            except SettingsError as error:
                self.problem = str(error).replace(self.path, FILE_NAME)
                log.error("the policy was not changed: %s", error)
                return
            # An editor may be writing it; no rules at all would allow too much.
            if self.policy.rules and not changed.rules and NO_RULES not in read_text(self.path):
                self.problem = f"{FILE_NAME} has no rules now. Restart Headway if that is meant."
                log.error("the policy was not changed: %s has no rules now. Restart Headway if that is meant.", self.path)
            else:
                self.policy, self.digest, self.problem = changed, digest, ""
                self.on_change()

    def add_allow_rule(self, call: PolicyCall, rule: Rule) -> None:
        """Add a rule ahead of the one that asks about the call, so that rules above it still apply."""
        with lock_folder(os.path.dirname(self.path)):
            policy = load_policy(self.path)
            asking_rule = policy.find(call)
            if asking_rule is not None and asking_rule.decision == "allow":
                return
            if asking_rule is not None and asking_rule.decision == "deny":
                raise Conflict(f"{self.path} now denies this call in line {asking_rule.line}.")
            if len(policy.rules) >= RULES_LIMIT:
                raise Conflict(f"{self.path} has {RULES_LIMIT:,} rules. Combine some of them first.")
            text = read_text(self.path)
            lines = (text if policy.rules else text.replace(NO_RULES, "")).rstrip("\n").split("\n")
            index = asking_rule.line - 1 if asking_rule else len(lines)
            text = "\n".join([*lines[:index], *format_rule(rule), *lines[index:]]).strip("\n") + "\n"
            others = [one._replace(line=0) for one in policy.rules]
            index = policy.rules.index(asking_rule) if asking_rule else len(others)
            if [one._replace(line=0) for one in parse_policy(text, self.path).rules] != [*others[:index], rule, *others[index:]]:
                raise Conflict(f"No rule can be added to {self.path}. Approve the call without `always`, or add the rule by hand.")
            with keep_trust(self.path):
                replace_text(self.path, text)

    def remove_tenant_rules(self, tenant: str) -> int:
        """Remove the rules that name exactly this tenant, so that a later tenant of the same name does not get them. Returns their
        number."""
        return len(self.remove_rules(lambda rule: rule.tenant in (tenant, escape(tenant)), f"The rules of tenant {tenant!r}"))

    def remove_always_rules(self, tenant: str, approval_id: int) -> list[Rule]:
        """Remove the rules that one decision of a person has added for this tenant, and return them."""

        def is_doomed(rule: Rule) -> bool:
            return rule.approval == approval_id and rule.tenant == escape(tenant)

        return self.remove_rules(is_doomed, "The rule")

    def remove_rules(self, is_doomed: Callable[[Rule], bool], subject: str) -> list[Rule]:
        """Remove rules from the file and return them. A rule ends where the next one starts; comments above it stay."""
        if not os.path.exists(self.path):
            return []
        with lock_folder(os.path.dirname(self.path)):
            policy = load_policy(self.path)
            removed = [rule for rule in policy.rules if is_doomed(rule)]
            kept = [rule for rule in policy.rules if rule not in removed]
            if not removed:
                return []
            lines = read_text(self.path).split("\n")
            ends = [*(rule.line - 1 for rule in policy.rules[1:]), len(lines)]
            blocks = [lines[rule.line - 1 : end] for rule, end in zip(policy.rules, ends, strict=True) if rule in kept]
            text = "\n".join([*lines[: policy.rules[0].line - 1], *(line for block in blocks for line in block)])
            if [rule._replace(line=0) for rule in parse_policy(text, self.path).rules] != [rule._replace(line=0) for rule in kept]:
                raise Conflict(f"{subject} cannot be removed from {self.path}. Remove by hand what should go.")
            with keep_trust(self.path):
                replace_text(self.path, (text.strip("\n") + "\n" if text.strip() else "") + ("" if kept else NO_RULES))
            return removed


def load_policy(path: str) -> Policy:
    """Load the policy; without a file it has no rules. A file that cannot be read raises SettingsError with the line."""
    return parse_policy(read_text(path), path)


def load_with_digest(path: str) -> tuple[Policy, str]:
    """Load the policy, and the SHA-256 of its file; empty without one."""
    text = read_text(path)
    policy = parse_policy(text, path)
    if not text:
        return policy, ""
    import hashlib  # noqa: PLC0415  most installations have no such file

    return policy, hashlib.sha256(text.encode()).hexdigest()


def parse_policy(text: str, path: str) -> Policy:
    if not text.strip():
        return Policy()
    import tomllib  # noqa: PLC0415  most installations have no such file

    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise SettingsError(f"{path} cannot be read: {error}.") from None
    if unknown := sorted(document.keys() - {"rule"}):
        raise SettingsError(f"{path}: {unknown[0][:80]!r} is unknown. Write rules as {RULE_HEADER} tables.")
    rules = document.get("rule", [])
    if not isinstance(rules, list):
        raise SettingsError(f"{path}: write rules as {RULE_HEADER}, in double brackets.")
    headers = [(number, line) for number, line in enumerate(text.split("\n"), 1) if "".join(line.split()).startswith(RULE_HEADER)]
    if len(headers) != len(rules):
        raise SettingsError(f"{path}: start each rule with a line {RULE_HEADER}.")
    return Policy(
        tuple(
            build_rule(rule, f"{path}, line {number}", number)._replace(approval=find_approval(line))
            for rule, (number, line) in zip(rules, headers, strict=True)
        )
    )


def find_approval(header: str) -> int:
    """Return the approval that added a rule, from the comment in its header. 0: none did."""
    comment = ALWAYS_PATTERN.search(header)
    return int(comment[1]) if comment else 0


@contextmanager
def lock_folder(folder: str) -> Iterator[None]:
    """Keep other threads and processes from changing the file at the same time."""
    handle = os.open(folder or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def read_text(path: str) -> str:
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(f"{path} cannot be read: {reason}.") from None


def replace_text(path: str, text: str) -> None:
    """Replace the file at once, so that a reader or a crash never sees a part of it."""
    path = os.path.realpath(path)
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{FILE_NAME}.", dir=os.path.dirname(path))
        try:
            with suppress(FileNotFoundError):
                os.fchmod(handle, stat.S_IMODE(os.stat(path).st_mode))
            with open(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror or error}.") from None


def format_rule(rule: Rule) -> list[str]:
    """Format a rule as TOML. A JSON string is also a TOML string, apart from the characters that are escaped here."""
    fields = [f"{name} = {quote(getattr(rule, name))}" for name in GLOBS if getattr(rule, name) != "*"]
    if rule.arguments:
        arguments = ", ".join(f"{quote(name)} = {quote(glob)}" for name, glob in rule.arguments)
        fields.append(f"arguments = {{{arguments}}}")
    header = RULE_HEADER + (ALWAYS_COMMENT.format(rule.approval) if rule.approval else "")
    return [header, *fields, f"decision = {quote(rule.decision)}", ""]


def quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
