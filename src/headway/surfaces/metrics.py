"""Metrics of this process for Prometheus, which `serve` and `worker` publish, and the lag of the event loop."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headway.ledger.errors import SettingsError
from headway.process.assembly import Headway

MODEL_COUNTERS: Final = {
    "calls": "Model calls that were answered",
    "input_tokens": "Tokens sent to models, cached ones included",
    "cached_tokens": "Input tokens that providers read from their prompt caches",
    "cache_write_tokens": "Input tokens that providers wrote to their prompt caches",
    "output_tokens": "Tokens received from models",
    "cost_usd": "Cost of model calls, in dollars",
}


class ProcessCollector:
    """Reads the totals when Prometheus asks for them."""

    def __init__(self, headway: Headway) -> None:
        self.headway = headway

    def collect(self) -> Iterator[Metric]:
        totals = self.headway.list_model_totals()
        for name, description in MODEL_COUNTERS.items():
            counter = CounterMetricFamily(f"headway_model_{name}", description, labels=("model",))
            for total in totals:
                counter.add_metric((total["model"],), total[name])
            yield counter
        ended = CounterMetricFamily("headway_jobs_ended", "Jobs that ended in this process", labels=("kind", "state"))
        engine = self.headway.find_engine()
        for labels, number in engine.runner.ended_jobs.copy().items() if engine else ():
            ended.add_metric(labels, number)
        yield ended
        running = engine.running.total() if engine else 0
        yield GaugeMetricFamily("headway_jobs_running", "Jobs that run in this process", value=running)


def build_process_registry(headway: Headway) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(ProcessCollector(headway))
    return registry


def serve_metrics(headway: Headway, port: int) -> str:
    """Serve the metrics of this process from another thread, and return their address."""
    host = headway.settings.host
    try:
        server, _thread = start_http_server(port, host, build_process_registry(headway))
    except OSError as error:
        raise SettingsError(f"Cannot serve metrics on {host}:{port}: {error.strerror}. Try another --metrics-port.") from error
    return f"http://{host}:{server.server_port}/metrics"


# Whatever blocks the event loop delays every request and every stream, so its lag is measured.

INTERVAL_S = 0.5
MEASUREMENTS = 20  # of the last ten seconds
LATE_S = 0.25
PATIENCE_S = 5.0


class LoopLag:
    """The lag of the event loop. If every measurement of the last five seconds is late, the loop cannot do its work."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.recent: deque[float] = deque([0.0], MEASUREMENTS)
        self.late_since: float | None = None
        self.timer: asyncio.TimerHandle | None = None

    @property
    def worst(self) -> float:
        """The largest lag of the last ten seconds."""
        return max(self.recent)

    @property
    def late_s(self) -> float:
        """For how long the loop has been late, without a measurement in between that was not."""
        return 0.0 if self.late_since is None else self.now() - self.late_since

    @property
    def is_bearable(self) -> bool:
        return self.late_s < PATIENCE_S

    def start(self) -> None:
        due = self.now() + INTERVAL_S
        self.timer = asyncio.get_running_loop().call_later(INTERVAL_S, self.measure, due)

    def stop(self) -> None:
        if self.timer:
            self.timer.cancel()

    def measure(self, due: float) -> None:
        self.record(max(0.0, self.now() - due))
        self.start()

    def record(self, lag: float) -> None:
        self.recent.append(lag)
        if lag < LATE_S:
            self.late_since = None
        elif self.late_since is None:
            self.late_since = self.now() - lag
