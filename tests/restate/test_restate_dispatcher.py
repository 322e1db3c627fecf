"""The adapter for Restate, with the real SDK over HTTP. A stand-in takes the place of the server."""

import asyncio
import base64
import json
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from headway.dispatch.opening import open_dispatcher
from headway.engine.external import Deliver, Dispatcher, DueJob, NotNow
from tests.free_ports import find_ports
from tests.restate.nodes import make_signing_key
from tests.restate.stand_in import StandIn, call, invoke, run_stand_in

PATIENCE_S = 60
SECRET = "5ec2e7" * 10


def build_address(stand_in: StandIn, more: str = "", ingress: str = "") -> str:
    return f"restate://{ingress or stand_in.address}?listen=127.0.0.1:{find_ports()}&admin={stand_in.address}{more}"


@asynccontextmanager
async def serving(address: str, deliver: Deliver) -> AsyncIterator[Dispatcher]:
    dispatcher = open_dispatcher(address, SECRET)
    task = asyncio.create_task(dispatcher.serve(deliver))
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield dispatcher
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def announce(dispatcher: Dispatcher, *job_ids: str, delay_ms: int = 0) -> None:
    """Announce jobs until all of them are accepted."""
    left = [DueJob(job_id, delay_ms, f"{job_id}:1") for job_id in job_ids]
    while refused := await dispatcher.announce(left):
        left = [job for job in left if job.job_id in refused]
        await asyncio.sleep(0.02)


class Inbox:
    """Notes the jobs that are delivered."""

    def __init__(self, refusals: int = 0) -> None:
        self.jobs: asyncio.Queue[str] = asyncio.Queue()
        self.refusals = refusals

    async def deliver(self, job_id: str) -> None:
        self.jobs.put_nowait(job_id)
        if self.refusals:
            self.refusals -= 1
            raise NotNow("all slots are taken")


def run(test: Callable[[StandIn], Any]) -> None:
    with run_stand_in() as stand_in:
        asyncio.run(test(stand_in))


async def wait_for(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


def test_announced_jobs_are_delivered() -> None:
    async def check(stand_in: StandIn) -> None:
        inbox = Inbox()
        names = {f"job-{number}" for number in range(40)}
        async with serving(build_address(stand_in), inbox.deliver) as dispatcher:
            await announce(dispatcher, *names)
            assert {await inbox.jobs.get() for _ in names} == names
            await wait_for(lambda: len(stand_in.attempts) == 40)
            await announce(dispatcher, "later", delay_ms=50)
            assert await inbox.jobs.get() == "later"
        assert set(stand_in.attempts) == {"done"}
        assert [(sent.delay, sent.key) for sent in stand_in.announcements][-1] == ("50ms", "later:1")

    run(check)


def test_the_registration_has_the_options_that_silent_jobs_need() -> None:
    async def check(stand_in: StandIn) -> None:
        address = build_address(stand_in, "&service=Blue")
        async with serving(address, Inbox().deliver):
            await wait_for(lambda: bool(stand_in.manifests))
        (deployment,), (manifest,) = stand_in.deployments, stand_in.manifests
        (service,) = manifest["services"]
        options = {name: value for name, value in service.items() if value is not None and name != "handlers"}
        # Restate reads these once per URL: if they change, so must the revision in it.
        assert deployment["uri"].endswith(f"/r1/{SECRET}")
        assert options == {
            "name": "Blue",
            "ty": "SERVICE",
            "inactivityTimeout": 86_400_000,
            "abortTimeout": 86_400_000,
            "journalRetention": 0,
            "idempotencyRetention": 120_000,
            "retryPolicyInitialInterval": 50,
            "retryPolicyExponentiationFactor": 2.0,
            "retryPolicyMaxInterval": 5_000,
            "retryPolicyMaxAttempts": 200,
            "retryPolicyOnMaxAttempts": "KILL",
        }
        assert manifest["protocolMode"] == "REQUEST_RESPONSE"
        assert (deployment["use_http_11"], deployment["force"]) == (True, False)

    run(check)


def test_a_job_that_has_to_wait_is_delivered_again() -> None:
    async def check(stand_in: StandIn) -> None:
        inbox = Inbox(refusals=2)
        async with serving(build_address(stand_in), inbox.deliver) as dispatcher:
            await announce(dispatcher, "busy")
            assert [await inbox.jobs.get() for _ in range(3)] == ["busy"] * 3
            await wait_for(lambda: stand_in.attempts == ["retry", "retry", "done"])

    run(check)


def test_a_delivery_that_nothing_can_take_ends_because_the_engine_announces_the_job_again() -> None:
    async def check(stand_in: StandIn) -> None:
        inbox = Inbox(refusals=1)
        async with serving(build_address(stand_in), inbox.deliver):
            await wait_for(lambda: bool(stand_in.services))
            body = json.dumps({"job_id": "old", "expires_at": int(time.time() * 1000) - 1}).encode()
            assert await asyncio.to_thread(invoke, stand_in.services["Headway"], "Headway", body) == "done"
        assert inbox.jobs.qsize() == 1

    run(check)


def test_what_is_not_an_announcement_reaches_no_job() -> None:
    async def check(stand_in: StandIn) -> None:
        inbox = Inbox()
        async with serving(build_address(stand_in), inbox.deliver):
            await wait_for(lambda: bool(stand_in.services))
            url = stand_in.services["Headway"]
            for body in (
                b'"job-1"',
                b"null",
                b'{"job_id": "a b", "expires_at": 1}',
                b'{"job_id": 1, "expires_at": 1}',
                b"{}",
                b"[1]",
            ):
                assert await asyncio.to_thread(invoke, url, "Headway", body) == "failed"
            assert await asyncio.to_thread(invoke, url, "Other", b"{}") == "404"
            status, _ = await asyncio.to_thread(call, url, "POST", "/invoke/Headway/deliver", b"{}", {})
            assert status >= 400
        assert inbox.jobs.empty()

    run(check)


def test_a_long_body_is_not_read() -> None:
    async def check(stand_in: StandIn) -> None:
        inbox = Inbox()
        async with serving(build_address(stand_in), inbox.deliver):
            await wait_for(lambda: bool(stand_in.services))
            body = json.dumps({"job_id": "x", "expires_at": 1, "more": "x" * 200_000}).encode()
            outcome = await asyncio.to_thread(lambda: catch(lambda: invoke(stand_in.services["Headway"], "Headway", body)))
            assert outcome in ("retry", "500") or outcome.startswith("error")
        assert inbox.jobs.empty()

    run(check)


def catch(work: Callable[[], str]) -> str:
    try:
        return work()
    except Exception as error:  # noqa: BLE001  a connection that is closed in the middle
        return f"error {error}"


def test_a_request_without_restates_signature_is_refused(tmp_path: Path) -> None:
    path, key = make_signing_key(tmp_path)

    async def check(stand_in: StandIn) -> None:
        inbox = Inbox()
        address = build_address(stand_in, f"&identity_key={key}")
        async with serving(address, inbox.deliver):
            await wait_for(lambda: bool(stand_in.deployments))
            url = stand_in.deployments[0]["uri"]
            body = json.dumps({"job_id": "job-1", "expires_at": 1}).encode()
            assert await asyncio.to_thread(invoke, url, "Headway", body) == "401"
            assert (await asyncio.to_thread(call, url, "GET", "/discover", b"", {}))[0] == 401
            assert (await asyncio.to_thread(call, url, "GET", "/health", b"", {}))[0] == 200
            signature = sign(path, key, "/invoke/Headway/deliver")
            assert await asyncio.to_thread(invoke, url, "Headway", body, signature) == "done"
        assert inbox.jobs.qsize() == 1

    run(check)


def test_a_caller_without_the_secret_of_the_url_delivers_nothing() -> None:
    wrong = [
        "",
        "/r1",
        f"/r1/{SECRET[:-1]}",
        f"/r1/{SECRET}0",
        f"/r1/{SECRET.upper()}",
        "/r1/%C3%A9",
        "/health",
        "/r1//",
        "/x" * 5_000,
    ]

    async def check(stand_in: StandIn) -> None:
        inbox = Inbox()
        async with serving(build_address(stand_in), inbox.deliver):
            await wait_for(lambda: bool(stand_in.services))
            url = stand_in.services["Headway"]
            assert url.endswith(f"/r1/{SECRET}")
            origin = url.removesuffix(f"/r1/{SECRET}")
            body = json.dumps({"job_id": "job-1", "expires_at": 1}).encode()
            for path in wrong:
                assert await asyncio.to_thread(invoke, origin + path, "Headway", body) == "401", path
                assert (await asyncio.to_thread(call, origin + path, "GET", "/discover", b"", {}))[0] == 401, path
            smuggled = f"/invoke/Headway/deliver?{SECRET}"
            assert (await asyncio.to_thread(call, origin, "POST", smuggled, body, {"authorization": SECRET}))[0] == 401
            assert inbox.jobs.empty()
            assert (await asyncio.to_thread(call, origin, "GET", "/health", b"", {}))[0] == 200
            assert await asyncio.to_thread(invoke, url, "Headway", body) == "done"

    run(check)


def test_the_secret_is_in_no_log_line_of_a_registration_that_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def check(stand_in: StandIn) -> None:
        stand_in.refusal = "cannot reach {uri}/discover"
        async with serving(build_address(stand_in), Inbox().deliver):
            await wait_for(lambda: "could not register" in caplog.text)
        assert "cannot reach http://" in caplog.text
        assert SECRET not in caplog.text

    run(check)


def sign(path: Path, key: str, audience: str) -> dict[str, str]:
    """The headers of a request that Restate has signed."""

    def encode(content: bytes) -> bytes:
        return base64.urlsafe_b64encode(content).rstrip(b"=")

    now = int(time.time())
    claims = {"aud": audience, "nbf": now - 60, "iat": now, "exp": now + 60}
    signed = b".".join(encode(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "EdDSA", "kid": key}, claims))
    signature = load_pem_private_key(path.read_bytes(), None).sign(signed)  # type: ignore[call-arg,union-attr]
    return {"x-restate-signature-scheme": "v1", "x-restate-jwt-v1": (signed + b"." + encode(signature)).decode()}


def test_after_the_loss_of_all_data_the_workers_register_again() -> None:
    async def check(stand_in: StandIn) -> None:
        inbox = Inbox()
        async with serving(build_address(stand_in), inbox.deliver) as dispatcher:
            await announce(dispatcher, "before")
            assert await inbox.jobs.get() == "before"
            stand_in.wipe()
            assert await dispatcher.announce([DueJob("after", 0, "after:1")]) == ["after"]
            await announce(dispatcher, "after")
            assert await inbox.jobs.get() == "after"
            assert len(stand_in.deployments) >= 2

    run(check)


def test_an_ingress_that_is_down_is_left_for_the_next_one() -> None:
    async def check(stand_in: StandIn) -> None:
        inbox = Inbox()
        down = f"127.0.0.1:{find_ports()}"
        for ingress in (f"{down},{stand_in.address}", f"{stand_in.address},{down}"):
            async with serving(build_address(stand_in, ingress=ingress), inbox.deliver) as dispatcher:
                await announce(dispatcher, "job-1")
                assert await inbox.jobs.get() == "job-1"

    run(check)


def test_without_an_ingress_no_job_is_accepted() -> None:
    async def check() -> None:
        dispatcher = open_dispatcher(f"restate://127.0.0.1:{find_ports()},127.0.0.1:{find_ports()}?identity_key=none", "")
        jobs = [DueJob(f"job-{number}", 0, "key") for number in range(40)]
        assert sorted(await dispatcher.announce(jobs)) == sorted(job.job_id for job in jobs)

    asyncio.run(check())


def test_a_stopped_process_accepts_nothing_more() -> None:
    async def check(stand_in: StandIn) -> None:
        begun, canceled = asyncio.Event(), asyncio.Event()

        async def deliver(_job_id: str) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                canceled.set()

        address = build_address(stand_in)
        async with serving(address, deliver) as dispatcher:
            await announce(dispatcher, "long")
            await begun.wait()
            host, port = stand_in.services["Headway"].removeprefix("http://").removesuffix(f"/r1/{SECRET}").split(":")
            kept = socket.create_connection((host, int(port)))
            handler = signal.getsignal(signal.SIGTERM)
        assert canceled.is_set()
        assert handler == signal.SIG_DFL  # the SDK would take it at its first request
        with kept, suppress(ConnectionResetError):
            assert await asyncio.to_thread(kept.recv, 1) == b""
        inbox = Inbox()
        async with serving(address, inbox.deliver):  # the delivery goes to the next process that listens there
            assert await inbox.jobs.get() == "long"

    run(check)
