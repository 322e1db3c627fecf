"""`headway webhook`."""

import pytest

from tests.surfaces.shell import Shell
from tests.webhooks.receiver import HOSTS, run_receiver


def test_a_webhook_from_the_command_line(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_receiver() as receiver:
        monkeypatch.setenv("HEADWAY_WEBHOOK_HOSTS", ",".join(HOSTS))
        created = headway.json("webhook", "add", receiver.url, "--kind", "todo_changed", "--description", "a test")
        hook = created["webhook"]["id"]
        assert created["secret"].startswith("whsec_")
        assert "accepted with status 204" in headway.ok("webhook", "test", hook)
        assert [received.document["type"] for received in receiver.received] == ["webhook_test"]
        assert "active" in headway.ok("webhook", "list")
        assert headway.json("webhook", "edit", hook, "--pause", "--all-kinds")["webhook"]["state"] == "paused"
        assert headway.json("webhook", "edit", hook, "--resume")["webhook"]["kinds"] == []
        assert headway.ok("webhook", "rotate", hook).strip() != created["secret"]
        assert headway.json("webhook", "replay", hook, "--after", "0")["webhook"]["after"] == 0
        shown = headway.ok("webhook", "show", hook)
        assert "webhook_test" in shown
        assert created["secret"] not in shown
        receiver.answer = lambda _received: 500
        refused = headway("webhook", "test", hook)
        assert (refused.code, "status 500" in refused.out) == (1, True)
        headway.ok("webhook", "rm", hook, "--yes")
        assert headway.json("webhook", "list")["webhooks"] == []
        assert headway("webhook", "add", "https://example.com/").code == 2
        refused = headway("webhook", "add", receiver.url, "--kind", "turn_finish")
        assert (refused.code, "Did you mean turn_finished" in refused.err) == (2, True)
        assert headway("webhook", "show", hook).code == 3
