"""policy.toml: what it can say, what is wrong with it, and how it changes."""

import logging
import threading
from pathlib import Path

import pytest

from headway.agents.policy_file import PolicyFile, load_policy
from headway.ledger.errors import Conflict, SettingsError
from headway.ledger.permission import Policy, PolicyCall, Rule
from tests.tables import each_row

CALL = PolicyCall("write_file", "index", "acme", arguments={"path": ("a.txt",)})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.toml"


def decide(policy: Policy, call: PolicyCall = CALL, *, asks_by_default: bool = False) -> str:
    return policy.decide(call, asks_by_default=asks_by_default).decision


def test_without_a_file_the_defaults_decide(path: Path) -> None:
    policy = load_policy(str(path))
    assert (decide(policy), decide(policy, asks_by_default=True)) == ("allow", "ask")


@each_row(
    ("rule", "decision"),
    [
        ('tool = "write_file"', "deny"),
        ('tool = "write_*"', "deny"),
        ('tool = "WRITE_*"', "allow"),
        ('tool = "*"\nrole = "index"', "deny"),
        ('tool = "*"\nrole = "coder"', "allow"),
        ('tool = "*"\ntenant = "acme"', "deny"),
        ('tool = "*"\ntenant = "other"', "allow"),
        ('tool = "*"\nserver = "git"', "allow"),
        ('tool = "*"\narguments = {path = "*.txt"}', "deny"),
        ('tool = "*"\narguments = {path = "*.md"}', "allow"),
        ('tool = "*"\narguments = {url = "*"}', "allow"),
    ],
)
def test_a_rule_matches_by_globs(path: Path, rule: str, decision: str) -> None:
    path.write_text(f'[[rule]]\n{rule}\ndecision = "deny"\n')
    assert decide(load_policy(str(path))) == decision


def test_the_first_rule_that_matches_wins(path: Path) -> None:
    path.write_text('[[rule]]\ntool = "write_file"\ndecision = "ask"\n[[rule]]\ntool = "*"\ndecision = "deny"\n')
    policy = load_policy(str(path))
    assert (decide(policy), decide(policy, CALL._replace(tool="read_file"))) == ("ask", "deny")


@each_row(
    ("content", "message"),
    [
        ('[[rule]]\ntool = "a"\n', "line 1: decision must be allow, ask or deny."),
        ('\n\n[[rule]]\ntool = "a"\ndecision = "maybe"\n', "line 3: decision must be allow, ask or deny, not 'maybe'."),
        ('[[rule]]\ntool = 3\ndecision = "ask"\n', "line 1: tool must be a pattern in quotes"),
        ('[[rule]]\ndecision = "ask"\n', "line 1: name the tools that the rule is for"),
        ('[[rule]]\ntool = "a"\npath = "b"\ndecision = "ask"\n', "line 1: a rule cannot have 'path'."),
        ('[[rule]]\ntool = "a"\narguments = {n = 1}\ndecision = "ask"\n', "line 1: arguments must be a table of patterns"),
        ('[[rule]]\ntool = "a\ndecision = "ask"\n', "(at line 2,"),
        ('[rule]\ntool = "a"\ndecision = "ask"\n', "write rules as [[rule]], in double brackets"),
        ('[[rules]]\ntool = "a"\n', "'rules' is unknown"),
        ('rule = [{tool = "a", decision = "ask"}]\n', "start each rule with a line [[rule]]"),
        ("\xff", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_names_the_line(path: Path, content: str, message: str) -> None:
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(SettingsError) as caught:
        PolicyFile(str(path))
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_change_applies_at_once_and_a_broken_one_leaves_the_policy(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = PolicyFile(str(path))
    path.write_text('[[rule]]\ntool = "*"\ndecision = "deny"\n')
    assert decide(file.current) == "deny"
    with caplog.at_level(logging.ERROR):
        path.write_text('[[rule]]\ntool = "*"\n')
        assert decide(file.current) == "deny"
        assert decide(file.current) == "deny"
    assert [record.getMessage() for record in caplog.records] == [
        f"the policy was not changed: {path}, line 1: decision must be allow, ask or deny."
    ]


def test_a_file_that_loses_all_rules_leaves_the_policy_until_a_restart(path: Path) -> None:
    path.write_text('[[rule]]\ntool = "*"\ndecision = "deny"\n')
    file = PolicyFile(str(path))
    for change in (lambda: path.write_text(""), path.unlink):
        change()
        assert decide(file.current) == "deny"
    assert decide(PolicyFile(str(path)).current) == "allow"


@pytest.mark.parametrize("value", ["plain", 'a "quoted" \\ path', "tab\there", "line\nbreak", "é🙂\x7f\u2028", "[x]*?"])
def test_a_rule_is_read_as_it_was_written(path: Path, value: str) -> None:
    file = PolicyFile(str(path))
    rule = Rule("allow", "write_file", "index", tenant="acme", arguments=(("path", value),))
    file.add_allow_rule(CALL, rule)
    assert load_policy(str(path)).rules == (rule._replace(line=1),)


def test_no_rule_is_added_for_a_call_that_is_allowed_or_denied_already(path: Path) -> None:
    path.write_text('[[rule]]\ntool = "write_file"\ndecision = "allow"\n')
    file, before = PolicyFile(str(path)), path.read_text()
    file.add_allow_rule(CALL, Rule("allow", "write_file"))
    assert path.read_text() == before
    path.write_text(before.replace("allow", "deny"))
    with pytest.raises(Conflict, match="now denies this call in line 1"):
        file.add_allow_rule(CALL, Rule("allow", "write_file"))


def test_rules_that_several_people_add_at_once_are_all_kept(path: Path) -> None:
    files = [PolicyFile(str(path)) for _ in range(2)]
    names = [f"tool{n}" for n in range(20)]
    threads = [
        threading.Thread(target=files[n % 2].add_allow_rule, args=(PolicyCall(name, "index"), Rule("allow", name)))
        for n, name in enumerate(names)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(rule.tool for rule in load_policy(str(path)).rules) == sorted(names)


@each_row(
    "content",
    [
        '\ufeff[[rule]]\ntool = "write_file"\ndecision = "ask"\n',
        '[[rule]]\r\ntool = "write_file"\r\ndecision = "ask"\r\n',
        '# one line\u2028the same line\n\t[[ rule ]]  # all files\n\ttool = "write_file"\n\tdecision = "ask"',
        '[[rule]] # [[rule]]\ntool = "write_file"\ndecision = "ask"\n[rule.arguments]\n"path" = "*"\n',
    ],
)
def test_a_rule_is_added_to_a_file_of_any_form(path: Path, content: str) -> None:
    path.write_bytes(content.encode())
    file = PolicyFile(str(path))
    assert decide(file.current) == "ask"
    file.add_allow_rule(CALL, Rule("allow", "write_file", arguments=(("path", "a*"),)))
    assert [rule.decision for rule in load_policy(str(path)).rules] == ["allow", "ask"]
    assert "the same line" not in content or "# one line\u2028the same line\n" in path.read_text()


def test_a_file_in_which_a_rule_would_change_others_is_left_as_it_is(path: Path) -> None:
    first = '[[rule]]\ntool = "other"\ndecision = "deny"\narguments = {x = """\n[[rule]]\n"""}\n'
    path.write_text(f'{first}[["rule"]]\ntool = "*"\ndecision = "ask"\n')
    before = path.read_text()
    with pytest.raises((Conflict, SettingsError)):
        PolicyFile(str(path)).add_allow_rule(CALL, Rule("allow", "write_file"))
    assert path.read_text() == before
