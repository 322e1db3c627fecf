"""deploy/Dockerfile, compose.yaml and the units of systemd fit this version of Headway."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway import settings
from headway.surfaces.cli.main import headway

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMMANDS = set(headway.list_commands(None))  # type: ignore[arg-type]


def load_settings(variables: dict[str, str]) -> settings.Settings:
    """Load the variables as settings. Unknown ones are refused."""
    return settings.load({name.removeprefix("HEADWAY_").lower(): value for name, value in variables.items()})


def read_image_settings() -> dict[str, str]:
    return dict(re.findall(r"(HEADWAY_\w+)=(\S+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8")))


def test_compose_starts_a_server_and_two_workers_on_one_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is not given, such as the model, is empty in the containers."""
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    services: dict[str, Any] = yaml.safe_load(text)["services"]
    serve, worker = services["serve"], services["worker"]
    [program] = re.findall(r'HEADWAY_BOOTSTRAP_TOKEN=\$\(python3 -c "(.+)"\)', text)
    token = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    given = {"POSTGRES_PASSWORD:?": "s3cret", "HEADWAY_BOOTSTRAP_TOKEN:?": token}
    for name, value in {**read_image_settings(), **serve["environment"]}.items():
        monkeypatch.setenv(name, re.sub(r"\$\{(.*?)\}", lambda match: given.get(match[1], ""), value))

    loaded = settings.load({})
    assert loaded.database_url == "postgresql://headway:s3cret@postgres/headway"
    assert (loaded.bootstrap_token, loaded.model) == (token, "rehearsal")
    assert worker["environment"].items() <= serve["environment"].items()
    assert (worker["command"], worker["deploy"]) == (["headway", "worker"], {"replicas": 2})
    assert serve["volumes"] == worker["volumes"] == [f"home:{loaded.home}"]
    assert serve["ports"] == [f"127.0.0.1:{loaded.port}:{loaded.port}"]


def test_the_image_serves_on_the_port_it_exposes_and_contains_no_more_than_it_needs() -> None:
    recipe = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    loaded = load_settings(read_image_settings())

    assert (loaded.host, loaded.home) == ("0.0.0.0", "/data")
    assert f"EXPOSE {loaded.port}\n" in recipe
    assert f"127.0.0.1:{loaded.port}/healthz" in recipe
    assert 'CMD ["headway", "serve"]' in recipe
    assert "--require-hashes" in recipe
    kept = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.M)
    assert [name for name in kept if not (ROOT / name).exists()] == []
    assert set(re.findall(r"/src/([\w.]+)", recipe)) <= set(kept)


def test_the_image_can_be_built_from_what_it_contains(tmp_path: Path) -> None:
    for name in re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.M):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(ROOT / name)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    [wheel] = (tmp_path / "dist").glob("headway-*.whl")
    with zipfile.ZipFile(wheel) as built:
        assert {"headway/storage/migrations/0001_schema.sql", "headway/__init__.pyi"} <= {*built.namelist()}


def test_the_units_run_commands_of_headway() -> None:
    units = {path.stem: path.read_text(encoding="utf-8") for path in DEPLOY.glob("*.service")}
    commands = {name: re.findall(r"^ExecStart=\S+/headway (\w+)$", text, re.M) for name, text in units.items()}

    assert commands == {"headway": ["serve"], "headway-worker": ["worker"]}
    assert {"serve", "worker"} <= COMMANDS
    for text in units.values():
        assert re.findall(r"Environment=(HEADWAY_HOME)=/var/lib/(\w+)$", text, re.M) == [
            ("HEADWAY_HOME", *re.findall(r"^StateDirectory=(\w+)$", text, re.M))
        ]  # the only folder that the unit may write to
