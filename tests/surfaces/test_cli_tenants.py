"""`headway admin tenant …`, `token …` and `conversation …`: tenants, their tokens and their conversations."""

import hashlib
import re

import pytest

from tests.surfaces.shell import Shell, get_error_line
from tests.tables import each_row


def read_stored_bytes(headway: Shell) -> bytes:
    """Return the content of all files in the ledger's folder."""
    return b"".join(file.read_bytes() for file in headway.ledger.parent.rglob("*") if file.is_file())


def test_a_tenant_is_made_shown_and_deleted(headway: Shell, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_DATABASE_URL", database_url)
    assert headway.json("tenant", "list") == {"tenants": []}
    tenant = headway.json("tenant", "add", "acme")["tenant"]

    assert set(tenant) >= {"id", "name"}
    assert headway.json("tenant", "list")["tenants"] == [tenant]
    assert headway.json("tenant", "rm", "acme") == {"deleted": True}
    assert headway.json("tenant", "list") == {"tenants": []}


def test_tenants_for_people_are_a_line_each(headway: Shell) -> None:
    assert headway.ok("tenant", "list") == "no tenants yet\n"
    assert headway.ok("tenant", "add", "acme & sons") == "tenant acme & sons (1)\n"
    headway.ok("tenant", "add", "umbrella")
    assert headway.ok("tenant", "list") == "1\tacme & sons\n2\tumbrella\n"
    assert headway.ok("tenant", "rm", "umbrella", "--yes") == "deleted tenant umbrella\n"


def test_the_local_tenant_is_there_when_it_is_needed(headway: Shell) -> None:
    headway.ok("todo", "add", "one")
    assert [tenant["name"] for tenant in headway.json("tenant", "list")["tenants"]] == ["local"]
    assert headway.json("todo", "list", "--tenant", "local") == headway.json("todo", "list")


def test_a_tenants_name_is_taken_once(headway: Shell) -> None:
    headway.ok("tenant", "add", "acme")
    assert "'acme' already exists" in get_error_line(headway("tenant", "add", "acme"), 4)


@each_row("name", ["", "  ", "two\nlines", "\x1b[31mred", "x" * 1_000])
def test_a_tenants_name_is_one_printable_line(headway: Shell, name: str) -> None:
    assert len(get_error_line(headway("tenant", "add", name), 2)) < 150
    assert headway.json("tenant", "list") == {"tenants": []}


def test_deleting_an_unknown_tenant_is_not_found(headway: Shell) -> None:
    get_error_line(headway("tenant", "rm", "nobody", "--yes"), 3)


def test_everything_a_tenant_owns_goes_with_it(headway: Shell) -> None:
    headway.ok("tenant", "add", "acme")
    headway.ok("conversation", "new", "--key", "k", "--tenant", "acme")
    headway.ok("todo", "add", "one", "--tenant", "acme", "--conversation", "k")
    headway.ok("token", "new", "--tenant", "acme")
    headway.ok("todo", "add", "mine")
    conversation = headway.json("conversation", "new", "--tenant", "acme")["conversation"]
    tasks = headway.folder / ".headway" / conversation["task_file"]
    tasks.parent.mkdir(parents=True)
    tasks.write_text('{"tasks": []}')
    link = tasks.with_name(f"{conversation['id']}.json")
    link.symlink_to(tasks.name)
    headway.ok("tenant", "rm", "acme", "--yes")
    headway.ok("tenant", "add", "acme")

    assert headway.json("todo", "list", "--all", "--tenant", "acme")["todos"] == []
    assert headway.json("conversation", "list", "--tenant", "acme")["conversations"] == []
    assert headway.json("token", "list", "--tenant", "acme")["tokens"] == []
    assert len(headway.json("todo", "list")["todos"]) == 1
    assert not tasks.exists()
    assert not link.is_symlink()


def test_a_token_is_shown_once_and_stored_hashed(headway: Shell) -> None:
    headway.ok("tenant", "add", "acme")
    created = headway.json("token", "new", "--tenant", "acme", "--label", "the robot")
    secret = created["token"]

    assert re.fullmatch(r"hw_[A-Za-z0-9_-]{43}", secret)
    (token_row,) = headway.json("token", "list", "--tenant", "acme")["tokens"]
    assert (token_row["id"], token_row["label"]) == (created["id"], "the robot")
    assert secret not in headway.ok("token", "list", "--tenant", "acme")
    stored = read_stored_bytes(headway)
    assert secret.encode() not in stored
    assert secret.removeprefix("hw_").encode() not in stored
    assert hashlib.sha256(secret.encode()).hexdigest().encode() in stored


def test_a_token_for_people_is_nothing_but_the_token(headway: Shell) -> None:
    assert re.fullmatch(r"hw_[A-Za-z0-9_-]{43}\n", headway.ok("token", "new"))
    assert headway.ok("token", "new") != headway.ok("token", "new")


def test_a_revoked_token_stays_in_the_list_and_cannot_be_revoked_again(headway: Shell) -> None:
    first, second = (headway.json("token", "new")["id"] for _ in range(2))
    assert headway.json("token", "revoke", f"{first}")["id"] == first

    assert [bool(token["revoked_at"]) for token in headway.json("token", "list")["tokens"]] == [True, False]
    get_error_line(headway("token", "revoke", f"{first}"), 3)
    lines = headway.ok("token", "list").splitlines()
    assert ["revoked" in line for line in lines] == [True, False]
    assert second == headway.json("token", "list")["tokens"][1]["id"]


def test_a_token_belongs_to_one_tenant(headway: Shell) -> None:
    headway.ok("tenant", "add", "acme")
    token_id = headway.json("token", "new", "--tenant", "acme")["id"]

    assert headway.json("token", "list")["tokens"] == []
    get_error_line(headway("token", "revoke", f"{token_id}"), 3)
    assert "'abc' is not a token id" in get_error_line(headway("token", "revoke", "abc"), 2)
    assert headway("token", "revoke", f"{token_id}", "--tenant", "acme").code == 0


def test_a_token_for_an_unknown_tenant_is_not_made(headway: Shell) -> None:
    get_error_line(headway("token", "new", "--tenant", "nobody"), 3)


def test_a_conversation_is_opened_under_a_key_of_ones_own_or_a_new_one(headway: Shell) -> None:
    named = headway.json("conversation", "new", "Release 1.0", "--key", "release")["conversation"]
    unnamed = headway.json("conversation", "new")["conversation"]

    assert list(named) == ["id", "key", "title", "created_at", "updated_at", "state", "task_file", "client", "client_session"]
    assert (named["key"], named["title"]) == ("release", "Release 1.0")
    assert re.fullmatch(r"[0-9a-f]{32}", unnamed["key"])
    assert headway.json("conversation", "list")["conversations"] == [unnamed, named]
    assert headway.json("conversation", "list", "--limit", "1")["conversations"] == [unnamed]
    assert f"{named['id']}\trelease\tRelease 1.0\n" in headway.ok("conversation", "list")


def test_a_key_is_unique_within_a_tenant(headway: Shell) -> None:
    headway.ok("tenant", "add", "acme")
    headway.ok("conversation", "new", "--key", "k")

    get_error_line(headway("conversation", "new", "--key", "k"), 4)
    assert headway("conversation", "new", "--key", "k", "--tenant", "acme").code == 0


def test_a_key_that_looks_like_an_id_is_found_when_nothing_has_that_id(headway: Shell) -> None:
    conversation = headway.json("conversation", "new", "--key", "2024")["conversation"]
    todo = headway.json("todo", "add", "x", "--conversation", "2024")["todo"]
    assert todo["conversation_id"] == conversation["id"]


@pytest.mark.parametrize("family", ["todo", "tenant", "token", "conversation"])
def test_a_family_without_a_verb_shows_its_verbs(headway: Shell, family: str) -> None:
    ran = headway(family)
    assert (ran.code, ran.out) == (2, "")
    assert "Commands:" in ran.err


# Scopes, expiry, rotation


def test_a_token_can_be_read_only_and_expire(headway: Shell) -> None:
    created = headway.json("token", "new", "--read-only", "--expires", "90d")
    assert (created["scopes"], created["expires_at"] - created["created_at"]) == (["read"], 90 * 86400)
    assert re.search(r"\tread-only\t20.*\texpires .*\tnever used\n", headway.ok("token", "list"))

    for flags in (("--read-only", "--operator"), ("--read-only", "--admin"), ("--admin", "--operator")):
        assert "exclude each other" in get_error_line(headway("token", "new", *flags), 2)
    for duration in ("0", "10000d", "soon"):
        get_error_line(headway("token", "new", "--expires", duration), 2)
    assert len(headway.json("token", "list")["tokens"]) == 1


def test_only_the_local_tenant_has_operators(headway: Shell) -> None:
    headway.ok("tenant", "add", "acme")
    refused = get_error_line(headway("token", "new", "--operator", "--tenant", "acme"), 2)
    assert "Only tokens of the tenant `local` can have the scope `operator`" in refused
    assert "The scope `admin` is for the administrators of a tenant." in refused
    assert headway.json("token", "list", "--tenant", "acme") == {"tokens": []}
    assert headway.json("token", "new", "--admin", "--tenant", "acme")["scopes"] == ["read", "write", "admin"]
    assert headway.json("token", "new", "--operator")["scopes"] == ["read", "write", "admin", "operator"]
    assert "\tadmin\t" in headway.ok("token", "list", "--tenant", "acme")


def test_a_rotated_token_is_listed_with_its_successor(headway: Shell) -> None:
    old = headway.json("token", "new", "--label", "ci")
    ran = headway("token", "rotate", f"{old['id']}", "--overlap", "10m")
    assert re.fullmatch(r"hw_[A-Za-z0-9_-]{43}\n", ran.out)
    assert re.fullmatch(r"token 2 replaces token 1, which works until .*\n", ran.err)

    line, _successor = headway.ok("token", "list").splitlines()
    assert re.search(r"\texpires .*\treplaced by token 2, never used$", line)
    assert "token 2 replaces it" in get_error_line(headway("token", "rotate", "1"), 4)
    again = headway.json("token", "rotate", "2", "--overlap", "0")
    assert (again["label"], again["replaced"]["id"], again["replaced"]["revoked_at"] > 0) == ("ci", 2, True)
    get_error_line(headway("token", "rotate", "2"), 3)
    get_error_line(headway("token", "rotate", "3", "--overlap", "31d"), 2)


def test_all_tokens_of_a_tenant_are_revoked_together(headway: Shell) -> None:
    headway.ok("tenant", "add", "acme")
    headway.ok("token", "new", "--tenant", "acme")
    for _ in range(2):
        headway.ok("token", "new")
    assert headway.ok("token", "revoke-all") == "revoked tokens: 2, ended sessions: 0\n"

    assert headway.json("token", "revoke-all", "--yes") == {"revoked": []}
    assert not headway.json("token", "list", "--tenant", "acme")["tokens"][0]["revoked_at"]
