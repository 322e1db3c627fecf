"""What assistants read from the guard, and what it reads from their answers."""

from headway.agents.transcripts.transcript import estimate_text
from headway.ledger.guard import GuardRule, describe_open, is_question
from tests.ledger.test_transitions import make_todo
from tests.tables import each_row


@each_row(
    ("answer", "expected"),
    [
        ("Which colour?", True),
        ("Done with a.\n\n**Which colour should it have?**\n", True),
        ("All done.", False),
        ("", False),
        ("Is it green? Yes, it is.", False),
        ("a is done. Would you like me to continue?", False),
        ("Everything is done. Is there anything else?", False),
        ("Which database should it use?\n\n1. Postgres\n2. SQLite: one file\n", True),
        ("要用哪个数据库？", True),
        ("Is it green? Yes.\n- a is done\n- b is done", False),
        ("- a\n- b", False),
    ],
)
def test_questions_are_told_from_offers(answer: str, expected: bool) -> None:
    assert is_question(answer) is expected


@each_row(
    "title",
    [
        "Refresh expired sessions in the authentication middleware, and log the reason of each of them",
        "Erneuere abgelaufene Sitzungen in der Authentifizierungszwischenschicht und protokolliere den Grund",
        "重构身份验证中间件以便刷新过期的会话并记录每次失败的原因同时更新文档和测试以及部署脚本确保所有的用户都能够正常登录系统",
        "a9f3c07d1be84452ffab0c9e8d7721aa0913fe55bc8812d0e7f6a9f3c07d1be84452ffab0c9e",
        "👩‍👩‍👧‍👦" * 30,
    ],
)
def test_what_is_told_at_the_start_of_a_session_has_at_most_200_tokens(title: str) -> None:
    items = [make_todo("in_progress")._replace(id=number, subject=title) for number in range(12_000, 12_009)]
    rules = [GuardRule(number, "/srv", title, "[]", is_confirmed=False, created_at=0) for number in range(5)]
    for told in (describe_open(items, [], rules), describe_open([], items, rules)):
        assert estimate_text(told) <= 200
        assert f"#12000 {title[:6]}" in told
        assert "more" in told
