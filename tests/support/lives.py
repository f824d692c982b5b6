"""Sandboxes of simulated deployments below one poller, each with its own story and its own view of the records."""

import secrets
from collections.abc import Callable
from typing import Any

from sandgauge_demo.deployment import Route
from sandgauge_schemas import names
from support.feed import feed, rollout_span, start_span, stop_span
from support.otlp_proto import SeenSpan
from support.otlp_sink import OtlpSink
from support.sandbox_records import SAMPLE, SandboxRecords
from support.simulated_osb import SimulatedOsb

ALLOCATION, SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION, names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
LIMITS = {"cpu": "500m", "memory": "128Mi"}
_TIMEOUT_S = 90.0


class Life:
    """One sandbox: what is done to it, and what the poller recorded of it."""

    def __init__(self, osb: SimulatedOsb, poller_endpoint: str, sink: OtlpSink, **spec: Any) -> None:
        self.osb = osb
        self.id = osb.create(**{"limits": LIMITS, **spec})
        self._endpoint = poller_endpoint
        self._sink = sink
        self._records = SandboxRecords(sink)
        self._trace_id = secrets.token_hex(16)

    def start(self, **attributes: Any) -> "Life":
        """Tell the poller of it."""
        scope = {names.NEMO_GYM_SANDBOX_SCOPE: self.osb.url}
        feed(self._endpoint, start_span(self.id, trace_id=self._trace_id, attributes={**scope, **attributes}))
        return self

    def begin(self) -> "Life":
        """Tell the poller of it, and wait for the first good reading."""
        self.start().wait_for(None, 1)
        return self

    def end(self, count: int = 1) -> dict[str, Any]:
        """Delete it, tell the poller, and return its summary, which is the one with that number."""
        self.osb.delete(self.id)
        self.stop()
        return self.summary(count)

    def stop(self, *, failed: bool = False) -> None:
        """Tell the poller that it was stopped, or that this failed."""
        feed(self._endpoint, stop_span(self.id, trace_id=self._trace_id, failed=failed))

    def finish_rollout(self) -> None:
        """Tell the poller that its rollout is over."""
        feed(self._endpoint, rollout_span(self._trace_id, f"rollout-of-{self.id}"))

    def samples(self) -> list[SeenSpan]:
        """Return its readings."""
        return self._records.of(self.id, SAMPLE)

    def errors(self) -> list[str | None]:
        """Return what came of each reading: an error type, or None."""
        return [span.attributes.get(names.ERROR_TYPE) for span in self.samples()]

    def allocations(self) -> list[dict[str, Any]]:
        """Return its allocations' attributes."""
        return [span.attributes for span in self._records.of(self.id, ALLOCATION)]

    def summaries(self) -> list[dict[str, Any]]:
        """Return its summaries' attributes."""
        return [span.attributes for span in self._records.of(self.id, SUMMARY)]

    def wait(self, condition: Callable[[], bool], timeout_s: float = _TIMEOUT_S) -> None:
        """Return once its records are so."""
        try:
            self._sink.wait_for(lambda _: condition(), timeout_s)
        except AssertionError:
            raise AssertionError(
                f"readings: {self.errors()}; allocations: {self.allocations()}; summaries: {self.summaries()}"
            ) from None

    def wait_for(self, error: str | None, more: int) -> None:
        """Return once so many more readings came out so; None is good ones."""
        before = self.errors().count(error)
        self.wait(lambda: self.errors().count(error) >= before + more)

    def wait_for_status_questions(self, more: int) -> None:
        """Return once the control plane was asked so many more times for the sandbox."""
        before = self.osb.count(Route.GET, self.id)
        self.osb.wait_for(before + more, Route.GET, self.id, timeout_s=_TIMEOUT_S)

    def summary(self, count: int = 1) -> dict[str, Any]:
        """Wait for the summary with that number and return it; there is no other."""
        self.wait(lambda: len(self.summaries()) >= count)
        assert len(self.summaries()) == count
        return self.summaries()[-1]


def end_of(summary: dict[str, Any]) -> str:
    """Return why the sandbox ended."""
    return str(summary[names.NEMO_GYM_SANDBOX_END_REASON])


def leaked(summary: dict[str, Any]) -> bool:
    """Return whether it had leaked."""
    return bool(summary[names.NEMO_GYM_SANDBOX_LEAKED])
