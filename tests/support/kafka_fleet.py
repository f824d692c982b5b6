"""Pollers that share a fleet through a real broker, and what a test asks of them."""

import asyncio
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sandgauge_poller.config import Kafka
from sandgauge_poller.ingest.kafka.client import KafkaClients
from sandgauge_schemas import names
from support.feed import GYM, rollout_span, start_span, stop_span
from support.kafka_broker import KafkaBroker
from support.otlp_encodings import to_protobuf
from support.otlp_json import from_resource, traces
from support.otlp_proto import SeenSpan
from support.otlp_sink import OtlpSink
from support.running_poller import RunningPoller
from support.simulated_osb import SimulatedOsb
from support.waiting import wait_until

SAMPLE, SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
LIMITS = {"cpu": "500m", "memory": "128Mi"}
PARTITIONS = 8
INTERVAL_S = 1.0
TIMEOUT_S = 90.0


def sandbox_of(span: SeenSpan) -> str:
    return str(span.attributes[names.NEMO_GYM_SANDBOX_ID])


class Replica:
    """One of the pollers, and the receiver of what it alone has to say."""

    def __init__(self, folder: Path, broker: KafkaBroker, group: str, osb: SimulatedOsb, sink: OtlpSink) -> None:
        self.sink = sink
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
                        "session_timeout": "3s",
                    },
                },
                "deployments": [{"name": "training", "endpoint": osb.url}],
                "sampling": {"collection_interval": "1s", "min_interval": "500ms"},
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

    def create(self, count: int) -> None:
        """Create sandboxes; what stock Gym says of each names no rollout."""
        new = {self._osb.create(limits=LIMITS): secrets.token_hex(16) for _ in range(count)}
        self.traces |= new
        self.tell(start_span(id_, trace_id=trace, parent=secrets.token_hex(8)) for id_, trace in new.items())

    def end(self, sandbox_ids: Iterable[str]) -> None:
        """Delete sandboxes; the spans of their stops have traces of their own, as outside a rollout."""
        ended = sorted(sandbox_ids)
        for sandbox_id in ended:
            self._osb.delete(sandbox_id)
        self.tell(stop_span(sandbox_id) for sandbox_id in ended)

    def finish_rollouts(self) -> None:
        """Say which rollout each sandbox was of."""
        self.tell(rollout_span(trace, f"of-{sandbox_id}") for sandbox_id, trace in self.traces.items())

    def tell(self, spans: Iterable[dict[str, Any]]) -> None:
        asyncio.run(self._tell(list(spans)))

    async def _tell(self, spans: list[dict[str, Any]]) -> None:
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


def double_reads(readings: Iterable[SeenSpan]) -> int:
    """Return how many readings of a sandbox began before the one before was over, or less than half an interval on."""
    doubled = 0
    last: dict[str, int] = {}
    for span in sorted(readings, key=lambda span: span.start_ns):
        before = last.get(sandbox_of(span))
        doubled += before is not None and span.start_ns - before < INTERVAL_S * 1e9 / 4
        last[sandbox_of(span)] = span.start_ns
    return doubled


def readers(replicas: Iterable[Replica], since_ns: int) -> Counter[str]:
    """Return by how many pollers each sandbox was read."""
    return Counter(sandbox_id for replica in replicas for sandbox_id in replica.read_since(since_ns))
