"""`headway doctor`: what Headway stands on, and what to mend."""

from shell import Shell


def test_a_healthy_installation_says_what_it_stands_on(headway: Shell, database_url: str) -> None:
    found = headway.json("doctor", "--database-url", database_url)

    assert found["ok"] is True
    checks = {check["name"]: check for check in found["checks"]}
    assert all(check["ok"] for check in checks.values())
    assert checks["home"]["detail"] == str(headway.folder / ".headway")
    assert ("SQLite " in checks["database"]["detail"]) != ("PostgreSQL " in checks["database"]["detail"])
    assert "not an LLM" in checks["model"]["detail"]


def test_each_check_is_a_line_for_people(headway: Shell) -> None:
    lines = headway.ok("doctor").splitlines()
    assert [line.split()[:2] for line in lines] == [["✔", "home"], ["✔", "database"], ["✔", "model"]]


def test_a_damaged_database_is_named_and_the_exit_is_1(headway: Shell) -> None:
    headway.ledger.parent.mkdir()
    headway.ledger.write_bytes(b"not a database, " * 1_000)
    ran = headway("doctor")

    assert (ran.code, ran.err) == (1, "")
    (broken,) = (line for line in ran.out.splitlines() if line.startswith("✕"))
    assert str(headway.ledger) in broken
    assert "restore a backup" in broken
    assert headway("doctor", "--json").code == 1


def test_a_page_that_was_overwritten_is_found(headway: Shell) -> None:
    for number in range(50):
        headway.ok("todo", "add", f"todo {number}", "-d", "x" * 2_000)
    raw = bytearray(headway.ledger.read_bytes())
    for start in range(4096 * 30, len(raw), 4096):
        raw[start : start + 100] = b"\xa5" * 100
    headway.ledger.write_bytes(raw)
    ran = headway("doctor")

    assert ran.code == 1
    assert "damaged" in ran.out
