"""`headway settings`: what is in force, and where it comes from."""

import pytest

from headway import settings
from headway.ledger.errors import SettingsError
from headway.settings.declarations import SETTINGS
from tests.surfaces.shell import Shell

PASSWORD = "a-password-of-postgres"


def test_settings_are_shown_with_their_sources_and_without_secrets(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    (headway.folder / ".env").write_text("HEADWAY_MAX_ITERATIONS=7\nHEADWAY_BUDGET_USD=3\n")
    headway.trust()
    monkeypatch.setenv("HEADWAY_BUDGET_USD", "2.5")
    monkeypatch.setenv("HEADWAY_DIRECTORY_URL", f"postgresql://user:{PASSWORD}@db.example/headway")
    monkeypatch.setenv("OPENAI_API_KEY", PASSWORD)
    monkeypatch.setenv("OPENAI_BASE_URL", f"https://user:{PASSWORD}@models.example/v1?key={PASSWORD}")
    monkeypatch.setenv("HEADWAY_QUOTAS", "turns:200,storage:512M,webhooks:none")
    printed = headway.ok("settings", "--home", str(headway.folder / ".headway"))
    shown = {row["name"]: (row["value"], row["source"]) for row in headway.json("settings")["settings"]}
    changed = [row["name"] for row in headway.json("settings", "--changed")["settings"]]

    assert PASSWORD not in printed + str(shown)
    assert f"HEADWAY_HOME\tflag\t{headway.folder / '.headway'}" in printed
    assert shown["HEADWAY_MAX_ITERATIONS"] == ("7", ".env")
    assert shown["HEADWAY_BUDGET_USD"] == ("2.5", "environment")
    assert shown["HEADWAY_DIRECTORY_URL"] == ("postgresql://user:…@db.example/headway", "environment")
    assert shown["OPENAI_API_KEY"] == ("set", "environment")
    assert shown["OPENAI_BASE_URL"] == ("https://models.example/v1", "environment")
    assert shown["HEADWAY_SANDBOX"] == ("auto", "default")
    assert shown["HEADWAY_QUOTAS"] == ("turns:200,jobs:256,streams:1000,storage:512M,webhooks:none", "environment")
    assert "HEADWAY_SANDBOX" not in changed
    assert {"HEADWAY_MAX_ITERATIONS", "HEADWAY_BUDGET_USD", "OPENAI_API_KEY"} <= set(changed)


# One of these is valid for each setting, and is not its default.
EXAMPLES = (
    *("17", "5000", "off", "auto", "item", "turns:17", "events:17d", "/elsewhere", "json://elsewhere"),
    *("postgresql://elsewhere/name", "restate://elsewhere?identity_key=none", "https://elsewhere", f"hw_{'a' * 43}"),
)


def test_every_setting_changes_something(headway: Shell) -> None:
    usual = settings.load({"home": str(headway.folder)})
    idle = [name for name in SETTINGS if not any(changes_with(usual, name, example) for example in EXAMPLES)]
    assert idle == []


def changes_with(usual: settings.Settings, name: str, example: str) -> bool:
    try:
        changed = settings.load({"home": usual.home, name: example})
    except SettingsError:
        return False
    return changed._replace(in_force={}) != usual._replace(in_force={})
