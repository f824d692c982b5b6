"""Pollers that share a fleet through a real broker, and what a test asks of them."""

import asyncio
import re
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from sandgauge_poller.config import Kafka
from sandgauge_poller.ingest.kafka.client import KafkaClients
from sandgauge_schemas import names
from support.feed import GYM, rollout_span, start_span, stop_span
from support.kafka_broker import PASSWORD, USER, KafkaBroker
from support.otlp_encodings import to_protobuf
from support.otlp_json import from_resource, key_values, traces
from support.otlp_proto import SeenPoint, SeenSpan
from support.otlp_sink import OtlpSink, Received
from support.running_poller import RunningPoller
from support.simulated_osb import SimulatedOsb
from support.waiting import wait_until

SAMPLE, SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
LIMITS = {"cpu": "500m", "memory": "128Mi"}
PARTITIONS = 8
TIMEOUT_S = 90.0


def sandbox_of(span: SeenSpan) -> str:
    return str(span.attributes[names.NEMO_GYM_SANDBOX_ID])


class Replica:
    """One of the pollers, and the receiver of what it alone has to say; `secured` as the broker's other address is."""

    def __init__(
        self,
        folder: Path,
        broker: KafkaBroker,
        group: str,
        osb: SimulatedOsb,
        sink: OtlpSink,
        *,
        secured: bool = False,
    ) -> None:
        self.sink = sink
        security = {
            "brokers": [broker.secured_address],
            "tls": {"enabled": True, "ca_file": str(broker.authority)},
            "auth": {"sasl": {"username": USER, "password": PASSWORD}},
        }
        self.poller = RunningPoller(folder)
        self.poller.configure(
            {
                "ingest": {
                    "endpoint": self.poller.endpoint.removeprefix("http://"),
                    "kafka": {
                        "brokers": [broker.address],
                        "topic": f"{group}-lifecycle",
                        "group_id": group,
                        "partitions": PARTITIONS,
                        **(security if secured else {}),
                    },
                },
                "deployments": [{"name": "training", "endpoint": osb.url}],
                "sampling": {"collection_interval": "2s", "min_interval": "1s"},
                "tracking": {"orphan_grace": "2s"},
                "export": {"endpoint": sink.endpoint},
            }
        )

    def shares(self) -> list[int]:
        """Return how many partitions it was given, each time that it was."""
        messages = (entry["message"] for entry in self.poller.log())
        found = (re.match(r"(\d+) of \d+ partitions are this poller's", message) for message in messages)
        return [int(match[1]) for match in found if match]

    def readings(self, since_ns: int = 0) -> list[SeenSpan]:
        return [span for span in self.sink.spans(SAMPLE) if span.start_ns >= since_ns]

    def read_since(self, since_ns: int) -> set[str]:
        return {sandbox_of(span) for span in self.readings(since_ns)}


class KafkaFleet:
    """Sandboxes whose spans come by the lifecycle topic, as a Collector writes them: one message for each trace."""

    def __init__(self, broker: KafkaBroker, group: str, osb: SimulatedOsb) -> None:
        self._osb = osb
        self._clients = KafkaClients(Kafka(brokers=(broker.address,)))
        self._topic = f"{group}-lifecycle"
        self.traces: dict[str, str] = {}

    def create(self, count: int, *, rollout_known: bool = False) -> set[str]:
        """Create sandboxes, tell of them, and return their ids."""
        before = set(self.traces)
        self.tell(self.conceive(count, rollout_known=rollout_known))
        return set(self.traces) - before

    def conceive(self, count: int, *, rollout_known: bool = False) -> list[dict[str, Any]]:
        """Create sandboxes and return their spans: the start of each, and its request, which has another trace.

        Whose rollout they are of, their start spans say where it is known, and the rollout's own span at the end else.
        """
        new = {self._osb.create(limits=LIMITS): secrets.token_hex(16) for _ in range(count)}
        self.traces |= new
        spans = []
        for sandbox_id, trace in new.items():
            wish = {names.NEMO_GYM_SANDBOX_REQUEST_ID: f"wish-for-{sandbox_id}"}
            rollout = {names.NEMO_RUN_ID: "run", names.NEMO_GYM_ROLLOUT_ID: f"of-{sandbox_id}"} if rollout_known else {}
            start = start_span(sandbox_id, trace_id=trace, parent=secrets.token_hex(8), attributes={**wish, **rollout})
            request = {**start_span(sandbox_id), "name": names.SPAN_GYM_SANDBOX_REQUEST}
            request["attributes"] = key_values({**wish, names.NEMO_GYM_SANDBOX_REQUESTED_CPU: 2.0})
            spans += [start, request]
        return spans

    def end(self, sandbox_ids: Iterable[str]) -> None:
        """Delete sandboxes; the spans of their stops have traces of their own, as outside a rollout."""
        self.tell(map(self._end, sorted(sandbox_ids)))

    def finish_rollouts(self) -> None:
        """Say which rollout each sandbox was of."""
        self.tell(rollout_span(trace, f"of-{sandbox_id}") for sandbox_id, trace in self.traces.items())

    def tell(self, spans: Iterable[dict[str, Any]]) -> None:
        """Write one span after the other, each as soon as it is there: what it tells of has happened just before."""
        asyncio.run(self._tell(spans))

    def _end(self, sandbox_id: str) -> dict[str, Any]:
        self._osb.delete(sandbox_id)
        return stop_span(sandbox_id)

    async def _tell(self, spans: Iterable[dict[str, Any]]) -> None:
        producer = await self._clients.started(self._clients.producer())
        try:
            for span in spans:
                body = to_protobuf(traces(from_resource(GYM, span)))
                await producer.send(self._topic, key=span["traceId"].encode(), value=body)
            await producer.flush()
        finally:
            await producer.stop()


def wait_until_all_are_read(replicas: Iterable[Replica], sandbox_ids: set[str]) -> float:
    """Return after how many seconds each of the sandboxes has been read again, by any of the pollers."""
    began, since_ns = time.monotonic(), time.time_ns()
    everyone = list(replicas)

    def all_are_read() -> bool:
        return set().union(*(replica.read_since(since_ns) for replica in everyone)) >= sandbox_ids

    wait_until(all_are_read, timeout_s=TIMEOUT_S, what="a reading of every sandbox")
    return time.monotonic() - began


class Together:
    """What the receivers of several pollers got, as one."""

    def __init__(self, replicas: Iterable[Replica]) -> None:
        self._sinks = [replica.sink for replica in replicas]

    def spans(self, name: str) -> list[SeenSpan]:
        return [span for sink in self._sinks for span in sink.spans(name)]

    def points(self) -> list[SeenPoint]:
        return [point for sink in self._sinks for point in sink.points()]

    def requests(self) -> list[Received]:
        return [request for sink in self._sinks for request in sink.requests()]


def double_reads(replicas: Iterable[Replica]) -> tuple[int, int]:
    """Return how many readings there are, and how many began while another poller was reading the same sandbox."""
    readings = sorted(
        (
            (span.start_ns, span.end_ns, sandbox_of(span), number)
            for number, replica in enumerate(replicas)
            for span in replica.readings()
        ),
    )
    last: dict[str, tuple[int, int]] = {}
    doubled = 0
    for start_ns, end_ns, sandbox_id, number in readings:
        until_ns, reader = last.get(sandbox_id, (0, number))
        doubled += reader != number and start_ns < until_ns
        last[sandbox_id] = (end_ns, number)
    return len(readings), doubled


def owners(replicas: Iterable[Replica], since_ns: int) -> Counter[str]:
    """Return by how many pollers each sandbox was read."""
    return Counter(sandbox_id for replica in replicas for sandbox_id in replica.read_since(since_ns))


def longest_gap_s(replicas: Iterable[Replica]) -> float:
    """Return the longest time between the beginnings of two readings of a sandbox, by whichever poller."""
    times: dict[str, list[int]] = defaultdict(list)
    for replica in replicas:
        for span in replica.readings():
            times[sandbox_of(span)].append(span.start_ns)
    ordered = [sorted(each) for each in times.values()]
    return max(after - before for each in ordered for before, after in pairwise(each)) / 1e9
