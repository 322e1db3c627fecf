"""nginx with the configuration of docs/nginx-cells.conf, in front of servers on this machine."""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from tests.free_ports import find_ports
from tests.surfaces.server_harness import wait_until

CONFIGURATION = Path(__file__).parents[2] / "docs" / "nginx-cells.conf"
PLACES = ("body", "proxy", "fastcgi", "uwsgi", "scgi")  # where nginx keeps what does not fit into memory
WRAPPER = """
user root;
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/headway.conf;
}}
"""


def find_nginx() -> str:
    """Debian has it where only root looks for programs."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    assert found, "This test needs nginx: apt-get install nginx. `make test` tries."
    return found


def adapt(configuration: str, port: int, addresses: Mapping[str, str]) -> str:
    """Do what an operator does: replace the cells between the two marks, with the first one as default, and the address."""
    upstreams = "".join(f"upstream headway_{name} {{ server {address}; keepalive 4; }}\n" for name, address in addresses.items())
    names = "".join(f"    {name} headway_{name};\n" for name in addresses)
    default = f"    default headway_{next(iter(addresses))};\n"
    first, second = re.findall(r"^map \$\w+ \$\w+ \{$", configuration.partition("# --- end ---")[0], re.MULTILINE)
    cells = f'{upstreams}{first}\n{default}{names}}}\n{second}\n    volatile;\n    default "";\n{names}}}\n'
    replaced = re.sub("# --- your cells ---.*# --- end ---", lambda _: cells, configuration, flags=re.DOTALL)
    return replaced.replace("listen 80;", f"listen 127.0.0.1:{port};")


@contextmanager
def run_nginx(folder: Path, addresses: Mapping[str, str]) -> Iterator[str]:
    """Run nginx in front of the cells with these addresses, and yield its own."""
    port = find_ports()
    for place in PLACES:
        (folder / place).mkdir()
    (folder / "headway.conf").write_text(adapt(CONFIGURATION.read_text(encoding="utf-8"), port, addresses))
    (folder / "nginx.conf").write_text(WRAPPER.format(folder=folder))
    log = folder / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen([find_nginx(), "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=errors)
    try:
        wait_until(lambda: is_listening(port) or process.poll() is not None, "nginx listens")
        assert process.poll() is None, log.read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def is_listening(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
