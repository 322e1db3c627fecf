"""/v1/notices: the operator's inbox, and what is done in it."""

from headway.actions.runs import notices
from headway.actions.runs.notices import NoticeSubject
from tests.surfaces.server_harness import Client, Service, check_problem


def list_texts(client: Client, **query: str) -> list[str]:
    return [notice["text"] for notice in client.ok("GET", "/v1/notices", params=query)["notices"]]


def test_notices_are_marked_as_done_and_opened_again(client: Client, service: Service) -> None:
    for text in ("one", "two", "three"):
        client.desk.write(notices.notify, "budget", text)
    three, two, one = client.ok("GET", "/v1/notices")["notices"]
    assert {notice["done_at"] for notice in (one, two, three)} == {0}
    with service.tenant() as neighbour:
        assert neighbour.ok("POST", "/v1/notices/done", json={"ids": [one["id"]]}) == {"changed": 0}
        assert neighbour.ok("POST", "/v1/notices/done", json={"up_to": 2**53}) == {"changed": 0}
    assert client.ok("POST", "/v1/notices/done", json={"ids": [two["id"], 987_654]}) == {"changed": 1}
    assert client.ok("POST", "/v1/notices/done", json={"ids": [two["id"]]}) == {"changed": 0}
    assert (list_texts(client, state="open"), list_texts(client, state="done")) == (["three", "one"], ["two"])
    assert client.ok("POST", "/v1/notices/done", json={"up_to": two["id"]}) == {"changed": 1}
    assert list_texts(client, state="open") == ["three"]
    assert client.ok("POST", "/v1/notices/done", json={"ids": [one["id"]], "done": False}) == {"changed": 1}
    assert list_texts(client, state="open") == ["three", "one"]
    assert list_texts(client) == ["three", "two", "one"]
    bad: list[dict[str, object]] = [{}, {"ids": [1], "up_to": 1}, {"ids": []}, {"up_to": 1, "done": False}]
    for body in bad:
        check_problem(client.post("/v1/notices/done", json=body), 422, "invalid")


def test_a_notice_leads_to_a_page_where_the_operator_can_respond(client: Client) -> None:
    conversation = client.conversation()
    subjects = (NoticeSubject(conversation, None), NoticeSubject(conversation, page="/inbox/7"), NoticeSubject())
    for subject in subjects:
        client.desk.write(notices.notify, "budget", "The pool is spent.", subject)
    urls = [notice["url"] for notice in client.ok("GET", "/v1/notices")["notices"]]
    assert urls == ["", "/inbox/7", f"/c/{conversation}"]
